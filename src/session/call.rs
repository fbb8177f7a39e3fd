//! A call that continues a prompt: its parts that do not depend on the number of targets.

use super::{Emitter, Progress, Prompt, Prompts, setup};
use crate::error::Result;
use crate::options::{Arithmetic, GenerateOptions, SamplingValues};
use crate::sample::Sampling;
use crate::speculate::Stats;
use crate::text::Tokenizer;
use std::ops::ControlFlow;

/// A prompt with checked options.
pub struct TextCall<'a> {
    pub options: &'a GenerateOptions,
    pub prompt: Vec<u32>,
    /// Tokens that end a text.
    pub ends: Vec<u32>,
    pub sampling: Sampling,
    /// Sampling options in effect.
    pub values: SamplingValues,
    num_dropped_messages: usize,
    /// Warnings about the options.
    warnings: Vec<String>,
}

impl<'a> TextCall<'a> {
    /// Checks the options and reads the prompt. The warnings mention a draft model that the options request and that is missing.
    ///
    /// # Errors
    /// [`crate::Error::BadOption`], and errors of the prompt.
    pub fn new(
        prompts: &Prompts,
        prompt: &Prompt,
        options: &'a GenerateOptions,
        has_draft_model: bool,
    ) -> Result<Self> {
        options.validate()?;
        let (prompt, num_dropped_messages) = prompts.fit(prompt, options)?;
        let ends = prompts.spec.eos_token_id.clone();
        let values = options.sampling.values(&prompts.sampling)?;
        let sampling = setup::sampling(options, &values, &prompts.spec, prompt.len())?;
        let warnings = setup::idle(options, &values).into_iter().chain(setup::cut(&options.drafting));
        let warnings = warnings.chain(setup::missing(&options.drafting, has_draft_model)).collect();
        Ok(Self { options, prompt, ends, sampling, values, num_dropped_messages, warnings })
    }

    /// Returns the sink of its text.
    pub fn emitter<'b>(
        &'b self,
        tokenizer: &'b Tokenizer,
        on_progress: &'b mut dyn FnMut(Progress<'_>) -> ControlFlow<()>,
    ) -> Emitter<'b> {
        Emitter::new(tokenizer, &self.prompt, &self.ends, self.options, on_progress)
    }

    /// Adds the facts about the call to its statistics, and its warnings after those about the models.
    pub fn describe(&self, stats: &mut Stats, arithmetic: Arithmetic, of_models: &[String]) {
        stats.num_dropped_messages = self.num_dropped_messages;
        stats.seed = self.values.do_sample.then_some(self.sampling.seed);
        stats.sampling = self.values;
        stats.arithmetic = arithmetic;
        stats.warnings.splice(0..0, of_models.iter().chain(&self.warnings).cloned());
    }
}
