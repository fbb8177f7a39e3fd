//! START HERE. A prompt becomes text: prefill, then rounds of draft, verify, accept, emit, until something ends it.
//!
//! ```text
//!  prompt ─> text::Tokenizer ─> prefill ─┐
//!            ┌───────────────────────────┘
//!            v                                                                    session::rounds
//!      tokens ──> Drafter::draft ──> draft tokens ──┐
//!         │                                         v
//!         └────> pending token ──────────> Target::submit : 1 submission, and beside it what the round before emitted
//!                                          Target::finish : 1 readback
//!                                                   │ draft tokens, target's ids
//!                                                   v
//!            ┌──── emit <── accept : longest common prefix, then one token of the target's own
//!            v
//!      text::TextStream ─> text::StopStrings ─> the caller
//! ```

mod constrained;
mod emit;
mod logprobs;
mod measure;
mod prompt_cache;
mod prompts;
mod rounds;
mod saved;
pub(crate) mod setup;
mod shift;
mod timing;

use crate::constraint::{Constrained, Grammars, Shared};
use crate::device::Engine;
use crate::error::{Error, Result};
use crate::gpu::Gpu;
use crate::options::{GenerateOptions, Speculation};
use crate::speculate::{NoDrafter, Origin, Stats};
use crate::target::{DRAFT_MODEL, Target};
use crate::text::{Tokenizer, ToolFormat};
use constrained::UnderConstraint;
pub use emit::Sink;
pub(crate) use emit::{Emitter, unless_left};
pub use logprobs::TokenLogprob;
pub use measure::{Embedding, Score};
pub(crate) use prompt_cache::PromptCache;
pub use prompts::Prompt;
pub(crate) use prompts::Prompts;
pub use rounds::{Run, rounds};
use serde::Serialize;
pub(crate) use setup::Learned;
use std::ops::ControlFlow;
use std::pin::Pin;
use std::rc::Rc;

/// A loaded model pair and the text that it has seen.
pub struct Session {
    pub(crate) engine: Engine,
    pub(crate) prompts: Prompts,
    pub(crate) learned: Learned,
    pub(crate) prompt_cache: PromptCache,
    /// What [`GenerateOptions::response_format`] needs, once it was asked for.
    pub(crate) grammars: Option<Box<dyn Grammars>>,
    pub(crate) origin: Box<dyn Origination>,
    /// What the user should know about the models.
    pub(crate) warnings: Vec<String>,
}

/// What a caller hears while a text is written; each time it may break off.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Progress<'a> {
    /// The target has read so many tokens of the prompt, those that were cached included. A prompt of one chunk is read
    /// before anything is heard. A draft model reads the prompt behind the target; as long as it does, `done` is `of`.
    Prefill {
        /// Tokens read.
        done: usize,
        /// Tokens to read: all but the prompt's last one.
        of: usize,
    },
    /// A token.
    Token(&'a Token),
    /// Nothing new of a target on a server. Whoever wants no more of it wakes the task, and is asked.
    Waiting,
}

/// A generated token.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Token {
    /// Its id.
    pub id: u32,
    /// The text that it completes: empty in the middle of a character, or while a stop string may be beginning.
    pub text: String,
    /// Who proposed it.
    pub origin: Origin,
    /// Its log-probability, and the most likely tokens in its place, where they were asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub logprobs: Option<TokenLogprob>,
}

/// Why a generation ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[non_exhaustive]
#[serde(rename_all = "snake_case")]
pub enum FinishReason {
    /// An end-of-text token or a stop string.
    Stop,
    /// `max_new_tokens`, or the context is full.
    Length,
    /// The caller broke off.
    Aborted,
}

/// A finished generation.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Generation {
    /// The text, without what ended it.
    pub text: String,
    /// All generated tokens, the one that ended it included.
    pub token_ids: Vec<u32>,
    /// Of each of them, where they were asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub logprobs: Vec<TokenLogprob>,
    /// Why it ended.
    pub finish_reason: FinishReason,
    /// What it did.
    pub stats: Stats,
}

impl Session {
    /// The models and their device.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// What the user should know of the loading, in words; the statistics of each text repeat it.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// The target's tokenizer.
    pub fn tokenizer(&self) -> &Tokenizer {
        &self.prompts.tokenizer
    }

    /// How the target's chat template writes calls of tools; none where it does not say so in a known way.
    pub fn tool_format(&self) -> Option<ToolFormat> {
        self.prompts.template.as_ref()?.tool_format()
    }

    /// The tokens of a prompt, under those options that are of a chat.
    ///
    /// # Errors
    /// [`Error::BadOption`] for an empty prompt and for options that do not fit it, [`Error::BadTemplate`],
    /// [`Error::BadTokenizer`].
    pub fn encode(&self, prompt: &Prompt, options: &GenerateOptions) -> Result<Vec<u32>> {
        self.prompts.encode(prompt, options)
    }

    /// From now on these say what a [`GenerateOptions::response_format`] allows. They know the target's vocabulary.
    pub fn constrain_by(&mut self, grammars: Box<dyn Grammars>) {
        self.grammars = Some(grammars);
    }

    /// The bytes of each of the target's tokens, as [`Tokenizer::vocabulary`] gives them, and the tokens that end a text.
    pub fn vocabulary(&self) -> (Vec<Vec<u8>>, &[u32]) {
        let Prompts { tokenizer, spec, .. } = &self.prompts;
        (tokenizer.vocabulary(spec.vocab_size), &spec.eos_token_id)
    }

