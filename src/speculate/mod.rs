//! Speculation: drafters, schedules, and acceptance. Pure: no GPU, no async, no clock. ARCHITECTURE.md explains the terms.

mod accept;
mod acceptance;
mod adaptive;
mod budget;
mod chain;
mod choice;
mod costs;
mod decide;
mod draft_model;
mod estimates;
mod lookahead;
mod lookup;
mod ngram;
mod prediction;
mod proposals;
mod stats;
mod suffix;
mod tuner;

pub use accept::{Accepted, accept};
pub use adaptive::Adaptive;
pub use chain::Chain;
pub use choice::{RoundsBy, Speculating};
pub use draft_model::DraftModel;
pub use lookahead::Lookahead;
pub use lookup::PromptLookup;
pub use prediction::Prediction;
pub use stats::{Distributed, Stats, Times};
pub use suffix::{SuffixLookup, TokenLog};
pub use tuner::Tuner;

use crate::target::Draft;
use serde::Serialize;

/// Source of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[non_exhaustive]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// The draft model; the target agreed. Within schedules: any drafter on the device.
    DraftModel,
    /// The MTP layer of the target's checkpoint; the target agreed.
    Mtp,
    /// A block drafter that reads hidden states of the target (DFlash); the target agreed.
    Dflash,
    /// A block drafter that also knows the draft tokens before each (DSpark); the target agreed.
    Dspark,
    /// An assistant of Gemma 4, which attends to keys and values of the target; the target agreed.
    Gemma4Assistant,
    /// Prompt lookup; the target agreed.
    Lookup,
    /// Suffix lookup, also in earlier texts; the target agreed.
    Suffix,
    /// The text that the caller expects; the target agreed.
    Prediction,
    /// The target itself: recovered, bonus, or without a draft.
    Target,
    /// The grammar, if it leaves no choice; the target agreed.
    Grammar,
}

impl Origin {
    /// Returns the name for messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::DraftModel => "draft model",
            Self::Mtp => "MTP layer",
            Self::Dflash => "DFlash drafter",
            Self::Dspark => "DSpark drafter",
            Self::Gemma4Assistant => "Gemma 4 assistant",
            Self::Lookup => "prompt lookup",
            Self::Suffix => "suffix lookup",
            Self::Prediction => "prediction",
            Self::Target => "target",
            Self::Grammar => "grammar",
        }
    }

    /// Returns `on_device` in place of the drafter on the device.
    pub fn or_on_device(self, on_device: Self) -> Self {
        if self == Self::DraftModel { on_device } else { self }
    }
}

/// Number of drafters in [`Origin`], which are its first variants.
const DRAFTERS: usize = Origin::Target as usize;

/// Result of a round, for the drafter that drafted in it.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Round {
    /// Draft tokens, up to and including the first that ends the text.
    pub drafted: usize,
    /// Accepted draft tokens.
    pub accepted: usize,
    /// Rows of the target's forward: the pending token and the verified draft tokens.
    pub rows: usize,
    /// Tokens that the draft model read in separate submissions before it drafted; 0 if it had missed few tokens.
    pub caught_up: usize,
    /// Tokens that the target read in this call before the round, the last of them within its `seconds`; 0 after the first round.
    pub prefilled: usize,
    /// Seconds of that before the round.
    pub prefill_seconds: f64,
    /// True if it was submitted before the previous round was read.
    pub ahead: bool,
    /// Seconds on the device, including the draft model.
    pub seconds: f64,
}

/// Source of draft tokens.
pub trait Drafter {
    /// Returns draft tokens to follow `tokens`: the prompt and all emitted tokens, the pending token last. `room`: tokens still wanted,
    /// including the target's own, so at most `room - 1` draft tokens are useful.
    fn draft(&mut self, tokens: &[u32], room: usize) -> Draft;

    /// Returns true if the next draft will be like the last one, whatever the result of the current round: none, or as many tokens of the
    /// draft model. Then the next round is submitted without waiting, and `draft` is not called. Called at most once per round, with its
    /// `tokens` and `room`.
    fn repeats(&mut self, _tokens: &[u32], _room: usize) -> bool {
        false
    }

    /// Returns the least probability of acceptance that pays for a row; 0: unknown.
    fn least_acceptance(&self) -> f64 {
        0.0
    }

    /// Records the result of the last draft.
    fn learn(&mut self, round: &Round);

    /// Returns the source of the last draft.
    fn origin(&self) -> Origin;
}

impl<D: Drafter> Drafter for &mut D {
    fn draft(&mut self, tokens: &[u32], room: usize) -> Draft {
        (**self).draft(tokens, room)
    }

    fn repeats(&mut self, tokens: &[u32], room: usize) -> bool {
        (**self).repeats(tokens, room)
    }

    fn least_acceptance(&self) -> f64 {
        (**self).least_acceptance()
    }

    fn learn(&mut self, round: &Round) {
        (**self).learn(round);
    }

    fn origin(&self) -> Origin {
        (**self).origin()
    }
}

/// Drafter that proposes nothing: one token per target forward.
pub struct NoDrafter;

impl Drafter for NoDrafter {
    fn draft(&mut self, _tokens: &[u32], _room: usize) -> Draft {
        Draft::Tokens(Vec::new())
    }

    fn repeats(&mut self, _tokens: &[u32], _room: usize) -> bool {
        true
    }

    fn learn(&mut self, _round: &Round) {}

    fn origin(&self) -> Origin {
        Origin::Target
    }
}
