//! The engine for programs: a handle that any thread may hold and clone. The models are on a thread of their own, which answers calls
//! one after the other; each call can be waited for, or awaited on any executor.

mod answer;
mod builder;
mod chat;
mod writing;

pub use answer::Answer;
pub use builder::EngineBuilder;
pub use chat::{Chat, Turn};
pub use writing::{CancelToken, Writing};

use crate::error::Result;
use crate::gpu::DeviceInfo;
use crate::options::GenerateOptions;
use crate::session::{Prompt, Session};
use std::sync::Arc;
use std::sync::mpsc::Sender;

/// What the models' thread does next.
type Call = Box<dyn FnOnce(&mut Session) + Send>;

/// A model, and the draft model that guesses for it, on a device. The last clone frees both.
///
/// ```no_run
/// let engine = foretoken::Engine::load("HuggingFaceTB/SmolLM2-360M-Instruct")?;
/// for token in engine.generate("Once upon a time", Default::default()) {
///     print!("{}", token?.text);
/// }
/// # Ok::<(), foretoken::Error>(())
/// ```
#[derive(Clone)]
pub struct Engine {
    calls: Sender<Call>,
    about: Arc<About>,
}

/// What is known since loading.
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

    /// The same, with a draft model or other options.
    pub fn builder(model: impl Into<String>) -> EngineBuilder {
        EngineBuilder::new(model.into())
    }

    /// Continues a prompt, at once or behind the calls before: a text, messages, or token ids. Iterate over the tokens, await them, or
    /// take the whole; dropping it ends the text.
    pub fn generate(&self, prompt: impl Into<Prompt>, options: GenerateOptions) -> Writing {
        Writing::begin(self, prompt.into(), options)
    }

    /// A conversation. Those of one engine may take turns: what is cached of the latest ones stays
    /// ([`crate::LoadOptions::prompt_cache_bytes`]).
    pub fn chat(&self, options: GenerateOptions) -> Chat {
        Chat::new(self.clone(), options)
    }

    /// The tokens of a prompt, under those options that are of a chat.
    ///
    /// # Errors
    /// Of the answer: as [`Session::encode`].
    pub fn tokenize(&self, prompt: impl Into<Prompt>, options: GenerateOptions) -> Answer<Vec<u32>> {
        let prompt = prompt.into();
        self.call(move |session| session.encode(&prompt, &options))
    }

    /// The text of some tokens, with or without special ones.
    ///
    /// # Errors
    /// Of the answer: [`crate::Error::BadTokenizer`].
    pub fn detokenize(&self, ids: impl Into<Vec<u32>>, skip_special_tokens: bool) -> Answer<String> {
        let ids = ids.into();
        self.call(move |session| session.tokenizer().decode(&ids, skip_special_tokens))
    }

    /// Does something with the session on its thread, behind the calls before.
    ///
    /// # Errors
    /// Of the answer: what `work` returns.
    pub fn call<T: Send + 'static>(&self, work: impl FnOnce(&mut Session) -> Result<T> + Send + 'static) -> Answer<T> {
        let (answer, asked) = Answer::new();
        // Where the thread is gone, so is the answer's other end, which says so.
        let _ = self.calls.send(Box::new(move |session| asked.answer(work(session))));
        answer
    }

    /// The device that computes.
    pub fn device(&self) -> &DeviceInfo {
        &self.about.device
    }

    /// What the user should know of the loading, in words.
    pub fn warnings(&self) -> &[String] {
        &self.about.warnings
    }
}
