//! Distributed speculative inference on real targets: several instances of the target, each with its own device and cache,
//! verify different parts of a draft at the same time. The text is that of plain decoding.
//!
//! ```text
//!  where the text is written                threads, workers of a page, or tasks next to it
//!  speculate::dsi::Dsi ─ commands ─> target 0, target 1, ..., drafter
//!         │   ^────────── reports ────────┘
//!         └─> Sink: tokens in order, never taken back
//! ```
//!
//! All instances run on devices of the same kind: another kind rounds differently and would write another text.

mod connect;
mod instance;
mod instance_loop;
mod instances;
mod load;
mod run;
#[cfg(not(target_arch = "wasm32"))]
mod spawn;
mod task_instances;
#[cfg(not(target_arch = "wasm32"))]
mod thread_instances;
mod translated;

pub use crate::load::load_alone;
pub use connect::connect;
pub use instance::ModelInstance;
pub use instance_loop::{Inbox, run_instance};
pub use instances::{Command, Instances, NumberedReport, Report, Role};
pub use load::{LocalDevice, PreparedParts, set_up};
pub use run::{Guess, RunOptions, run};
#[cfg(not(target_arch = "wasm32"))]
pub use spawn::Build;
pub use task_instances::TaskInstances;
#[cfg(not(target_arch = "wasm32"))]
pub use thread_instances::{ThreadInstances, load};
pub use translated::Translated;

use crate::backend::server::Later;
use crate::constraint::ResponseFormat;
use crate::error::{Error, Result};
use crate::gpu::{Counters, DeviceInfo};
use crate::model::Memory;
use crate::options::{Acceptance, Arithmetic, DrafterChoice, LoadOptions, Schedule, Speculation};
use crate::session::{Emitter, Executor, Prompts, Single, TextCall, setup};
use crate::speculate::dsi::Tuner;
use crate::speculate::{PromptLookup, Stats};
use crate::target::MAX_DRAFT;

/// Several instances of a target, with their draft model.
pub struct Parallel {
    arithmetic: Arithmetic,
    instances: Box<dyn Instances>,
    device: DeviceInfo,
    /// Device of the draft model, if it is on this thread.
    local: LocalDevice,
    warnings: Vec<String>,
    /// Measurements with lookup, and with the draft model.
    tuners: [Tuner; 2],
}

impl Executor for Parallel {
    /// Drafts come from the draft model, else from the text so far. The lookahead is the number of draft tokens per verify task:
    /// `num_assistant_tokens` (with lookup `prompt_lookup_num_tokens`). Under the schedule `adaptive` it follows the measurements
    /// ([`Tuner::lookahead`]), with lookup up to that number.
    ///
    /// Refuses constraints, acceptance by rejection, log-probabilities and other drafters.
    fn run_text<'a>(
        &'a mut self,
        prompts: &'a Prompts,
        call: &'a TextCall<'_>,
        out: &'a mut Emitter<'_>,
    ) -> Later<'a, Result<Stats>> {
        Box::pin(async move {
            let drafting = &call.options.drafting;
            let (guess, lookahead, longest) = self.guess(call)?;
            let longest = longest.filter(|_| drafting.num_assistant_tokens_schedule == Schedule::Adaptive);
            let tuner = &mut self.tuners[usize::from(matches!(guess, Guess::Model))];
            let (sampling, ends) = (call.sampling.clone(), call.ends.clone());
            let options = RunOptions { sampling, lookahead, longest, guess, ends, capacity: prompts.context };
            let mut stats = run(&mut *self.instances, &call.prompt, options, tuner, out).await?;
            if drafting.prediction.is_some() {
                let (option, value) = LoadOptions::parallel_option(self.instances.sp_degree());
                stats.warnings.insert(0, format!("with {option} {value} no prediction is used"));
            }
            Ok(stats)
        })
    }

    fn device(&self) -> &DeviceInfo {
        &self.device
    }

    fn memory(&self) -> [Option<Memory>; 2] {
        [None, self.local.borrow().as_ref().map(|local| local.memory)]
    }

    fn counters(&self) -> Counters {
        self.local.borrow().as_ref().map(|local| local.device.counters()).unwrap_or_default()
    }

    fn arithmetic(&self) -> Arithmetic {
        self.arithmetic
    }

    fn has_draft_model(&self) -> bool {
        self.instances.has_drafter()
    }

    fn warnings(&self) -> &[String] {
        &self.warnings
    }

    fn single(&mut self) -> Result<&mut Single> {
        let (option, value) = LoadOptions::parallel_option(self.instances.sp_degree());
        let allowed = "the default, for embeddings and scores".into();
        Err(Error::BadOption { option: option.into(), value, allowed })
    }
}

impl Parallel {
    fn refuse<T>(&self, option: &'static str, value: &str, allowed: &str) -> Result<T> {
        let (split, by) = LoadOptions::parallel_option(self.instances.sp_degree());
        let allowed = format!("{allowed}, with {split} {by}");
        Err(Error::BadOption { option: option.into(), value: value.into(), allowed })
    }

    /// Returns the drafter, the tokens of a verify task, and their maximum.
    fn guess(&self, call: &TextCall<'_>) -> Result<(Guess, usize, Option<usize>)> {
        let (options, drafting) = (call.options, &call.options.drafting);
        let bad = |option, value, allowed| self.refuse(option, value, allowed);
        if options.response_format.as_ref().is_some_and(ResponseFormat::constrains) {
            return bad("response_format", "a form", "none: devices do not share a grammar");
        }
        if options.logprobs {
            return bad("logprobs", "true", "false: devices exchange tokens only, and nothing is approximated");
        }
        if call.values.do_sample && drafting.acceptance == Acceptance::Rejection {
            return bad("acceptance", "rejection", "coupled");
        }
        let model = self.instances.has_drafter() && drafting.num_assistant_tokens > 0;
        let model = match drafting.drafter {
            DrafterChoice::Auto => model && drafting.prompt_lookup_num_tokens.is_none(),
            DrafterChoice::DraftModel => model,
            DrafterChoice::Lookup => false,
            DrafterChoice::Suffix => return bad("drafter", "suffix", "auto, draft_model or lookup"),
            DrafterChoice::Prediction => return bad("drafter", "prediction", "auto, draft_model or lookup"),
            DrafterChoice::Chain => return bad("drafter", "chain", "auto, draft_model or lookup"),
        };
        if drafting.speculation == Speculation::Off || drafting.drafter == DrafterChoice::DraftModel && !model {
            return Ok((Guess::Nothing, 1, None));
        }
        if model {
            return Ok((Guess::Model, drafting.num_assistant_tokens.clamp(1, MAX_DRAFT), Some(MAX_DRAFT)));
        }
        let count = drafting.prompt_lookup_num_tokens.unwrap_or(setup::LOOKUP_TOKENS).min(MAX_DRAFT);
        let lookup =
            PromptLookup::new(count, drafting.max_matching_ngram_size, drafting.prompt_lookup_rule, &call.ends);
        Ok((Guess::Lookup(lookup), count, Some(count)))
    }
}
