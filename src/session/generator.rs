//! A loaded model that continues prompts, on one target or on several.

use super::{Emitter, Generation, Progress, Prompt, Prompts, Single, TextCall};
use crate::backend::server::Later;
use crate::error::Result;
use crate::gpu::{Counters, DeviceInfo};
use crate::model::Memory;
use crate::options::{Arithmetic, GenerateOptions};
use crate::speculate::Stats;
use crate::text::{ReasoningFormat, Tokenizer, ToolFormat};
use std::ops::ControlFlow;

/// A loaded target, with its executor `E`. Every executor generates the same text.
pub struct Generator<E: ?Sized = dyn Executor> {
    /// Tokenizer, chat template and limits of the target.
    pub prompts: Prompts,
    /// Device, workers or servers with the models.
    pub executor: E,
}

/// The part of a generator that depends on the number of targets.
pub trait Executor {
    /// Generates the text of a call into `out`. Returns its statistics.
    ///
    /// # Errors
    /// [`crate::Error::BadOption`] for options that this executor refuses; [`crate::Error::ContextFull`]; device errors.
    fn run_text<'a>(
        &'a mut self,
        prompts: &'a Prompts,
        call: &'a TextCall<'_>,
        out: &'a mut Emitter<'_>,
    ) -> Later<'a, Result<Stats>>;

    /// Returns the device, or the kind of all devices.
    fn device(&self) -> &DeviceInfo;

    /// Returns the planned bytes of the target and of the draft model. `None`: not on this thread.
    fn memory(&self) -> [Option<Memory>; 2];

    /// Returns the counters of this thread's device.
    fn counters(&self) -> Counters;

    /// Returns the arithmetic of the target's quantised weights.
    fn arithmetic(&self) -> Arithmetic;

    /// Returns true if there is a draft model.
    fn has_draft_model(&self) -> bool;

    /// Returns the warnings of loading.
    fn warnings(&self) -> &[String];

    /// Returns the single target, for operations that several do not support.
    ///
    /// # Errors
    /// [`crate::Error::BadOption`] if there are several.
    fn single(&mut self) -> Result<&mut Single>;
}

impl<E: Executor + ?Sized> Generator<E> {
    /// Returns the device, or the kind of all devices.
    pub fn device(&self) -> &DeviceInfo {
        self.executor.device()
    }

    /// Returns the warnings of loading. The statistics of each generation repeat them.
    pub fn warnings(&self) -> &[String] {
        self.executor.warnings()
    }

    /// Returns the target's tokenizer.
    pub fn tokenizer(&self) -> &Tokenizer {
        &self.prompts.tokenizer
    }

    /// Returns the format of tool calls in the target's chat template; `None` if the template has no known format.
    pub fn tool_format(&self) -> Option<ToolFormat> {
        self.prompts.template.as_ref()?.tool_format()
    }

    /// Returns the format of thoughts in the target's chat template; `None` if the template has none.
    pub fn reasoning_format(&self) -> Option<ReasoningFormat> {
        self.prompts.template.as_ref()?.reasoning_format()
    }

    /// Returns the tokens of a prompt. The chat options apply.
    ///
    /// # Errors
    /// [`crate::Error::BadOption`] for an empty prompt and for options that do not fit it, [`crate::Error::BadTemplate`],
    /// [`crate::Error::BadTokenizer`].
    pub fn encode(&self, prompt: &Prompt, options: &GenerateOptions) -> Result<Vec<u32>> {
        self.prompts.encode(prompt, options)
    }

    /// Returns true if a text is drawn at random under these options.
    pub fn draws(&self, options: &GenerateOptions) -> bool {
        options.sampling.draws(&self.prompts.sampling)
    }

    /// Continues a prompt. `on_progress` is called as the prompt is read and for each token, and may abort. If a device is
    /// lost, its models are rebuilt on a new one and the generation continues; the text is the same as without the loss.
    ///
    /// # Errors
    /// [`crate::Error::BadOption`], [`crate::Error::ContextFull`], [`crate::Error::GpuBlocked`], and errors of text and device.
    /// The generator stays usable.
    pub async fn generate(
        &mut self,
        prompt: &Prompt,
        options: &GenerateOptions,
        on_progress: &mut dyn FnMut(Progress<'_>) -> ControlFlow<()>,
    ) -> Result<Generation> {
        let Self { prompts, executor } = self;
        let call = TextCall::new(prompts, prompt, options, executor.has_draft_model())?;
        let mut out = call.emitter(&prompts.tokenizer, on_progress);
        let mut stats = executor.run_text(prompts, &call, &mut out).await?;
        call.describe(&mut stats, executor.arithmetic(), executor.warnings());
        out.finish(stats)
    }
}
