//! What a generation did, under vLLM's names.

use super::{Accepted, Speculating};
use crate::options::{Arithmetic, SamplingValues};
use crate::target::Traffic;
use serde::Serialize;

/// Counts and times of one generation. Every round emits its accepted draft tokens and one token of the target's own
/// (recovered or bonus), so `num_emitted_tokens == num_accepted_draft_tokens + num_spec_steps`.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Stats {
    /// Rounds, which are the target forwards after prefill.
    pub num_spec_steps: usize,
    /// Draft tokens proposed.
    pub num_draft_tokens: usize,
    /// Draft tokens accepted.
    pub num_accepted_draft_tokens: usize,
    /// Tokens generated.
    pub num_emitted_tokens: usize,
    /// Tokens per target forward: 1 + accepted / rounds.
    pub mean_acceptance_length: f64,
    /// Accepted / proposed; 0 without proposals.
    pub draft_acceptance_rate: f64,
    /// Rounds by the number of accepted draft tokens: entry a counts the rounds that accepted a.
    pub acceptance_histogram: Vec<usize>,
    /// Draft tokens proposed, by round.
    pub per_step_drafted: Vec<usize>,
    /// Draft tokens accepted, by round.
    pub per_step_accepted: Vec<usize>,
    /// Tokens of the prompt.
    pub num_prompt_tokens: usize,
    /// Prompt tokens whose keys and values were still cached.
    pub num_cached_tokens: usize,
    /// Of these, those that the draft model's cache still held as well; 0 for one with another tokenizer, which reuses its
    /// cache, but of other tokens.
    pub num_cached_draft_tokens: usize,
    /// Messages of the chat that were dropped because it had outgrown the context (`context: "shift"`).
    pub num_dropped_messages: usize,
    /// What products of quantised weights were computed with.
    pub arithmetic: Arithmetic,
    /// How tokens were chosen; with `do_sample: "model"` partly by the model's files.
    pub sampling: SamplingValues,
    /// Key of the random choices, where tokens were drawn at random.
    pub seed: Option<u64>,
    /// What the adaptive schedule chose, and why, where it was in use.
    pub speculating: Option<Speculating>,
    /// What several targets did, where there were several.
    pub distributed: Option<Distributed>,
    /// What was asked of servers, where the target is on one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub traffic: Option<Traffic>,
    /// Where the time went.
    pub times: Times,
    /// What the user should know about this device or model, in words.
    pub warnings: Vec<String>,
}

/// What several targets did. There is no round then: what counts as one is each token of the target's own, with the
/// accepted draft tokens before it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Distributed {
    /// Targets.
    pub sp_degree: usize,
    /// Draft tokens of a verify task.
    pub lookahead: usize,
    /// Verify tasks that were given out.
    pub num_verify_tasks: usize,
    /// Target forwards that were waited for, at most one per task.
    pub num_forwards: usize,
    /// Tasks taken back, drafting included.
    pub num_cancelled_tasks: usize,
    /// Draft tokens that the target replaced; each voids what is behind it.
    pub num_rejected_tokens: usize,
    /// Times that a target's device was lost.
    pub num_lost: usize,
    /// Mean seconds of a target forward, reading the prompt left out.
    pub target_latency: f64,
    /// Mean seconds of a step of the draft model, likewise; 0 without one.
    pub drafter_latency: f64,
}

/// Seconds by phase.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Times {
    /// Reading the prompt; the device may still compute the last chunk of it afterwards.
    pub prefill: f64,
    /// From the call to the first token.
    pub first_token: f64,
    /// Proposing draft tokens on the CPU.
    pub draft: f64,
    /// Finding out which tokens may come, where [`crate::options::GenerateOptions::response_format`] says so; mostly while the device
    /// computes.
    pub masks: f64,
    /// Recording, submitting and waiting for rounds: draft model and target on the device.
    pub verify: f64,
    /// Accepting, decoding text, calling back.
    pub emit: f64,
    /// Host work of rounds: drafting, recording, submitting, accepting, decoding text, calling back.
    pub host: f64,
    /// Of this, what was done while the device computed.
    pub hidden: f64,
    /// All of it.
    pub total: f64,
    /// Generated tokens per second after the first round.
    pub tokens_per_second: f64,
}

impl Stats {
    /// Counts what was asked of servers, if anything was.
    pub fn add_traffic(&mut self, more: &Traffic) {
        if *more != Traffic::default() {
            self.traffic.get_or_insert_default().add(more);
        }
    }

    /// Counts a round.
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
