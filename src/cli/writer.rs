//! Who writes: a session, or a target on several servers.

use super::load::{Pair, Room};
use crate::error::Result;
use crate::gpu::{DeviceInfo, GpuOptions};
use crate::options::{GenerateOptions, LoadOptions};
use crate::parallel::Parallel;
use crate::session::{Generation, Prompt, Session, Token};
use std::ops::ControlFlow;

/// How many targets.
#[derive(clap::Args)]
pub(super) struct Targets {
    /// Instances of the target that verify at the same time (distributed speculative inference), each with its own device,
    /// weights and cache; pays with several GPUs of one kind
    #[arg(long, value_name = "N", value_parser = super::count, default_value_t = 1)]
    sp_degree: usize,
}

impl Targets {
    /// The options of loading, validated.
    pub fn options(&self, room: &Room) -> Result<LoadOptions> {
        let options = LoadOptions { sp_degree: self.sp_degree, ..room.options()? };
        options.validate()?;
        Ok(options)
    }
}

/// What continues a prompt.
pub(super) enum Writer {
    Session(Box<Session>),
    Parallel(Box<Parallel>),
}

impl Writer {
    /// Loads what the options ask for.
    pub async fn load(pair: &Pair, options: &LoadOptions) -> Result<Self> {
        if options.sp_degree == 1 {
            return Ok(Self::Session(Box::new(pair.load(options).await?)));
        }
        let parallel = Parallel::load(&GpuOptions::default(), pair.target()?, pair.assistant()?, options).await?;
        Ok(Self::Parallel(Box::new(parallel)))
    }

    pub fn device(&self) -> &DeviceInfo {
        match self {
            Self::Session(session) => session.engine().gpu().info(),
            Self::Parallel(parallel) => parallel.device(),
        }
    }

    pub fn encode(&self, prompt: &Prompt) -> Result<Vec<u32>> {
        match self {
            Self::Session(session) => session.encode(prompt),
            Self::Parallel(parallel) => parallel.encode(prompt),
        }
    }

    pub async fn generate(
        &mut self,
        prompt: &Prompt,
        options: &GenerateOptions,
        on_token: &mut dyn FnMut(&Token) -> ControlFlow<()>,
    ) -> Result<Generation> {
        match self {
            Self::Session(session) => session.generate(prompt, options, on_token).await,
            Self::Parallel(parallel) => parallel.generate(prompt, options, on_token),
        }
    }
}