    /// What a text behind a prompt of so many tokens is held to.
    fn constraint(&mut self, options: &GenerateOptions, prompt: usize) -> Result<Option<Shared>> {
        let Some(format) = options.response_format.as_ref().filter(|format| format.constrains()) else {
            return Ok(None);
        };
        #[cfg(feature = "grammar")]
        if self.grammars.is_none() {
            let (vocabulary, ends) = self.vocabulary();
            self.grammars = Some(Box::new(crate::grammar::Llguidance::new(vocabulary, ends)?));
        }
        let Some(grammars) = &self.grammars else {
            let allowed = "none, without the feature `grammar` or Session::constrain_by".into();
            return Err(Error::BadOption { option: "response_format".into(), value: "a form".into(), allowed });
        };
        let spec = &self.prompts.spec;
        let tokenizer = self.prompts.tokenizer.clone();
        let encode =
            Box::new(move |before: &[u32], text: &str| tokenizer.encode_behind(before, text).unwrap_or_default());
        Ok(Some(Constrained::new(grammars.compile(format)?, encode, prompt, spec.vocab_size, &spec.eos_token_id)))
    }

    /// Continues a prompt. `on_progress` hears how the prompt is read, and of each token, and may break off. When the device
    /// is lost, the models are set up again on a new one and the text goes on: it is the same as without the loss.
    ///
    /// # Errors
    /// [`Error::BadOption`], [`Error::ContextFull`], [`Error::GpuBlocked`], and what text and device report. The session
    /// stays usable.
    pub async fn generate(
        &mut self,
        prompt: &Prompt,
        options: &GenerateOptions,
        on_progress: &mut dyn FnMut(Progress<'_>) -> ControlFlow<()>,
    ) -> Result<Generation> {
        options.validate()?;
        let (prompt, num_dropped_messages) = self.prompts.fit(prompt, options)?;
        let ends = self.prompts.spec.eos_token_id.clone();
        let values = options.sampling.values(&self.prompts.sampling)?;
        let sampling = setup::sampling(options, &values, &self.prompts.spec, prompt.len())?;
        let constraint = self.constraint(options, prompt.len())?;
        let mut out = Emitter::new(&self.prompts.tokenizer, &prompt, &ends, options, on_progress);
        let prediction = match &options.drafting.prediction {
            Some(text) => self.prompts.tokenizer.encode(text, false)?,
            None => Vec::new(),
        };
        out.constraint = constraint.clone();
        let mut run = Run::new(&prompt);
        run.overlap = options.drafting.overlap;
        run.stats.num_dropped_messages = num_dropped_messages;
        run.stats.seed = values.do_sample.then_some(sampling.seed);
        run.stats.warnings.extend(setup::idle(options, &values));
        run.stats.sampling = values;
        run.stats.warnings.extend(setup::missing(&options.drafting, self.engine.draft_memory().is_some()));
        let (mut lost_at, mut drafts) = (None, true);
        loop {
            let ended = async {
                self.prompt_cache.turn_to(&mut self.engine, &run.tokens).await?;
                self.engine.constrain(constraint.clone())?;
                self.engine.sample_by(&sampling)?;
                let read = self.engine.cached_of(&prompt);
                let read = self.engine.draft_memory().map(|_| read.min(self.engine.draft_cached()));
                let mut drafter = match drafts {
                    true => self.learned.drafter(&options.drafting, &prediction, &run, &ends, read),
                    false => Box::new(NoDrafter),
                };
                if let Some(constraint) =
                    constraint.clone().filter(|_| options.drafting.speculation == Speculation::Auto)
                {
                    drafter = Box::new(UnderConstraint::new(constraint, drafter));
                }
                rounds(&mut self.engine, &mut *drafter, &mut run, &ends, &mut out).await
            };
            match ended.await {
                // A device that is lost again before it did anything would be lost for ever.
                Err(Error::DeviceLost { reason })
                    if lost_at != Some(run.tokens.len())
                        && let Some(gpu) = self.engine.gpu().cloned() =>
                {
                    lost_at = Some(run.tokens.len());
                    self.prompt_cache.clear();
                    (self.engine, self.warnings) = self.origin.engine(gpu.reopen().await?).await?;
                    let emitted = run.stats.num_emitted_tokens;
                    let warning = format!("the GPU was lost after {emitted} tokens and set up again ({reason})");
                    run.stats.warnings.push(warning);
                    run.stats.warnings.extend(setup::other_device(gpu.info(), self.engine.device()));
                }
                // What it proposes is only a guess.
                Err(ref error @ Error::NonFiniteLogits { ref model, .. }) if model == DRAFT_MODEL => {
                    drafts = false;
                    run.stats.warnings.push(format!("the text goes on without the draft model ({error})"));
                }
                Err(error) => {
                    if let Error::OutOfGpuMemory { .. } | Error::Internal { .. } = error {
                        // Where this fails, too, the next call hears of it.
                        let _ = self.engine.reset();
                    }
                    return Err(error);
                }
                Ok(()) => break,
            }
        }
        let (masks, forced) = constraint.map_or((0.0, 0), |constraint| {
            let constraint = constraint.borrow();
            (constraint.seconds, constraint.forced_rounds)
        });
        run.stats.times.masks = masks;
        run.stats.arithmetic = self.engine.arithmetic();
        run.stats.speculating = self.learned.speculating(&options.drafting, forced);
        let differing = self.engine.warning().map(str::to_owned);
        run.stats.warnings.splice(0..0, self.warnings.iter().cloned().chain(differing));
        out.finish(run.stats)
    }
}

/// An engine to come, and what the user should know about its models.
pub(crate) type Building<'a> = Pin<Box<dyn Future<Output = Result<(Engine, Vec<String>)>> + 'a>>;

/// Where a session's engine comes from, and comes from again after its device was lost.
pub(crate) trait Origination {
    /// The same models on another GPU.
    fn engine(&self, gpu: Rc<Gpu>) -> Building<'_>;
}
