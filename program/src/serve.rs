//! `foretoken serve`: a server with OpenAI's API.

use super::Failure;
use super::options::{CapacityFlags, DeviceFlags, ParallelFlags};
use foretoken_serve::ServeFlags;

/// Server and loading of its models.
#[derive(clap::Args)]
pub(super) struct ServeArgs {
    #[command(flatten)]
    server: ServeFlags,
    #[command(flatten)]
    capacity: CapacityFlags,
    #[command(flatten)]
    device: DeviceFlags,
    #[command(flatten)]
    parallel: ParallelFlags,
}

impl ServeArgs {
    pub fn run_command(&self, json: bool) -> Result<(), Failure> {
        let options = self.parallel.set(self.device.set(self.capacity.options()?)?)?;
        Ok(foretoken_serve::serve(&self.server, options, json)?)
    }
}
