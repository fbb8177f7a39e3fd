//! Distributed speculative inference on real targets: several instances of the target, each with its own device and cache,
//! verify different parts of a draft at the same time. The text is that of plain decoding.
//!
//! ```text
//!  where the text is written                threads, workers of a page, or tasks next to it
//!  dsi::Dsi ───────────── commands ─> target 0, target 1, ..., drafter
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
use crate::speculate::{Prediction, PromptLookup, Stats, Tuner};
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
    /// Drafts come from the prediction, else from the draft model, else from the text so far. With the drafter `chain` all of them continue the
    /// text in branches; with `auto` too, under the schedule `adaptive`, if several targets stop as soon as their task is cancelled. A verify
    /// task has `num_assistant_tokens` draft tokens, without the draft model `prompt_lookup_num_tokens`; under `adaptive` as many as
    /// [`Tuner`] chooses, without the draft model up to that number.
    ///
    /// Refuses constraints, acceptance by rejection, log-probabilities and other drafters.
    fn run_text<'a>(
        &'a mut self,
        prompts: &'a Prompts,
        call: &'a TextCall<'_>,
        out: &'a mut Emitter<'_>,
    ) -> Later<'a, Result<Stats>> {
        Box::pin(async move {
            let (guesses, lookahead, longest) = self.guesses(call, prompts)?;
            let schedule = call.options.drafting.num_assistant_tokens_schedule;
            let longest = longest.filter(|_| schedule == Schedule::Adaptive);
            let has_model = guesses.iter().any(|guess| matches!(guess, Guess::Model));
            let tuner = &mut self.tuners[usize::from(has_model)];
            let (sampling, ends) = (call.sampling.clone(), call.ends.clone());
            let options = RunOptions { sampling, lookahead, longest, guesses, ends, capacity: prompts.context };
            run(&mut *self.instances, &call.prompt, options, tuner, out).await
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

    /// Returns the drafters, the tokens of a verify task, and their maximum.
    fn guesses(&self, call: &TextCall<'_>, prompts: &Prompts) -> Result<(Vec<Guess>, usize, Option<usize>)> {
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
        if drafting.drafter == DrafterChoice::Suffix {
            return bad("drafter", "suffix", "auto, chain, draft_model, lookup or prediction");
        }
        if drafting.speculation == Speculation::Off {
            return Ok((Vec::new(), 1, None));
        }
        let choice = drafting.drafter;
        let is_auto = choice == DrafterChoice::Auto;
        let is_adaptive = drafting.num_assistant_tokens_schedule == Schedule::Adaptive;
        // A branch that is not the likeliest has to give its target back at once.
        let may_branch = self.instances.sp_degree() > 1 && self.instances.can_cancel();
        let several = choice == DrafterChoice::Chain || is_auto && is_adaptive && may_branch;
        let has_model = self.instances.has_drafter() && drafting.num_assistant_tokens > 0;
        let lookup = drafting.prompt_lookup_num_tokens.unwrap_or(setup::LOOKUP_TOKENS).min(MAX_DRAFT);
        let mut guesses = Vec::new();
        let wants_prediction = several || is_auto || choice == DrafterChoice::Prediction;
        if let Some(expected) = drafting.prediction.as_ref().filter(|_| wants_prediction) {
            let expected = prompts.tokenizer.encode(expected, false)?;
            guesses.push(Guess::Text(Box::new(Prediction::new(expected, call.prompt.len()))));
        }
        let is_open = is_auto && guesses.is_empty();
        let prefers_lookup = !has_model || drafting.prompt_lookup_num_tokens.is_some();
        if several || choice == DrafterChoice::Lookup || is_open && prefers_lookup {
            let (ngram, rule) = (drafting.max_matching_ngram_size, drafting.prompt_lookup_rule);
            guesses.push(Guess::Text(Box::new(PromptLookup::new(lookup, ngram, rule, &call.ends))));
        }
        if has_model && (several || choice == DrafterChoice::DraftModel || is_open && !prefers_lookup) {
            guesses.push(Guess::Model);
            return Ok((guesses, drafting.num_assistant_tokens.min(MAX_DRAFT), Some(MAX_DRAFT)));
        }
        Ok(if guesses.is_empty() { (guesses, 1, None) } else { (guesses, lookup, Some(lookup)) })
    }
}
