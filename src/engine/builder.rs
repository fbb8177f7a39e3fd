//! How an engine is loaded.

use super::{About, Answer, Call, Engine};
use crate::checkpoint::of_assistant;
use crate::device::Device;
use crate::error::{Error, Result};
use crate::files;
use crate::gpu::GpuOptions;
use crate::options::{DeviceChoice, LoadOptions};
use crate::session::Session;
use std::sync::Arc;
use std::sync::mpsc;
use std::thread;

/// What to load, and how.
#[must_use = "nothing is loaded before load()"]
pub struct EngineBuilder {
    model: String,
    assistant_model: Option<String>,
    options: LoadOptions,
    on_progress: Box<dyn FnMut(u64, u64) + Send>,
}

impl EngineBuilder {
    pub(super) fn new(model: String) -> Self {
        Self { model, assistant_model: None, options: LoadOptions::default(), on_progress: Box::new(|_, _| ()) }
    }

    /// The draft model, named as the model is.
    pub fn assistant_model(mut self, model: impl Into<String>) -> Self {
        self.assistant_model = Some(model.into());
        self
    }

    /// Where the models run.
    pub fn device(mut self, device: DeviceChoice) -> Self {
        self.options.device = device;
        self
    }

    /// All options of loading; those that were set before are gone.
    pub fn options(mut self, options: LoadOptions) -> Self {
        self.options = options;
        self
    }

    /// Hears of bytes that came and of all bytes: first of a download, where there is one, then of those that reach the device.
    pub fn on_progress(mut self, hear: impl FnMut(u64, u64) + Send + 'static) -> Self {
        self.on_progress = Box::new(hear);
        self
    }

    /// Loads it, and blocks until that is done.
    ///
    /// # Errors
    /// As [`Session::load`]; [`Error::NotFound`]; of a download [`Error::Network`] and [`Error::Integrity`].
    pub fn load(self) -> Result<Engine> {
        self.load_async().wait()
    }

    /// Loads it.
    ///
    /// # Errors
    /// Of the answer: as [`EngineBuilder::load`].
    pub fn load_async(self) -> Answer<Engine> {
        let (answer, asked) = Answer::new();
        let (calls, called) = mpsc::channel::<Call>();
        let work = move || {
            let (mut session, device) = match self.session() {
                Ok(loaded) => loaded,
                Err(error) => return asked.answer(Err(error)),
            };
            let warnings = session.warnings().to_vec();
            let about = Arc::new(About { device: device.info().clone(), warnings });
            asked.answer(Ok(Engine { calls, about }));
            for call in called {
                call(&mut session);
            }
        };
        if let Err(error) = thread::Builder::new().name("foretoken".into()).spawn(work) {
            let (failed, asked) = Answer::new();
            asked.answer(Err(Error::Internal { reason: format!("no thread for the engine: {error}") }));
            return failed;
        }
        answer
    }

    /// On the thread where it stays.
    fn session(mut self) -> Result<(Session, Device)> {
        self.options.validate()?;
        let target = files::open("model", &self.model, &mut self.on_progress)?;
        let assistant = self.assistant_model.as_deref();
        let assistant = assistant.map(|name| files::open("assistant_model", name, &mut self.on_progress));
        let assistant = assistant.transpose().map_err(of_assistant)?;
        pollster::block_on(async {
            let (device, reason) = Device::open(self.options.device, &GpuOptions::default()).await?;
            let mut session =
                Session::load(device.clone(), target, assistant, &self.options, &mut self.on_progress).await?;
            session.warnings.extend(reason);
            Ok((session, device))
        })
    }
}
