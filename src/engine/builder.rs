//! Loading of an engine.

use super::loading::{CancellableFolder, Loading};
use super::{About, Answer, Engine, Worker, closed};
#[cfg(feature = "remote")]
use crate::backend::server::{Endpoint, Http, Key};
use crate::cancel::CancelToken;
use crate::checkpoint::of_assistant;
use crate::error::{Error, Result};
use crate::files;
use crate::options::LoadOptions;
use crate::parallel;
use crate::session::Generator;
use std::sync::{Arc, PoisonError};
use std::thread;

/// Models and options of an engine to load.
#[must_use = "nothing is loaded before load()"]
pub struct EngineBuilder {
    model: String,
    assistant_model: Option<String>,
    #[cfg(feature = "remote")]
    served: Served,
    options: LoadOptions,
    cancel: CancelToken,
    on_progress: Box<dyn FnMut(u64, u64) + Send>,
}

/// Servers that run the target.
#[cfg(feature = "remote")]
#[derive(Default)]
struct Served {
    urls: Vec<String>,
    model: Option<String>,
    key: Option<Result<Key>>,
}

impl EngineBuilder {
    pub(super) fn new(model: String) -> Self {
        Self {
            model,
            assistant_model: None,
            #[cfg(feature = "remote")]
            served: Served::default(),
            options: LoadOptions::default(),
            cancel: CancelToken::default(),
            on_progress: Box::new(|_, _| ()),
        }
    }

    /// Runs the target on this vLLM or SGLang server, `http://host:port`; of the named model only tokenizer and configuration are
    /// read. Each further call adds a server, which takes over if another fails.
    #[cfg(feature = "remote")]
    pub fn target_url(mut self, url: impl Into<String>) -> Self {
        self.served.urls.push(url.into());
        self
    }

    /// Sets the target's name on the servers. Default: the name of the model.
    #[cfg(feature = "remote")]
    pub fn target_model(mut self, name: impl Into<String>) -> Self {
        self.served.model = Some(name.into());
        self
    }

    /// Sets the API key of the servers. It is sent to no other server and never shown.
    #[cfg(feature = "remote")]
    pub fn api_key(mut self, key: &str) -> Self {
        self.served.key = Some(Key::new(key));
        self
    }

    /// Sets the draft model; same syntax as for the model.
    pub fn assistant_model(mut self, model: impl Into<String>) -> Self {
        self.assistant_model = Some(model.into());
        self
    }

    /// Sets where the models run, how they are stored, and how much text fits.
    pub fn options(mut self, options: LoadOptions) -> Self {
        self.options = options;
        self
    }

    /// Sets a callback for progress, called with the bytes so far and all bytes: first of a download, if needed, then of loading
    /// to the device.
    pub fn on_progress(mut self, report: impl FnMut(u64, u64) + Send + 'static) -> Self {
        self.on_progress = Box::new(report);
        self
    }

    /// Sets a token that cancels the load, from any thread: [`EngineBuilder::load`] fails with [`Error::Aborted`], and what was
    /// downloaded stays in the cache. After the load the token has no effect.
    pub fn cancel_token(mut self, cancel: CancelToken) -> Self {
        self.cancel = cancel;
        self
    }

    /// Loads the engine, and blocks until that is done. After another error than [`Error::BadOption`] you can fall back to a server
    /// ([`EngineBuilder::target_url`]).
    ///
    /// # Errors
    /// [`Error::NotFound`] for a missing model; [`Error::BadConfig`], [`Error::BadWeights`], [`Error::BadTokenizer`] and
    /// [`Error::UnsupportedArchitecture`] for its files; [`Error::Network`] and [`Error::Integrity`] for a download;
    /// [`Error::WebGpuUnavailable`] and [`Error::OutOfGpuMemory`] for the device; [`Error::BadOption`]; [`Error::Aborted`].
    pub fn load(self) -> Result<Engine> {
        self.load_async().wait()
    }

    /// Loads the engine without blocking.
    ///
    /// # Errors
    /// In the answer: as [`EngineBuilder::load`].
    pub fn load_async(self) -> Answer<Engine> {
        let (answer, sender) = Answer::new();
        let (worker, calls) = Worker::new();
        let closing = worker.closing.clone();
        let worker = Arc::new(worker);
        let own = worker.clone();
        let work = move || {
            let mut generator = match self.generator() {
                Ok(generator) => generator,
                Err(error) => return sender.send(Err(error)),
            };
            let about = About { device: generator.device().clone(), warnings: generator.warnings().to_vec() };
            sender.send(Ok(Engine { worker: own, about: Arc::new(about) }));
            for call in calls {
                call(if closing.is_cancelled() { Err(closed()) } else { Ok(&mut *generator) });
            }
        };
        // Held until the thread is set: a join has to wait for it.
        let mut joining = worker.thread.lock().unwrap_or_else(PoisonError::into_inner);
        match thread::Builder::new().name("foretoken".into()).spawn(work) {
            Ok(thread) => {
                *joining = Some(thread);
                answer
            }
            Err(error) => {
                let (failed, sender) = Answer::new();
                sender.send(Err(Error::Internal { reason: format!("no thread for the engine: {error}") }));
                failed
            }
        }
    }

    /// Loads the models; runs on the thread that keeps them.
    fn generator(self) -> Result<Box<Generator>> {
        #[cfg(feature = "remote")]
        let served = self.served;
        #[cfg(feature = "remote")]
        let is_served = !served.urls.is_empty();
        #[cfg(not(feature = "remote"))]
        let is_served = false;
        let (model, options, cancel, mut on_progress) = (self.model, &self.options, &self.cancel, self.on_progress);
        if is_served { options.validate_elsewhere() } else { options.validate() }?;
        let loading = Loading::new(cancel.clone());
        let cancellable = |folder| CancellableFolder { folder, loading: loading.clone() };
        let assistant = self.assistant_model.as_deref();
        let assistant = assistant.map(|name| files::open("assistant_model", name, cancel, &mut on_progress));
        let assistant = assistant.transpose().map_err(of_assistant)?.map(cancellable);
        #[cfg(feature = "remote")]
        if is_served {
            let words = cancellable(files::words("model", &model, cancel, &mut on_progress)?);
            let mut endpoint = Endpoint::new(&served.urls, served.model.as_ref().unwrap_or(&model))?;
            endpoint.api_key = served.key.transpose()?;
            let http = std::rc::Rc::new(Http::default());
            let connecting = parallel::connect(http, endpoint, Box::new(words), assistant, options, &mut on_progress);
            let generator = pollster::block_on(cancel.unless_cancelled(connecting));
            loading.finish();
            return generator;
        }
        let target = cancellable(files::open("model", &model, cancel, &mut on_progress)?);
        let generator = parallel::load(target, assistant, options, &mut on_progress);
        let generator = pollster::block_on(cancel.unless_cancelled(generator));
        loading.finish();
        generator
    }
}
