//! The heart: who guesses the next tokens, how many, and which of them count. Pure: no GPU, no async, no clock.
//!
//! The words of a round: a **drafter** proposes **draft tokens**; the target **verifies** them together with the
//! **pending token**; those that the target agrees with, from the first on, are **accepted**; then comes one token of
//! the target's own, **recovered** after a disagreement or the **bonus** when all were accepted.

mod accept;
mod draft_model;
mod lookahead;
mod lookup;
mod stats;

pub use accept::{Accepted, accept};
pub use draft_model::DraftModel;
pub use lookahead::Lookahead;
pub use lookup::PromptLookup;
pub use stats::{Stats, Times};

use crate::decode::Draft;
use serde::Serialize;

/// Who proposed a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// The draft model; the target agreed.
    DraftModel,
    /// The prompt lookup; the target agreed.
    Lookup,
    /// The target itself: recovered, bonus, or without a draft.
    Target,
}

/// Whoever guesses.
pub trait Drafter {
    /// Draft tokens to follow `tokens`: the prompt and all that was emitted, the pending token last. `room` tokens are
    /// still wanted, the target's own included, so at most `room - 1` draft tokens can be of use.
    fn draft(&mut self, tokens: &[u32], room: usize) -> Draft;

    /// Hears how many of its draft tokens a round had, and how many were accepted.
    fn learn(&mut self, drafted: usize, accepted: usize);

    /// Where its tokens come from.
    fn origin(&self) -> Origin;
}

/// Guesses nothing: one token per target forward.
pub struct NoDrafter;

impl Drafter for NoDrafter {
    fn draft(&mut self, _tokens: &[u32], _room: usize) -> Draft {
        Draft::Tokens(Vec::new())
    }

    fn learn(&mut self, _drafted: usize, _accepted: usize) {}

    fn origin(&self) -> Origin {
        Origin::Target
    }
}
