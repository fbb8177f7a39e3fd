//! Options of speculation: the drafter and the number of draft tokens.

use super::GenerateOptions;
use super::choice::choice;
use super::declare::{Options, options};
use super::value::bad;
use crate::error::Result;

options! {
    /// Drafter and number of draft tokens. Unless `acceptance` is [`Acceptance::Rejection`], these options affect the speed only,
    /// never the text.
    pub struct DraftingOptions set by GenerateOptions.drafting {
        /// Use speculation.
        speculation: Speculation = Speculation::Auto,
        /// Source of drafts.
        drafter: DrafterChoice = DrafterChoice::Auto,
        /// Initial number of draft tokens of the draft model per round, at most 31; 0: no draft model. The adaptive schedule
        /// chooses the number itself.
        num_assistant_tokens: usize = 5,
        /// Rule that changes the number of draft tokens from round to round.
        num_assistant_tokens_schedule: Schedule = Schedule::Adaptive,
        /// End a draft after a token whose probability in the draft model is below this; 0: never.
        assistant_confidence_threshold: f32 [0.0..=1.0] = 0.0,
        /// Maximum number of tokens per draft of the prompt lookup and the suffix lookup. With a schedule other than `adaptive` and
        /// the drafter `auto`, it also selects the prompt lookup as drafter.
        prompt_lookup_num_tokens: Option<usize> [1.., "leave it out for no lookup"] = None => "chosen by the schedule",
        /// Length of the longest n-gram that the lookup tries to match; shorter ones follow.
        max_matching_ngram_size: usize [1..=64] = 2,
        /// Match that the lookup uses if there are several.
        prompt_lookup_rule: LookupRule = LookupRule::Leftmost,
        /// Expected text, used as a source of drafts.
        prediction: Option<String> = None,
        /// Rule that accepts draft tokens when sampling.
        acceptance: Acceptance = Acceptance::Coupled,
        /// Decode text and prepare the next round while the device computes. The text is the same without it.
        overlap: bool = true,
    }
}

choice! {
    /// Use of speculation.
    pub enum Speculation for "speculation" {
        /// Use the drafter that `drafter` selects.
        Auto = "auto",
        /// One token per forward pass of the target.
        Off = "off",
    }
}

choice! {
    /// Source of drafts.
    pub enum DrafterChoice for "drafter" {
        /// With the schedule `adaptive`: the fastest drafter. Otherwise the prediction if given, else the lookup if
        /// `prompt_lookup_num_tokens` is given, else the draft model.
        Auto = "auto",
        /// The draft model, or the MTP layer of the model.
        DraftModel = "draft_model",
        /// Prompt lookup: the tokens that followed the latest n-gram earlier in the text.
        Lookup = "lookup",
        /// Suffix lookup: the tokens that most often followed the last ones, earlier in the text or in earlier texts.
        Suffix = "suffix",
        /// The expected text of `prediction`.
        Prediction = "prediction",
        /// The prediction; if it has no draft, the lookup; if that has none either, the draft model.
        Chain = "chain",
    }
}

choice! {
    /// Rule for the number of draft tokens per round: by measurement, or by the rules of transformers.
    pub enum Schedule for "num_assistant_tokens_schedule" {
        /// Choose drafter and number by expected speed, from measurements; no draft if none helps.
        Adaptive = "adaptive",
        /// Never change the number.
        Constant = "constant",
        /// Add 2 if all were accepted, else subtract 1, down to 1. Keep the number between calls.
        Heuristic = "heuristic",
        /// As `heuristic`, but restart with every call.
        HeuristicTransient = "heuristic_transient",
    }
}

choice! {
    /// Match that a prompt lookup uses if there are several.
    pub enum LookupRule for "prompt_lookup_rule" {
        /// The first match, as in transformers.
        Leftmost = "leftmost",
        /// The first match, if as many tokens as requested follow it: the original rule (Saxena 2023).
        Whole = "whole",
        /// The last match.
        MostRecent = "most_recent",
    }
}

choice! {
    /// Rule that accepts draft tokens when sampling.
    pub enum Acceptance for "acceptance" {
        /// Accept if the target draws the same token with the same noise. The text depends on the seed only.
        Coupled = "coupled",
        /// Rejection sampling, which accepts slightly more. The text follows the target's distribution, but depends on the drafter.
        ///
        /// Leviathan et al. 2023; Chen et al. 2023.
        Rejection = "rejection",
    }
}

impl DraftingOptions {
    pub(super) fn validate(&self) -> Result<()> {
        self.check()?;
        if self.drafter == DrafterChoice::Prediction && self.prediction.is_none() {
            return bad("drafter", "prediction", "draft_model, lookup, suffix or chain if no prediction is given");
        }
        Ok(())
    }
}
