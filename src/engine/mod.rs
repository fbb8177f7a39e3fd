//! The engine for Rust programs: a handle that any thread may hold and clone. The models have their own thread, which answers
//! calls in order. Each call can be waited for, or awaited on any executor.

mod answer;
mod builder;
mod chat;
mod loading;
mod writing;

pub use answer::Answer;
pub use builder::EngineBuilder;
pub use chat::Chat;
pub use writing::{PrefillProgress, Writing};

use crate::cancel::CancelToken;
use crate::error::{Error, Result};
use crate::gpu::DeviceInfo;
use crate::options::{GenerateOptions, Pooling};
use crate::session::{Embedding, Generator, Prompt, Score};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

/// Task for the thread of the models; an error if the engine is closed.
type EngineCall = Box<dyn FnOnce(Result<&mut Generator>) + Send>;

/// Thread that owns the models.
struct Worker {
    /// `None`: no call follows.
    calls: Mutex<Option<Sender<EngineCall>>>,
    thread: Mutex<Option<JoinHandle<()>>>,
    /// Cancelled when the engine is closed.
    closing: CancelToken,
}

impl Worker {
    /// Returns a worker whose thread is yet to be set, and the receiver of its calls.
    fn new() -> (Self, Receiver<EngineCall>) {
        let (sender, calls) = channel();
        (Self { calls: Mutex::new(Some(sender)), thread: Mutex::default(), closing: CancelToken::default() }, calls)
    }

    /// Calls `call` on the thread, after all earlier calls.
    fn send(&self, call: EngineCall) {
        let calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        match &*calls {
            // This fails if the thread has panicked. Then the call is dropped, and waiting for it fails.
            Some(calls) => drop(calls.send(call)),
            None => call(Err(closed())),
        }
    }

    /// Joins the thread after its last call. A driver may crash if the program ends while a thread still uses it.
    fn join(&self) {
        *self.calls.lock().unwrap_or_else(PoisonError::into_inner) = None;
        let mut joining = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        // If loading fails, the thread itself drops the last reference, and cannot join itself.
        if let Some(thread) = joining.take_if(|thread| thread.thread().id() != thread::current().id()) {
            let _ = thread.join();
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.join();
    }
}

fn closed() -> Error {
    Error::Aborted { reason: "the engine is closed: load the model again".into() }
}

/// A model on a device, with an optional draft model. Dropping the last clone, or the last generation in progress, waits until
/// all calls are answered, and frees both.
#[derive(Clone)]
pub struct Engine {
    worker: Arc<Worker>,
    about: Arc<About>,
}

/// Facts known since loading.
struct About {
    device: DeviceInfo,
    warnings: Vec<String>,
}

impl Engine {
    /// Loads a model: a folder, a GGUF file or, with the feature `hub`, `owner/name[@revision][:file]` of the Hub.
    ///
    /// # Errors
    /// As [`EngineBuilder::load`].
    pub fn load(model: impl Into<String>) -> Result<Self> {
        Self::builder(model).load()
    }

    /// Returns a builder, for a draft model or other options.
    pub fn builder(model: impl Into<String>) -> EngineBuilder {
        EngineBuilder::new(model.into())
    }

    /// Continues a prompt (a text, messages or token ids), after all earlier calls. Iterate over the tokens, await them, or wait
    /// for the whole text; dropping the result cancels the generation.
    pub fn generate(&self, prompt: impl Into<Prompt>, options: GenerateOptions) -> Writing<'static> {
        Writing::begin(self, prompt.into(), options, None)
    }

    /// Starts a conversation. It draws tokens as the model's makers recommend, if no option of sampling is given. Conversations of one engine
    /// may alternate: the latest ones stay cached
    /// ([`prompt_cache_bytes`](crate::ContextOptions::prompt_cache_bytes)).
    pub fn chat(&self, options: GenerateOptions) -> Chat {
        Chat::new(self.clone(), options)
    }

    /// Returns the tokens of a prompt. The chat options apply.
    ///
    /// # Errors
    /// In the answer: [`Error::BadOption`](crate::Error::BadOption) for an empty prompt and for options that do not fit it,
    /// [`Error::BadTemplate`](crate::Error::BadTemplate), [`Error::BadTokenizer`](crate::Error::BadTokenizer).
    pub fn tokenize(&self, prompt: impl Into<Prompt>, options: GenerateOptions) -> Answer<Vec<u32>> {
        let prompt = prompt.into();
        self.call(move |generator| generator.encode(&prompt, &options))
    }

    /// Returns the text of token ids, with or without special tokens.
    ///
    /// # Errors
    /// In the answer: [`Error::BadTokenizer`](crate::Error::BadTokenizer).
    pub fn detokenize(&self, ids: impl Into<Vec<u32>>, skip_special_tokens: bool) -> Answer<String> {
        let ids = ids.into();
        self.call(move |generator| generator.tokenizer().decode(&ids, skip_special_tokens))
    }

    /// Returns the embedding of a text: its pooled hidden states after the final norm, divided by their L2 norm if `normalize`.
    /// All models must run on one device.
    ///
    /// # Errors
    /// In the answer: as [`Engine::tokenize`], [`Error::ContextFull`](crate::Error::ContextFull), and device errors.
    pub fn embed(&self, text: impl Into<Prompt>, pooling: Pooling, normalize: bool) -> Answer<Embedding> {
        let text = text.into();
        self.call(move |generator| pollster::block_on(generator.embed(&text, pooling, normalize)))
    }

    /// Returns the likelihood of each continuation of a prompt, from unprocessed logits. The prompt is read once. A text is
    /// appended as it is, so it begins with the space that belongs there. All models must run on one device.
    ///
    /// # Errors
    /// In the answer: as [`Engine::embed`].
    pub fn score<P: Into<Prompt>>(
        &self,
        prompt: impl Into<Prompt>,
        continuations: impl IntoIterator<Item = P>,
    ) -> Answer<Vec<Score>> {
        let (prompt, continuations) = (prompt.into(), continuations.into_iter().map(Into::into).collect::<Vec<_>>());
        self.call(move |generator| pollster::block_on(generator.score(&prompt, &continuations)))
    }

    /// Runs `work` on the thread of the models, after all earlier calls.
    #[doc(hidden)]
    pub fn call<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Generator) -> Result<T> + Send + 'static,
    ) -> Answer<T> {
        let (answer, sender) = Answer::new();
        self.worker.send(Box::new(move |generator| sender.send(generator.and_then(work))));
        answer
    }

    /// Closes the engine and all its clones: ends the generation in progress, frees the models, and waits until the thread has ended.
    /// Calls that wait, and later ones, fail with [`Error::Aborted`](crate::Error::Aborted).
    pub fn close(&self) {
        self.worker.closing.cancel();
        self.worker.join();
    }

    /// Returns the device that computes.
    pub fn device(&self) -> &DeviceInfo {
        &self.about.device
    }

    /// Returns the warnings of loading, for the user.
    pub fn warnings(&self) -> &[String] {
        &self.about.warnings
    }
}
