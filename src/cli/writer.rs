//! How many targets write, and bringing them to the device.

use super::load::{On, Pair, Room};
use crate::device::Device;
use crate::error::Result;
use crate::gpu::GpuOptions;
use crate::options::LoadOptions;
use crate::parallel::{self, Parallel, Servers};

/// How many targets, and where.
#[derive(clap::Args)]
pub(super) struct Targets {
    /// Instances of the target that verify at the same time (distributed speculative inference), each with its own device,
    /// weights and cache; pays with several GPUs of one kind
    #[arg(long, value_name = "N", value_parser = super::count, default_value_t = 1)]
    sp_degree: usize,
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

/// What continues a prompt here.
pub(super) type Writer = parallel::Writer<Servers>;

/// Loads what the options ask for.
pub(super) async fn load(pair: &Pair, options: &LoadOptions) -> Result<Writer> {
    let assistant = pair.assistant()?;
    if !options.is_parallel(assistant.is_some()) {
        let (device, reason) = Device::open(options.device, &GpuOptions::default()).await?;
        let mut session = pair.load(device, options).await?;
        session.warnings.extend(reason);
        return Ok(Writer::Session(Box::new(session)));
    }
    let parallel = Parallel::load(&GpuOptions::default(), pair.target()?, assistant, options).await?;
    Ok(Writer::Parallel(Box::new(parallel)))
}
