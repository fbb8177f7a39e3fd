//! How many targets write, and bringing them to the device.

use super::load::{Pair, Room};
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
    /// Where the models run: auto, webgpu (GPUs, by Vulkan, Metal or DirectX), cpu. auto takes the CPU where there is no GPU
    #[arg(long, value_name = "DEVICE", default_value = "auto")]
    device: String,
}

impl Targets {
    /// The options of loading, validated.
    pub fn options(&self, room: &Room) -> Result<LoadOptions> {
        let options = LoadOptions { sp_degree: self.sp_degree, device: self.device.parse()?, ..room.options()? };
        options.validate()?;
        Ok(options)
    }
}

/// What continues a prompt here.
pub(super) type Writer = parallel::Writer<Servers>;

/// Loads what the options ask for.
pub(super) async fn load(pair: &Pair, options: &LoadOptions) -> Result<Writer> {
    if options.sp_degree == 1 {
        let (device, reason) = Device::open(options.device).await?;
        let mut session = pair.load(device, options).await?;
        session.warnings.extend(reason);
        return Ok(Writer::Session(Box::new(session)));
    }
    let parallel = Parallel::load(&GpuOptions::default(), pair.target()?, pair.assistant()?, options).await?;
    Ok(Writer::Parallel(Box::new(parallel)))
}
