//! Who writes: a session, or a target on several servers.

#[cfg(not(target_arch = "wasm32"))]
use super::Servers;
use super::{Crew, Parallel};
#[cfg(not(target_arch = "wasm32"))]
use crate::device::Device;
use crate::error::{Error, Result};
use crate::gpu::DeviceInfo;
#[cfg(not(target_arch = "wasm32"))]
use crate::gpu::GpuOptions;
use crate::options::GenerateOptions;
#[cfg(not(target_arch = "wasm32"))]
use crate::options::LoadOptions;
#[cfg(feature = "remote")]
use crate::remote::{Endpoint, Http};
use crate::session::{Generation, Progress, Prompt, Session};
use crate::text::{Tokenizer, ToolFormat};
#[cfg(not(target_arch = "wasm32"))]
use crate::weights::Source;
use std::ops::ControlFlow;
#[cfg(feature = "remote")]
use std::rc::Rc;

/// What continues a prompt, with the same text either way.
pub enum Writer<C> {
    /// One target.
    Session(Box<Session>),
    /// Several.
    Parallel(Box<Parallel<C>>),
}

#[cfg(not(target_arch = "wasm32"))]
impl Writer<Servers> {
    /// Loads a target and, if given, a draft model, on the devices that the options say. `loaded` hears of bytes that are there and
    /// of all bytes, where one device has the models.
    ///
    /// # Errors
    /// As [`Session::load`].
    pub async fn load<S, A>(
        target: S,
        assistant: Option<A>,
        options: &LoadOptions,
        loaded: &mut dyn FnMut(u64, u64),
    ) -> Result<Self>
    where
        S: Source + Clone + Send + 'static,
        A: Source + Clone + Send + 'static,
    {
        let gpu = GpuOptions::default();
        if options.is_parallel(assistant.is_some()) {
            return Ok(Self::Parallel(Box::new(Parallel::load(&gpu, target, assistant, options).await?)));
        }
        let (device, reason) = Device::open(options.device, &gpu).await?;
        let mut session = Session::load(device, target, assistant, options, loaded).await?;
        session.warnings.extend(reason);
        Ok(Self::Session(Box::new(session)))
    }
}

#[cfg(feature = "remote")]
impl Writer<Servers> {
    /// Connects to servers that have a target, and loads a draft model here, if given, where the options say.
    ///
    /// # Errors
    /// As [`Session::connect`].
    pub async fn connect<S, A>(
        endpoint: &Endpoint,
        words: S,
        assistant: Option<A>,
        options: &LoadOptions,
        loaded: &mut dyn FnMut(u64, u64),
    ) -> Result<Self>
    where
        S: Source + 'static,
        A: Source + Clone + Send + 'static,
    {
        let gpu = GpuOptions::default();
        if options.is_parallel(assistant.is_some()) {
            let parallel = Parallel::connect(&gpu, endpoint, words, assistant, options).await?;
            return Ok(Self::Parallel(Box::new(parallel)));
        }
        let (mut drafting, mut warning) = (None, None);
        if let Some(files) = assistant {
            let (device, reason) = Device::open(options.device, &gpu).await?;
            (drafting, warning) = (Some((device, files)), reason);
        }
        let transport = Rc::new(Http::new());
        let mut session = Session::connect(transport, endpoint, words, drafting, options, loaded).await?;
        session.warnings.extend(warning);
        Ok(Self::Session(Box::new(session)))
    }
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
