//! A loaded target: a session, or several instances.

use super::Parallel;
use crate::error::{Error, Result};
use crate::gpu::{Counters, DeviceInfo};
use crate::model::Memory;
use crate::options::GenerateOptions;
use crate::session::{Generation, Progress, Prompt, Prompts, Session};
use crate::text::{Tokenizer, ToolFormat};
use std::ops::ControlFlow;

/// A loaded target. Both variants write the same text.
pub enum Writer {
    /// One target.
    Session(Box<Session>),
    /// Several instances.
    Parallel(Box<Parallel>),
}

impl Writer {
    /// Returns the session, for operations that several instances do not support.
    ///
    /// # Errors
    /// [`Error::BadOption`] if there are several instances.
    pub fn session(&mut self) -> Result<&mut Session> {
        match self {
            Self::Session(session) => Ok(session),
            Self::Parallel(parallel) => {
                let (option, value) = parallel.split_by();
                let allowed = "the default, for embeddings and scores".into();
                Err(Error::BadOption { option: option.into(), value, allowed })
            }
        }
    }

    /// Returns the device, or the kind of all devices.
    pub fn device(&self) -> &DeviceInfo {
        match self {
            Self::Session(session) => session.engine().device(),
            Self::Parallel(parallel) => parallel.device(),
        }
    }

    /// Returns the planned bytes of the target and of the draft model. `None`: not on this thread.
    pub fn memory(&self) -> [Option<Memory>; 2] {
        match self {
            Self::Session(session) => [Some(session.engine().memory()), session.engine().draft_memory()],
            Self::Parallel(parallel) => [None, parallel.local.borrow().as_ref().map(|device| device.memory)],
        }
    }

    /// Returns the counters of this thread's device.
    pub fn counters(&self) -> Counters {
        match self {
            Self::Session(session) => session.engine().counters(),
            Self::Parallel(parallel) => {
                parallel.local.borrow().as_ref().map(|local| local.device.counters()).unwrap_or_default()
            }
        }
    }

    /// Returns warnings about loading, for the user.
    pub fn warnings(&self) -> &[String] {
        match self {
            Self::Session(session) => session.warnings(),
            Self::Parallel(parallel) => parallel.warnings(),
        }
    }

    /// Returns the settings of the target's files.
    fn prompts(&self) -> &Prompts {
        match self {
            Self::Session(session) => &session.prompts,
            Self::Parallel(parallel) => &parallel.prompts,
        }
    }

    /// Returns the target's tokenizer.
    pub fn tokenizer(&self) -> &Tokenizer {
        &self.prompts().tokenizer
    }

    /// Returns the chat template's format of tool calls.
    pub fn tool_format(&self) -> Option<ToolFormat> {
        self.prompts().template.as_ref()?.tool_format()
    }

    /// Returns the tokens of a prompt.
    pub fn encode(&self, prompt: &Prompt, options: &GenerateOptions) -> Result<Vec<u32>> {
        self.prompts().encode(prompt, options)
    }

    /// Returns true if a text is drawn at random under these options.
    pub fn draws(&self, options: &GenerateOptions) -> bool {
        options.sampling.draws(&self.prompts().sampling)
    }

    /// Continues a prompt.
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
