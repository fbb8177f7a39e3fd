//! START HERE. A session continues a prompt: prefill, then rounds of draft, verify, accept and emit, until the text ends.
//!
//! ```text
//!  prompt ─> text::Tokenizer ─> prefill ─┐
//!            ┌───────────────────────────┘
//!            v                                                                    session::rounds
//!      tokens ──> Drafter::draft ──> draft tokens ──┐
//!         │                                         v
//!         └────> pending token ──────────> Target::submit : 1 submission; meanwhile the previous round is emitted
//!                                          Target::finish : 1 readback
//!                                                   │ draft tokens, target's ids
//!                                                   v
//!            ┌──── emit <── accept : longest common prefix, then one token of the target's own
//!            v
//!      text::TextStream ─> text::StopStrings ─> the caller
//! ```

mod call;
mod cancel;
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

use crate::backend::Backend;
use crate::constraint::{Constrained, Grammars, Shared};
use crate::error::{Error, Result};
use crate::gpu::Gpu;
use crate::options::{GenerateOptions, Speculation};
use crate::speculate::{NoDrafter, Origin, Stats};
use crate::target::{DRAFT_MODEL, Target};
use crate::text::{Tokenizer, ToolFormat};
pub(crate) use call::Call;
pub use cancel::CancelToken;
pub(crate) use cancel::unless_cancelled;
use constrained::UnderConstraint;
pub(crate) use emit::Emitter;
pub use emit::Sink;
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

/// A loaded model pair and its cached text.
pub struct Session {
    pub(crate) engine: Backend,
    pub(crate) prompts: Prompts,
    pub(crate) learned: Learned,
    pub(crate) prompt_cache: PromptCache,
    /// Compiler of [`GenerateOptions::response_format`]; `None` until first needed.
    pub(crate) grammars: Option<Box<dyn Grammars>>,
    pub(crate) origin: Box<dyn Origination>,
    /// Warnings about the models, for the user.
    pub(crate) warnings: Vec<String>,
}

/// Event passed to the callback of a running generation; each call may abort the generation.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Progress<'a> {
    /// The target has read `done` prompt tokens, cached ones included. A prompt of one chunk is not reported. A draft model reads
    /// the prompt after the target; meanwhile `done` equals `of`.
    Prefill {
        /// Tokens read.
        done: usize,
        /// Tokens to read: all but the prompt's last token.
        of: usize,
    },
    /// A new token.
    Token(&'a Token),
    /// No new data yet from a target on a server. To abort, wake the task: then this event is reported again.
    Waiting,
}

/// A generated token.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Token {
    /// Token id.
    pub id: u32,
    /// Text that the token completes: empty in the middle of a character, or while a stop string may have begun.
    pub text: String,
    /// Source of the token.
    pub origin: Origin,
    /// Log-probabilities of the token and of the most likely alternatives, if requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub logprobs: Option<TokenLogprob>,
}

/// Reason for the end of a generation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[non_exhaustive]
#[serde(rename_all = "snake_case")]
pub enum FinishReason {
    /// An end-of-text token or a stop string, or the `response_format` is complete.
    Stop,
    /// `max_new_tokens` reached, or the context is full.
    Length,
    /// Aborted by the caller.
    Aborted,
}

/// A finished generation.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Generation {
    /// Text without the token or string that ended it.
    pub text: String,
    /// All generated tokens, including the token that ended the text.
    pub token_ids: Vec<u32>,
    /// Log-probabilities of each token, if requested.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub logprobs: Vec<TokenLogprob>,
    /// Reason for the end.
    pub finish_reason: FinishReason,
    /// Statistics of the run.
    pub stats: Stats,
}

impl Session {
    /// Returns the models and their device.
    pub fn engine(&self) -> &Backend {
        &self.engine
    }

    /// Returns the models and their device, for direct use.
    pub fn engine_mut(&mut self) -> &mut Backend {
        &mut self.engine
    }

    /// Returns the warnings of loading. The statistics of each generation repeat them.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Returns the target's tokenizer.
    pub fn tokenizer(&self) -> &Tokenizer {
        &self.prompts.tokenizer
    }

    /// Returns the format of tool calls in the target's chat template; `None` if the template has no known format.
    pub fn tool_format(&self) -> Option<ToolFormat> {
        self.prompts.template.as_ref()?.tool_format()
    }

    /// Returns the tokens of a prompt. The chat options apply.
    ///
    /// # Errors
    /// [`Error::BadOption`] for an empty prompt and for options that do not fit it, [`Error::BadTemplate`],
    /// [`Error::BadTokenizer`].
    pub fn encode(&self, prompt: &Prompt, options: &GenerateOptions) -> Result<Vec<u32>> {
        self.prompts.encode(prompt, options)
    }

    /// Sets the compiler for [`GenerateOptions::response_format`]. It must be made for the target's vocabulary.
    pub fn constrain_by(&mut self, grammars: Box<dyn Grammars>) {
        self.grammars = Some(grammars);
    }

    /// Returns the bytes of each target token, as [`Tokenizer::vocabulary`] does, and the ids that end a text.
    pub fn vocabulary(&self) -> (Vec<Vec<u8>>, &[u32]) {
        let Prompts { tokenizer, spec, .. } = &self.prompts;
        (tokenizer.vocabulary(spec.vocab_size), &spec.eos_token_id)
    }

