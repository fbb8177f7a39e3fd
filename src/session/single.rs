//! The executor with one target: its models, what is cached of recent texts, and the setup after a lost device.

use super::constrained::UnderConstraint;
use super::{Emitter, Executor, Generator, Learned, PromptCache, Prompts, Run, TextCall, rounds, setup};
use crate::backend::Backend;
use crate::backend::server::Later;
use crate::constraint::{Constrained, Grammars, Shared};
use crate::error::{Error, Result};
use crate::gpu::{Counters, DeviceInfo, Gpu};
use crate::model::Memory;
use crate::options::{Arithmetic, GenerateOptions, Speculation};
use crate::speculate::{NoDrafter, Stats};
use crate::target::DRAFT_MODEL;
use std::rc::Rc;

/// A target and an optional draft model on one device.
pub struct Single {
    pub(crate) engine: Box<dyn Backend>,
    pub(super) prompt_cache: PromptCache,
    /// Warnings about the models, for the user.
    pub warnings: Vec<String>,
    learned: Learned,
    /// Compiler of [`GenerateOptions::response_format`]; `None` until first needed.
    grammars: Option<Box<dyn Grammars>>,
    origin: Box<dyn Origination>,
}

impl Generator<Single> {
    /// Returns the models and their device.
    pub fn engine(&self) -> &dyn Backend {
        &*self.executor.engine
    }

    /// Returns the models and their device, for direct use.
    pub fn engine_mut(&mut self) -> &mut dyn Backend {
        &mut *self.executor.engine
    }
}

impl Single {
    /// Measures the models, to speculate by the results. `origin` builds them again after the device is lost. `lookup_memory`: tokens
    /// that the suffix lookup remembers.
    pub(crate) async fn new(
        mut engine: Box<dyn Backend>,
        prompt_cache: PromptCache,
        origin: Box<dyn Origination>,
        warnings: Vec<String>,
        lookup_memory: usize,
    ) -> Self {
        let learned = Learned::new(&mut *engine, lookup_memory).await;
        Self { engine, prompt_cache, warnings, learned, grammars: None, origin }
    }

    /// Sets the compiler for [`GenerateOptions::response_format`]. It must be made for the target's vocabulary.
    pub fn constrain_by(&mut self, grammars: Box<dyn Grammars>) {
        self.grammars = Some(grammars);
    }

    /// Returns the constraint on a text after a prompt of `prompt` tokens, if the options have one.
    fn constraint(&mut self, prompts: &Prompts, options: &GenerateOptions, prompt: usize) -> Result<Option<Shared>> {
        let Some(format) = options.response_format.as_ref().filter(|format| format.constrains()) else {
            return Ok(None);
        };
        #[cfg(feature = "grammar")]
        if self.grammars.is_none() {
            let (vocabulary, ends) = prompts.vocabulary();
            self.grammars = Some(Box::new(crate::grammar::Llguidance::new(vocabulary, ends)?));
        }
        let Some(grammars) = &self.grammars else {
            let allowed = "none, without the feature `grammar` or Session::constrain_by".into();
            return Err(Error::BadOption { option: "response_format".into(), value: "a form".into(), allowed });
        };
        let (spec, tokenizer) = (&prompts.spec, prompts.tokenizer.clone());
        let encode =
            Box::new(move |before: &[u32], text: &str| tokenizer.encode_behind(before, text).unwrap_or_default());
        Ok(Some(Constrained::new(grammars.compile(format)?, encode, prompt, spec.vocab_size, &spec.eos_token_id)))
    }

    /// Runs the decode loop until the text ends, again after errors that another attempt can avoid.
    async fn decode(&mut self, prompts: &Prompts, call: &TextCall<'_>, out: &mut Emitter<'_>) -> Result<Stats> {
        let drafting = &call.options.drafting;
        let constraint = self.constraint(prompts, call.options, call.prompt.len())?;
        let prediction = match &drafting.prediction {
            Some(text) => prompts.tokenizer.encode(text, false)?,
            None => Vec::new(),
        };
        out.constraint = constraint.clone();
        let mut run = Run::new(&call.prompt);
        run.overlap = drafting.overlap;
        let mut attempts = Attempts { lost_at: None, drafts: true };
        while let Err(error) = self.attempt(call, &prediction, constraint.clone(), attempts.drafts, &mut run, out).await
        {
            self.recover(error, &mut run, &mut attempts).await?;
        }
        let (masks, forced) = constraint.map_or((0.0, 0), |constraint| {
            let constraint = constraint.borrow();
            (constraint.seconds, constraint.forced_rounds)
        });
        self.learned.remember(&run.tokens);
        run.stats.times.masks = masks;
        run.stats.speculating = self.learned.speculating(drafting, forced);
        run.stats.warnings.splice(0..0, self.engine.warning().map(str::to_owned));
        Ok(run.stats)
    }

    /// Runs the decode loop until the text ends or an error occurs. `drafts`: false for plain decoding.
    async fn attempt(
        &mut self,
        call: &TextCall<'_>,
        prediction: &[u32],
        constraint: Option<Shared>,
        drafts: bool,
        run: &mut Run,
        out: &mut Emitter<'_>,
    ) -> Result<()> {
        let drafting = &call.options.drafting;
        let branch = self.prompt_cache.turn_to(&mut *self.engine, &run.tokens).await?;
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
        run.num_read = 0;
        if let Some(branch) = branch.filter(|_| run.tokens.len() < self.engine.capacity()) {
            if run.read_beginning(&mut *self.engine, branch, out).await?.is_break() {
                run.end();
                return Ok(());
            }
            self.prompt_cache.keep(&mut *self.engine).await?;
        }
        rounds(&mut *self.engine, &mut *drafter, run, &call.ends, out).await
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
                self.rebuild(&gpu).await?;
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

    /// Replaces the models by those built on a new device.
    pub(super) async fn rebuild(&mut self, lost: &Rc<Gpu>) -> Result<()> {
        self.prompt_cache.clear();
        (self.engine, self.warnings) = self.origin.engine(lost.reopen().await?).await?;
        Ok(())
    }
}

impl Executor for Single {
    fn run_text<'a>(
        &'a mut self,
        prompts: &'a Prompts,
        call: &'a TextCall<'_>,
        out: &'a mut Emitter<'_>,
    ) -> Later<'a, Result<Stats>> {
        Box::pin(self.decode(prompts, call, out))
    }

    fn device(&self) -> &DeviceInfo {
        self.engine.device()
    }

    fn memory(&self) -> [Option<Memory>; 2] {
        [Some(self.engine.memory()), self.engine.draft_memory()]
    }

    fn counters(&self) -> Counters {
        self.engine.counters()
    }

    fn arithmetic(&self) -> Arithmetic {
        self.engine.arithmetic()
    }

    fn has_draft_model(&self) -> bool {
        self.engine.draft_memory().is_some()
    }

    fn warnings(&self) -> &[String] {
        &self.warnings
    }

    fn single(&mut self) -> Result<&mut Single> {
        Ok(self)
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
pub(crate) type Building<'a> = Later<'a, Result<(Box<dyn Backend>, Vec<String>)>>;

/// Builder of a session's engine, used after the device is lost.
pub(crate) trait Origination {
    /// Builds the same models on another GPU.
    fn engine(&self, gpu: Rc<Gpu>) -> Building<'_>;
}
