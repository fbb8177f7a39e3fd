//! Options that select the targets, and loading.

use super::bar::Bar;
use super::load::{On, Pair, Room};
use crate::error::Result;
use crate::options::LoadOptions;
use crate::remote::{Endpoint, Http, Key};
use crate::weights::Source;
use std::rc::Rc;

/// Number and location of the targets.
#[derive(clap::Args)]
pub(super) struct Targets {
    /// Instances of the target that verify at the same time (distributed speculative inference), each with its own device, weights and
    /// cache; pays with several GPUs of one kind
    #[arg(long, value_name = "N", value_parser = super::count, default_value_t = 1)]
    sp_degree: usize,
    /// Use the target on this server of vLLM or SGLang; --model then names it for its tokenizer and configuration, without weights. Repeat
    /// for servers with the same model: if one fails, others take over, and --sp-degree N sends N requests at a time, to each in turn.
    /// FORETOKEN_API_KEY is the key
    #[arg(long, value_name = "URL")]
    target_url: Vec<String>,
    /// Name of the target on the server [default: as in --model]
    #[arg(long, value_name = "NAME", requires = "target_url")]
    target_model: Option<String>,
    #[command(flatten)]
    on: On,
    /// Device of the draft model: auto (that of the target), or cpu, at the same time as the target
    #[arg(long, value_name = "DEVICE", default_value = "auto")]
    draft_device: String,
}

impl Targets {
    /// Returns validated load options.
    pub fn options(&self, room: &Room) -> Result<LoadOptions> {
        let options = self.on.set(room.options()?)?;
        let options = options.sp_degree(self.sp_degree).draft_device(self.draft_device.parse()?);
        if self.target_url.is_empty() {
            options.validate()?
        } else {
            options.validate_elsewhere()?
        }
        Ok(options)
    }
}

impl Targets {
    /// Returns the target's server; `None`: the target is local.
    fn endpoint(&self, pair: &Pair) -> Result<Option<Endpoint>> {
        if self.target_url.is_empty() {
            return Ok(None);
        }
        let model = self.target_model.as_deref().or(pair.model.as_deref()).unwrap_or_default();
        let mut endpoint = Endpoint::new(&self.target_url, model)?;
        endpoint.api_key = std::env::var("FORETOKEN_API_KEY").ok().map(|key| Key::new(&key)).transpose()?;
        Ok(Some(endpoint))
    }

    /// Returns the target's name.
    pub fn name(&self, pair: &Pair) -> Result<String> {
        match self.endpoint(pair)? {
            Some(endpoint) => Ok(endpoint.model),
            None => Ok(pair.target()?.model_name()),
        }
    }
}

pub(super) use crate::parallel::Writer;

/// Loads the models.
pub(super) async fn load(pair: &Pair, targets: &Targets, options: &LoadOptions) -> Result<Writer> {
    let bar = Bar::loading();
    let mut loaded = |done, all| bar.show(done, all);
    match targets.endpoint(pair)? {
        Some(endpoint) => {
            let (transport, words, assistant) = (Rc::new(Http::default()), pair.words()?, pair.assistant()?);
            Writer::connect(transport, endpoint, words, assistant, options, &mut loaded).await
        }
        None => Writer::load(pair.target()?, pair.assistant()?, options, &mut loaded).await,
    }
}