    /// Returns the constraint on a text after a prompt of `prompt` tokens, if the options have one.
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

    /// Continues a prompt. `on_progress` is called as the prompt is read and for each token, and may abort. If the device is
    /// lost, the models are rebuilt on a new one and the generation continues; the text is the same as without the loss.
    ///
    /// # Errors
    /// [`Error::BadOption`], [`Error::ContextFull`], [`Error::GpuBlocked`], and errors of text and device. The session stays
    /// usable.
    pub async fn generate(
        &mut self,
        prompt: &Prompt,
        options: &GenerateOptions,
        on_progress: &mut dyn FnMut(Progress<'_>) -> ControlFlow<()>,
    ) -> Result<Generation> {
        let call = Call::new(&self.prompts, prompt, options, self.engine.draft_memory().is_some())?;
        let constraint = self.constraint(options, call.prompt.len())?;
        let prediction = match &options.drafting.prediction {
            Some(text) => self.prompts.tokenizer.encode(text, false)?,
            None => Vec::new(),
        };
        let tokenizer = self.prompts.tokenizer.clone();
        let mut out = call.emitter(&tokenizer, on_progress);
        out.constraint = constraint.clone();
        let mut run = Run::new(&call.prompt);
        run.overlap = options.drafting.overlap;
        let mut attempts = Attempts { lost_at: None, drafts: true };
        while let Err(error) =
            self.attempt(&call, &prediction, constraint.clone(), attempts.drafts, &mut run, &mut out).await
        {
            self.recover(error, &mut run, &mut attempts).await?;
        }
        let (masks, forced) = constraint.map_or((0.0, 0), |constraint| {
            let constraint = constraint.borrow();
            (constraint.seconds, constraint.forced_rounds)
        });
        run.stats.times.masks = masks;
        run.stats.speculating = self.learned.speculating(&options.drafting, forced);
        let differing = self.engine.warning().map(str::to_owned);
        let of_models = self.warnings.iter().cloned().chain(differing);
        call.describe(&mut run.stats, self.engine.arithmetic(), of_models);
        out.finish(run.stats)
    }

    /// Runs the decode loop until the text ends or an error occurs. `drafts`: false for plain decoding.
    async fn attempt(
        &mut self,
        call: &Call<'_>,
        prediction: &[u32],
        constraint: Option<Shared>,
        drafts: bool,
        run: &mut Run,
        out: &mut Emitter<'_>,
    ) -> Result<()> {
        let drafting = &call.options.drafting;
        self.prompt_cache.turn_to(&mut self.engine, &run.tokens).await?;
        self.engine.constrain(constraint.clone())?;
        self.engine.sample_by(&call.sampling)?;
        let read = self.engine.cached_of(&call.prompt);
        let read = self.engine.draft_memory().map(|_| read.min(self.engine.draft_cached()));
        let mut drafter = match drafts {
            true => self.learned.drafter(drafting, prediction, run, &call.ends, read),
            false => Box::new(NoDrafter),
        };
        if let Some(constraint) = constraint.filter(|_| drafting.speculation == Speculation::Auto) {
            drafter = Box::new(UnderConstraint::new(constraint, drafter));
        }
        rounds(&mut self.engine, &mut *drafter, run, &call.ends, out).await
    }

    /// Prepares another attempt after an error.
    ///
    /// # Errors
    /// The error, if another attempt would repeat it.
    async fn recover(&mut self, error: Error, run: &mut Run, attempts: &mut Attempts) -> Result<()> {
        let warnings = &mut run.stats.warnings;
        match error {
            Error::DeviceLost { reason }
                if attempts.lost_at != Some(run.tokens.len())
                    && let Some(gpu) = self.engine.gpu().cloned() =>
            {
                attempts.lost_at = Some(run.tokens.len());
                self.prompt_cache.clear();
                (self.engine, self.warnings) = self.origin.engine(gpu.reopen().await?).await?;
                let emitted = run.stats.num_emitted_tokens;
                warnings.push(format!("the GPU was lost after {emitted} tokens and set up again ({reason})"));
                warnings.extend(setup::other_device(gpu.info(), self.engine.device()));
            }
            // Drafts are only guesses, so the text continues without them.
            Error::NonFiniteLogits { ref model, .. } if model == DRAFT_MODEL => {
                attempts.drafts = false;
                warnings.push(format!("the text goes on without the draft model ({error})"));
            }
            error => {
                if let Error::OutOfGpuMemory { .. } | Error::Internal { .. } = error {
                    // If this fails too, the next call reports it.
                    let _ = self.engine.reset();
                }
                return Err(error);
            }
        }
        Ok(())
    }
}

/// Errors of a generation so far.
struct Attempts {
    /// Tokens of the run at the latest loss of the device. If the new device is lost before it emits a token, the generation fails:
    /// otherwise this could repeat forever.
    lost_at: Option<usize>,
    /// False after the draft model failed.
    drafts: bool,
}

/// Future engine, with warnings about its models.
pub(crate) type Building<'a> = Pin<Box<dyn Future<Output = Result<(Backend, Vec<String>)>> + 'a>>;

/// Builder of a session's engine, used again after the device is lost.
pub(crate) trait Origination {
    /// Builds the same models on another GPU.
    fn engine(&self, gpu: Rc<Gpu>) -> Building<'_>;
}
