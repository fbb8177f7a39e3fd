//! The heart: who guesses the next tokens, how many, and which of them count. Pure: no GPU, no async, no clock.
//!
//! The words of a round: a **drafter** proposes **draft tokens**; the target **verifies** them together with the
//! **pending token**; those that the target agrees with, from the first on, are **accepted**; then comes one token of
//! the target's own, **recovered** after a disagreement or the **bonus** when all were accepted.

mod accept;
mod acceptance;
mod adaptive;
mod chain;
mod choice;
mod costs;
mod draft_model;
pub mod dsi;
mod lookahead;
mod lookup;
mod ngram;
mod prediction;
mod stats;

pub use accept::{Accepted, accept};
pub use adaptive::Adaptive;
pub use chain::Chain;
pub use choice::{RoundsBy, Speculating};
pub use draft_model::DraftModel;
pub use lookahead::Lookahead;
pub use lookup::PromptLookup;
pub use prediction::Prediction;
pub use stats::{Distributed, Stats, Times};

use crate::target::Draft;
use serde::Serialize;

/// Who proposed a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[non_exhaustive]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// The draft model; the target agreed.
    DraftModel,
    /// The prompt lookup; the target agreed.
    Lookup,
    /// The text that the caller expects; the target agreed.
    Prediction,
    /// The target itself: recovered, bonus, or without a draft.
    Target,
    /// The form that the text is to have, where it leaves no choice; the target agreed.
    Grammar,
}

/// What a round did, for the drafter that drafted in it.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Round {
    /// Draft tokens, up to the first end of text.
    pub drafted: usize,
    /// Draft tokens accepted.
    pub accepted: usize,
    /// Rows of the target's forward: the pending token and the draft tokens that were verified.
    pub rows: usize,
    /// Tokens that the draft model read in submissions of their own before it drafted: 0 when it was close behind.
    pub caught_up: usize,
    /// Tokens that the target read in this call before the round, the last of them in its `seconds`: 0 after the first round.
    pub prefilled: usize,
    /// Whether it was submitted before the round before it was read.
    pub ahead: bool,
    /// Seconds on the device, with the draft model's part.
    pub seconds: f64,
}

/// Whoever guesses.
pub trait Drafter {
    /// Draft tokens to follow `tokens`: the prompt and all that was emitted, the pending token last. `room` tokens are
    /// still wanted, the target's own included, so at most `room - 1` draft tokens can be of use.
    fn draft(&mut self, tokens: &[u32], room: usize) -> Draft;

    /// Whether its draft behind a round that is being verified would be like its last one, whatever becomes of that: as many
    /// tokens of the draft model, or none. Then that need not be known before the next round is submitted, and nobody asks
    /// for a draft. Asked once in each round where that could be; `tokens` and `room` are those of that round.
    fn repeats(&mut self, _tokens: &[u32], _room: usize) -> bool {
        false
    }

    /// Hears what became of its last draft.
    fn learn(&mut self, round: &Round);

    /// Where the tokens of its last draft come from.
    fn origin(&self) -> Origin;
}

impl<D: Drafter> Drafter for &mut D {
    fn draft(&mut self, tokens: &[u32], room: usize) -> Draft {
        (**self).draft(tokens, room)
    }

    fn repeats(&mut self, tokens: &[u32], room: usize) -> bool {
        (**self).repeats(tokens, room)
    }

    fn learn(&mut self, round: &Round) {
        (**self).learn(round);
    }

    fn origin(&self) -> Origin {
        (**self).origin()
    }
}

/// Guesses nothing: one token per target forward.
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
