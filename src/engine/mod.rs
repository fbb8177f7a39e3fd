//! The engine for programs: a handle that any thread may hold and clone. The models are on a thread of their own, which answers calls
//! one after the other; each call can be waited for, or awaited on any executor.

mod answer;
mod builder;
mod chat;
mod writing;

pub use answer::Answer;
pub use builder::EngineBuilder;
pub use chat::Chat;
pub use writing::{CancelToken, Writing};

use crate::error::Result;
use crate::gpu::DeviceInfo;
use crate::options::{GenerateOptions, Pooling};
use crate::parallel::Writer;
use crate::session::{Embedding, Prompt, Score};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, OnceLock};
use std::thread::{self, JoinHandle};

/// What the thread of the models does next.
type Call = Box<dyn FnOnce(&mut Writer) + Send>;

/// The thread that has the models.
struct Worker {
    /// None once no more calls come.
    calls: Option<Sender<Call>>,
    thread: OnceLock<JoinHandle<()>>,
}

impl Worker {
    /// Returns a worker whose thread is yet to be set, and the receiver of its calls.
    fn new() -> (Self, Receiver<Call>) {
        let (calls, called) = channel();
        (Self { calls: Some(calls), thread: OnceLock::new() }, called)
    }
}

impl Drop for Worker {
    /// Waits for the thread: a driver may not outlive the program's end by a thread that still uses it.
    fn drop(&mut self) {
        self.calls = None;
        // Where loading fails, the thread itself is the last that has it.
        let other = self.thread.take().filter(|thread| thread.thread().id() != thread::current().id());
        if let Some(thread) = other {
            let _ = thread.join();
        }
    }
}

/// A model, and the draft model that guesses for it, on a device. Dropping the last clone, or the last text that is being written, waits
/// until all calls are answered, and frees both.
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
    worker: Arc<Worker>,
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
    pub fn generate(&self, prompt: impl Into<Prompt>, options: GenerateOptions) -> Writing<'static> {
        Writing::begin(self, prompt.into(), options, None)
    }

    /// A conversation. Those of one engine may take turns: what is cached of the latest ones stays
    /// ([`prompt_cache_bytes`](crate::ContextOptions::prompt_cache_bytes)).
    pub fn chat(&self, options: GenerateOptions) -> Chat {
        Chat::new(self.clone(), options)
    }

    /// The tokens of a prompt, under those options that are of a chat.
    ///
    /// # Errors
    /// Of the answer: [`Error::BadOption`](crate::Error::BadOption) for an empty prompt and for options that do not fit it,
    /// [`Error::BadTemplate`](crate::Error::BadTemplate), [`Error::BadTokenizer`](crate::Error::BadTokenizer).
    pub fn tokenize(&self, prompt: impl Into<Prompt>, options: GenerateOptions) -> Answer<Vec<u32>> {
        let prompt = prompt.into();
        self.call(move |writer| writer.encode(&prompt, &options))
    }

    /// The text of some tokens, with or without special ones.
    ///
    /// # Errors
    /// Of the answer: [`Error::BadTokenizer`](crate::Error::BadTokenizer).
    pub fn detokenize(&self, ids: impl Into<Vec<u32>>, skip_special_tokens: bool) -> Answer<String> {
        let ids = ids.into();
        self.call(move |writer| writer.tokenizer().decode(&ids, skip_special_tokens))
    }

    /// The embedding of a text: its hidden states after the final norm, pooled and, if `normalize`, divided by their length. One
    /// device must have the models.
    ///
    /// # Errors
    /// Of the answer: as [`Engine::tokenize`], [`Error::ContextFull`](crate::Error::ContextFull), and what the device reports.
    pub fn embed(&self, text: impl Into<Prompt>, pooling: Pooling, normalize: bool) -> Answer<Embedding> {
        let text = text.into();
        self.call(move |writer| pollster::block_on(writer.session()?.embed(&text, pooling, normalize)))
    }

    /// How likely each continuation of a prompt is, by the model's logits as they are. The prompt is read once; a text continues it as
    /// it is, so it begins with the space that belongs there. One device must have the models.
    ///
    /// # Errors
    /// Of the answer: as [`Engine::embed`].
    pub fn score<P: Into<Prompt>>(
        &self,
        prompt: impl Into<Prompt>,
        continuations: impl IntoIterator<Item = P>,
    ) -> Answer<Vec<Score>> {
        let (prompt, continuations) = (prompt.into(), continuations.into_iter().map(Into::into).collect::<Vec<_>>());
        self.call(move |writer| pollster::block_on(writer.session()?.score(&prompt, &continuations)))
    }

    /// Does something with the models on their thread, behind the calls before.
    fn call<T: Send + 'static>(&self, work: impl FnOnce(&mut Writer) -> Result<T> + Send + 'static) -> Answer<T> {
        let (answer, asked) = Answer::new();
        // Where the thread is gone, so is the answer's other end, which says so.
        let call: Call = Box::new(move |writer| asked.answer(work(writer)));
        let _ = self.worker.calls.as_ref().map(|calls| calls.send(call));
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;
    use crate::options::{DeviceChoice, LoadOptions};
    use std::cell::Cell;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Duration;

    fn load() -> Engine {
        let model = concat!(env!("CARGO_MANIFEST_DIR"), "/models/tales/draft");
        Engine::builder(model).options(LoadOptions::new().device(DeviceChoice::Cpu)).load().unwrap()
    }

    /// Sets a flag when the engine's thread ends.
    struct Ends(Arc<AtomicBool>);

    impl Drop for Ends {
        fn drop(&mut self) {
            thread::sleep(Duration::from_millis(50));
            self.0.store(true, Ordering::SeqCst);
        }
    }

    thread_local! {
        static KEPT: Cell<Option<Ends>> = const { Cell::new(None) };
    }

    #[test]
    fn the_thread_ends_with_the_last_engine_or_text() {
        let engine = load();
        let has_ended = Arc::new(AtomicBool::new(false));
        let ends = Ends(has_ended.clone());
        let keep = move |_: &mut Writer| {
            KEPT.set(Some(ends));
            Ok(())
        };
        engine.call(keep).wait().unwrap();
        let mut text = engine.generate("Once", GenerateOptions::new());
        drop(engine);
        text.next().unwrap().unwrap();
        assert!(!has_ended.load(Ordering::SeqCst));
        drop(text);
        assert!(has_ended.load(Ordering::SeqCst));
    }

    #[test]
    fn a_breakdown_is_told() {
        let engine = load();
        let broken = engine.call::<()>(|_| panic!("on purpose"));
        assert!(matches!(broken.wait(), Err(Error::Internal { .. })));
        assert!(matches!(engine.generate("Once", GenerateOptions::new()).wait(), Err(Error::Internal { .. })));
    }
}
