//! Statistics of a generation, with vLLM's names.

use super::{Accepted, Speculating};
use crate::options::{Arithmetic, SamplingValues};
use crate::target::Traffic;
use serde::Serialize;

/// Counts and times of one generation. Every round emits its accepted draft tokens and one token of the target's own (recovered or bonus),
/// so `num_emitted_tokens == num_accepted_draft_tokens + num_spec_steps`.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Stats {
    /// Rounds: target forwards after prefill.
    pub num_spec_steps: usize,
    /// Proposed draft tokens.
    pub num_draft_tokens: usize,
    /// Accepted draft tokens.
    pub num_accepted_draft_tokens: usize,
    /// Generated tokens.
    pub num_emitted_tokens: usize,
    /// Tokens per target forward: 1 + accepted / rounds.
    pub mean_acceptance_length: f64,
    /// Accepted / proposed draft tokens; 0 without proposals.
    pub draft_acceptance_rate: f64,
    /// Number of rounds with 0, 1, 2, ... accepted draft tokens.
    pub acceptance_histogram: Vec<usize>,
    /// Proposed draft tokens of each round.
    pub per_step_drafted: Vec<usize>,
    /// Accepted draft tokens of each round.
    pub per_step_accepted: Vec<usize>,
    /// Tokens of the prompt.
    pub num_prompt_tokens: usize,
    /// Prompt tokens whose keys and values were still cached.
    pub num_cached_tokens: usize,
    /// Cached prompt tokens that the draft model's cache held as well. 0 for a draft model with another tokenizer: its cache is reused, but
    /// holds other tokens.
    pub num_cached_draft_tokens: usize,
    /// Messages dropped because the chat had outgrown the context (`context: "shift"`).
    pub num_dropped_messages: usize,
    /// Arithmetic of products with quantised weights.
    pub arithmetic: Arithmetic,
    /// Sampling options in effect; with `do_sample: "model"` partly from the model's files.
    pub sampling: SamplingValues,
    /// Seed of the random choices; `None`: nothing was sampled.
    pub seed: Option<u64>,
    /// Last choice of the adaptive schedule, with its reason; `None`: another schedule.
    pub speculating: Option<Speculating>,
    /// Statistics of several targets; `None`: there was one target.
    pub distributed: Option<Distributed>,
    /// Requests to servers; `None`: the target is not on a server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub traffic: Option<Traffic>,
    /// Time by phase.
    pub times: Times,
    /// Notes for the user about this device or model.
    pub warnings: Vec<String>,
}

/// Statistics of several targets. They have no rounds: each token of the target's own counts as a round, with the accepted draft tokens
/// before it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Distributed {
    /// Number of targets.
    pub sp_degree: usize,
    /// Draft tokens of a verify task.
    pub lookahead: usize,
    /// Verify tasks assigned.
    pub num_verify_tasks: usize,
    /// Target forwards whose end was awaited, at most one per task.
    pub num_forwards: usize,
    /// Cancelled tasks, including draft tasks.
    pub num_cancelled_tasks: usize,
    /// Draft tokens that the target replaced; each voids the tokens after it.
    pub num_rejected_tokens: usize,
    /// Devices of targets that were lost.
    pub num_lost: usize,
    /// Mean seconds of a target forward, without prefill.
    pub target_latency: f64,
    /// Mean seconds of a draft model step, without prefill; 0 without a draft model.
    pub drafter_latency: f64,
}

/// Seconds by phase.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Times {
    /// Prefill; the device may still compute the last chunk afterwards.
    pub prefill: f64,
    /// From the call to the first token.
    pub first_token: f64,
    /// Proposing draft tokens on the CPU.
    pub draft: f64,
    /// Computing the allowed tokens under [`crate::options::GenerateOptions::response_format`]; mostly while the device computes.
    pub masks: f64,
    /// Recording, submitting and waiting for rounds: draft model and target on the device.
    pub verify: f64,
    /// Accepting, decoding text, running callbacks.
    pub emit: f64,
    /// Host work of rounds: drafting, recording, submitting, accepting, decoding text, running callbacks.
    pub host: f64,
    /// Part of `host` that overlapped with the device.
    pub hidden: f64,
    /// Whole call.
    pub total: f64,
    /// Generated tokens per second after the first round.
    pub tokens_per_second: f64,
}

impl Stats {
    /// Adds requests to servers, if there were any.
    pub fn add_traffic(&mut self, more: &Traffic) {
        if *more != Traffic::default() {
            self.traffic.get_or_insert_default().add(more);
        }
    }

    /// Adds a round.
    pub(crate) fn add_round(&mut self, round: &Accepted) {
        self.num_spec_steps += 1;
        self.num_draft_tokens += round.drafted;
        self.num_accepted_draft_tokens += round.accepted;
        self.num_emitted_tokens += round.accepted + 1;
        self.per_step_drafted.push(round.drafted);
        self.per_step_accepted.push(round.accepted);
        if self.acceptance_histogram.len() <= round.accepted {
            self.acceptance_histogram.resize(round.accepted + 1, 0);
        }
        self.acceptance_histogram[round.accepted] += 1;
        self.mean_acceptance_length = 1.0 + self.num_accepted_draft_tokens as f64 / self.num_spec_steps as f64;
        self.draft_acceptance_rate = match self.num_draft_tokens {
            0 => 0.0,
            drafted => self.num_accepted_draft_tokens as f64 / drafted as f64,
        };
    }
}
