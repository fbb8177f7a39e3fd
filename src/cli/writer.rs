//! How many targets write, and bringing them to the device.

use super::bar::Bar;
use super::load::{On, Pair, Room};
use crate::device::Device;
use crate::error::Result;
use crate::gpu::GpuOptions;
use crate::options::LoadOptions;
use crate::parallel::{self, Parallel, Servers};
use crate::remote::{Endpoint, Http, Key};
use crate::session::Session;
use crate::weights::{Folder, Source};
use std::rc::Rc;

/// How many targets, and where.
#[derive(clap::Args)]
pub(super) struct Targets {
    /// Instances of the target that verify at the same time (distributed speculative inference), each with its own device,
    /// weights and cache; pays with several GPUs of one kind
    #[arg(long, value_name = "N", value_parser = super::count, default_value_t = 1)]
    sp_degree: usize,
    /// The target is on this server of vLLM or SGLang; --model then names it for its tokenizer and configuration, without weights.
    /// Several servers have the same: others take over where one fails, and --sp-degree asks them in turn. FORETOKEN_API_KEY is the key
    #[arg(long, value_name = "URL")]
    target_url: Vec<String>,
    /// What the target is called there [default: as --model says]
    #[arg(long, value_name = "NAME", requires = "target_url")]
    target_model: Option<String>,
    #[command(flatten)]
    on: On,
    /// Where the draft model runs: auto (where the target runs), or cpu, at the same time as the target
    #[arg(long, value_name = "DEVICE", default_value = "auto")]
    draft_device: String,
}

impl Targets {
    /// The options of loading, validated.
    pub fn options(&self, room: &Room) -> Result<LoadOptions> {
        let options = room
            .options()?
            .sp_degree(self.sp_degree)
            .device(self.on.device()?)
            .draft_device(self.draft_device.parse()?);
        options.validate()?;
        Ok(options)
    }
}

impl Targets {
    /// Where the target is, if it is not here.
    fn endpoint(&self, pair: &Pair) -> Result<Option<Endpoint>> {
        if self.target_url.is_empty() {
            return Ok(None);
        }
        let model = self.target_model.as_deref().or(pair.model.as_deref()).unwrap_or_default();
        let mut endpoint = Endpoint::new(&self.target_url, model)?;
        endpoint.api_key = std::env::var("FORETOKEN_API_KEY").ok().map(|key| Key::new(&key)).transpose()?;
        Ok(Some(endpoint))
    }

    /// What the target is called.
    pub fn name(&self, pair: &Pair) -> Result<String> {
        match self.endpoint(pair)? {
            Some(endpoint) => Ok(endpoint.model),
            None => Ok(pair.target()?.name()),
        }
    }
}

/// What continues a prompt here.
pub(super) type Writer = parallel::Writer<Servers>;

/// Loads what the options ask for.
pub(super) async fn load(pair: &Pair, targets: &Targets, options: &LoadOptions) -> Result<Writer> {
    let assistant = pair.assistant()?;
    if let Some(endpoint) = targets.endpoint(pair)? {
        return connect(pair.words()?, assistant, &endpoint, options).await;
    }
    if !options.is_parallel(assistant.is_some()) {
        let (device, reason) = Device::open(options.device, &GpuOptions::default()).await?;
        let mut session = pair.load(device, options).await?;
        session.warnings.extend(reason);
        return Ok(Writer::Session(Box::new(session)));
    }
    let parallel = Parallel::load(&GpuOptions::default(), pair.target()?, assistant, options).await?;
    Ok(Writer::Parallel(Box::new(parallel)))
}

/// The same for a target on servers.
async fn connect(words: Folder, assistant: Option<Folder>, endpoint: &Endpoint, options: &LoadOptions) -> Result<Writer> {
    if options.is_parallel(assistant.is_some()) {
        let parallel = Parallel::connect(&GpuOptions::default(), endpoint, words, assistant, options).await?;
        return Ok(Writer::Parallel(Box::new(parallel)));
    }
    let (drafting, reason) = match assistant {
        None => (None, None),
        Some(files) => {
            let (device, reason) = Device::open(options.device, &GpuOptions::default()).await?;
            (Some((device, files)), reason)
        }
    };
    let bar = Bar::new("loading {bar:30} {bytes} of {total_bytes}, {eta} left");
    let mut loaded = |done, all| bar.show(done, all);
    let mut session =
        Session::connect(Rc::new(Http::new()), endpoint, words, drafting, options, &mut loaded).await?;
    session.warnings.extend(reason);
    Ok(Writer::Session(Box::new(session)))
}
