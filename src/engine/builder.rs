//! How an engine is loaded.

use super::{About, Answer, Call, Engine, Writer};
use crate::checkpoint::of_assistant;
use crate::error::{Error, Result};
use crate::files;
use crate::options::LoadOptions;
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

    /// Where the models run, how they are stored, and how much text is held.
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
    /// [`Error::NotFound`] for what is not there; of its files [`Error::BadConfig`], [`Error::BadWeights`], [`Error::BadTokenizer`] and
    /// [`Error::UnsupportedArchitecture`]; of a download [`Error::Network`] and [`Error::Integrity`]; of the device
    /// [`Error::WebGpuUnavailable`] and [`Error::OutOfGpuMemory`]; [`Error::BadOption`].
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
            let mut writer = match self.writer() {
                Ok(writer) => writer,
                Err(error) => return asked.answer(Err(error)),
            };
            let about = About { device: writer.device().clone(), warnings: writer.warnings().to_vec() };
            asked.answer(Ok(Engine { calls, about: Arc::new(about) }));
            for call in called {
                call(&mut writer);
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
    fn writer(mut self) -> Result<Writer> {
        self.options.validate()?;
        let target = files::open("model", &self.model, &mut self.on_progress)?;
        let assistant = self.assistant_model.as_deref();
        let assistant = assistant.map(|name| files::open("assistant_model", name, &mut self.on_progress));
        let assistant = assistant.transpose().map_err(of_assistant)?;
        pollster::block_on(Writer::load(target, assistant, &self.options, &mut self.on_progress))
    }
}
