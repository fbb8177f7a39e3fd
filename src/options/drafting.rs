//! Options of speculation: the drafter and the number of draft tokens.

use super::GenerateOptions;
use super::declare::options;
use super::read::bad;
use crate::error::Result;
use serde::{Deserialize, Serialize};

options! {
    /// Drafter and number of draft tokens. Unless `acceptance` is [`Acceptance::Rejection`], these options affect the speed only,
    /// never the text.
    pub struct DraftingOptions set by GenerateOptions.drafting {
        /// Use speculation.
        speculation: Speculation = Speculation::Auto,
        /// Source of drafts.
        drafter: DrafterChoice = DrafterChoice::Auto,
        /// Initial number of draft tokens of the draft model per round; 0: no draft model. The adaptive schedule chooses the
        /// number itself.
        num_assistant_tokens: usize = 5,
        /// Rule that changes this number from round to round.
        num_assistant_tokens_schedule: Schedule = Schedule::Adaptive,
        /// End a draft after a token whose probability in the draft model is below this; 0: never.
        assistant_confidence_threshold: f32 = 0.0,
        /// Maximum number of tokens per draft of the prompt lookup. With a schedule other than adaptive and the drafter `auto`,
        /// it also selects the lookup as drafter.
        prompt_lookup_num_tokens: Option<usize> = None,
        /// Length of the longest n-gram that the lookup tries to match; shorter ones follow.
        max_matching_ngram_size: usize = 2,
        /// Which of several matches the lookup uses.
        prompt_lookup_rule: LookupRule = LookupRule::Leftmost,
        /// Expected text, used as a source of drafts.
        prediction: Option<String> = None,
        /// Rule that accepts draft tokens when sampling.
        acceptance: Acceptance = Acceptance::Coupled,
        /// Overlap host work of a round with the device work of another.
        overlap: bool = true,
    }
}

/// Use of speculation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
#[serde(rename_all = "snake_case")]
pub enum Speculation {
    /// Use the drafter of [`DraftingOptions::drafter`].
    Auto,
    /// No speculation: one token per forward pass of the target.
    Off,
}

/// Source of drafts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
#[serde(rename_all = "snake_case")]
pub enum DrafterChoice {
    /// With the schedule `adaptive`: the fastest drafter. Otherwise the prediction if given, else the lookup if
    /// `prompt_lookup_num_tokens` is given, else the draft model.
    Auto,
    /// The draft model.
    DraftModel,
    /// Prompt lookup: the tokens that followed the latest n-gram earlier in the text.
    Lookup,
    /// The text that the caller expects.
    Prediction,
    /// The prediction; if it has no draft, the lookup; if that has none either, the draft model.
    Chain,
}

/// Rule for the number of draft tokens per round: by measurement, or by the rules of transformers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
#[serde(rename_all = "snake_case")]
pub enum Schedule {
    /// Choose drafter and number by expected speed, from measurements; no draft if none helps.
    Adaptive,
    /// Never change the number.
    Constant,
    /// Add 2 if all were accepted, else subtract 1, down to 1. Keep the number between calls.
    Heuristic,
    /// As `heuristic`, but restart with every call.
    HeuristicTransient,
}

/// Which of several matches a prompt lookup uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
#[serde(rename_all = "snake_case")]
pub enum LookupRule {
    /// The first match, as in transformers.
    Leftmost,
    /// The first match, if as many tokens as requested follow it: the original rule (Saxena 2023).
    Whole,
    /// The last match.
    MostRecent,
}

/// Rule that accepts draft tokens when sampling.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
#[serde(rename_all = "snake_case")]
pub enum Acceptance {
    /// Accept if the target draws the same token with the same noise. The text depends on the seed only.
    Coupled,
    /// Rejection sampling (Leviathan et al. 2023; Chen et al. 2023): accepts slightly more. The text follows the target's
    /// distribution, but depends on the drafter.
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
