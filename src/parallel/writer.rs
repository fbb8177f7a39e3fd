//! Who writes: a session, or a target on several servers.

use super::{Crew, Parallel};
use crate::error::{Error, Result};
use crate::gpu::DeviceInfo;
use crate::options::GenerateOptions;
use crate::session::{Generation, Progress, Prompt, Session};
use crate::text::{Tokenizer, ToolFormat};
use std::ops::ControlFlow;

/// What continues a prompt, with the same text either way.
pub enum Writer<C> {
    /// One target.
    Session(Box<Session>),
    /// Several.
    Parallel(Box<Parallel<C>>),
}

impl<C: Crew> Writer<C> {
    /// The session, for what several instances do not do.
    ///
    /// # Errors
    /// [`Error::BadOption`] where there are several.
    pub fn session(&mut self) -> Result<&mut Session> {
        match self {
            Self::Session(session) => Ok(session),
            Self::Parallel(_) => Err(Error::BadOption {
                option: "sp_degree".into(),
                value: "several instances".into(),
                allowed: "1, with draft_device auto, for embeddings and scores".into(),
            }),
        }
    }

    /// The device, or the kind of all devices.
    pub fn device(&self) -> &DeviceInfo {
        match self {
            Self::Session(session) => session.engine().device(),
            Self::Parallel(parallel) => parallel.device(),
        }
    }

    /// What the user should know of the loading, in words.
    pub fn warnings(&self) -> &[String] {
        match self {
            Self::Session(session) => session.warnings(),
            Self::Parallel(parallel) => parallel.warnings(),
        }
    }

    /// The target's tokenizer.
    pub fn tokenizer(&self) -> &Tokenizer {
        match self {
            Self::Session(session) => session.tokenizer(),
            Self::Parallel(parallel) => parallel.tokenizer(),
        }
    }

    /// How the target's chat template writes calls of tools.
    pub fn tool_format(&self) -> Option<ToolFormat> {
        match self {
            Self::Session(session) => session.tool_format(),
            Self::Parallel(parallel) => parallel.tool_format(),
        }
    }

    /// The tokens of a prompt.
    ///
    /// # Errors
    /// As [`Session::encode`].
    pub fn encode(&self, prompt: &Prompt, options: &GenerateOptions) -> Result<Vec<u32>> {
        match self {
            Self::Session(session) => session.encode(prompt, options),
            Self::Parallel(parallel) => parallel.encode(prompt, options),
        }
    }

    /// Continues a prompt.
    ///
    /// # Errors
    /// As [`Session::generate`] and [`Parallel::generate`].
    pub async fn generate(
        &mut self,
        prompt: &Prompt,
        options: &GenerateOptions,
        on_progress: &mut dyn FnMut(Progress<'_>) -> ControlFlow<()>,
    ) -> Result<Generation> {
        match self {
            Self::Session(session) => session.generate(prompt, options, on_progress).await,
            Self::Parallel(parallel) => parallel.generate(prompt, options, on_progress).await,
        }
    }
}
