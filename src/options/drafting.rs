//! Who drafts, and how much.

use super::GenerateOptions;
use super::declare::options;
use super::read::bad;
use crate::error::Result;
use serde::{Deserialize, Serialize};

options! {
    /// Who drafts, and how much. Unless `acceptance` is [`Acceptance::Rejection`], these change how fast a text comes and never the text.
    pub struct DraftingOptions set by GenerateOptions.drafting {
        /// Whether to draft at all.
        speculation: Speculation = Speculation::Auto,
        /// Who drafts.
        drafter: DrafterChoice = DrafterChoice::Auto,
        /// Tokens of the draft model that a round begins with; 0: no draft model. The adaptive schedule finds the number itself.
        num_assistant_tokens: usize = 5,
        /// How that number changes from round to round.
        num_assistant_tokens_schedule: Schedule = Schedule::Adaptive,
        /// A draft ends behind a token that the draft model finds less likely than this; 0: never.
        assistant_confidence_threshold: f32 = 0.0,
        /// Most tokens that the lookup in the text so far drafts at a time. With a schedule other than the adaptive one and the
        /// drafter `auto`, it also makes the lookup the drafter.
        prompt_lookup_num_tokens: Option<usize> = None,
        /// Longest n-gram that the lookup tries first.
        max_matching_ngram_size: usize = 2,
        /// Which of several matches the lookup takes.
        prompt_lookup_rule: LookupRule = LookupRule::Leftmost,
        /// The text that is expected, to draft from.
        prediction: Option<String> = None,
        /// How draft tokens are accepted when tokens are drawn at random.
        acceptance: Acceptance = Acceptance::Coupled,
        /// Whether host work of a round is done while the device computes another.
        overlap: bool = true,
    }
}

/// Whether to draft.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
#[serde(rename_all = "snake_case")]
pub enum Speculation {
    /// With whom [`DraftingOptions::drafter`] says.
    Auto,
    /// Never: one token per target forward.
    Off,
}

/// Who drafts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
#[serde(rename_all = "snake_case")]
pub enum DrafterChoice {
    /// With the schedule `adaptive`, whoever is fastest. Else the prediction if there is one, the lookup if
    /// `prompt_lookup_num_tokens` is given, or the draft model.
    Auto,
    /// The draft model.
    DraftModel,
    /// What followed the last tokens earlier in the text.
    Lookup,
    /// The text that the caller expects.
    Prediction,
    /// The prediction, else the lookup, and the draft model where both find nothing.
    Chain,
}

/// How the number of draft tokens changes from round to round: by measurement, or by the rules of transformers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
#[serde(rename_all = "snake_case")]
pub enum Schedule {
    /// Drafter and number are what is expected to be fastest, by what was measured; none, where nothing helps.
    Adaptive,
    /// It does not.
    Constant,
    /// All accepted: 2 more. Else 1 fewer, at least 1. Kept from call to call.
    Heuristic,
    /// The same, from the start again with every call.
    HeuristicTransient,
}

/// Which of several matches a prompt lookup takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
#[serde(rename_all = "snake_case")]
pub enum LookupRule {
    /// The first one, as transformers does.
    Leftmost,
    /// The first one, if all the tokens that are asked for follow it: the original (Saxena 2023).
    Whole,
    /// The last one.
    MostRecent,
}

/// How draft tokens are accepted when tokens are drawn at random.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
#[serde(rename_all = "snake_case")]
pub enum Acceptance {
    /// Where the target, with the same noise, draws the same token: the text depends on the seed alone.
    Coupled,
    /// Rejection sampling (Leviathan et al. 2023; Chen et al. 2023): accepts a little more often; the text follows the
    /// target's distribution, but depends on who drafted.
    Rejection,
}

impl DraftingOptions {
    pub(super) fn validate(&self) -> Result<()> {
        if self.prompt_lookup_num_tokens == Some(0) {
            return bad("prompt_lookup_num_tokens", 0, "1 or more; leave it out for no lookup");
        }
        if !(1..=64).contains(&self.max_matching_ngram_size) {
            return bad("max_matching_ngram_size", self.max_matching_ngram_size, "1 to 64");
        }
        if !(0.0..=1.0).contains(&self.assistant_confidence_threshold) {
            return bad("assistant_confidence_threshold", self.assistant_confidence_threshold, "0 to 1");
        }
        if self.drafter == DrafterChoice::Prediction && self.prediction.is_none() {
            return bad("drafter", "prediction", "draft_model, lookup or chain where no prediction is given");
        }
        Ok(())
    }
}
