//! Drafting with a small model on the same device, with the lookahead of the schedule.

use super::{Drafter, Lookahead, Origin, Round};
use crate::target::{Draft, MAX_DRAFT};

/// A drafter on the device. It runs in the target's submission, so only its lookahead is here.
pub struct DraftModel<'a> {
    /// Number of tokens to draft.
    pub lookahead: &'a mut Lookahead,
    /// Origin of its tokens.
    pub origin: Origin,
}

impl Drafter for DraftModel<'_> {
    fn draft(&mut self, _tokens: &[u32], room: usize) -> Draft {
        match self.lookahead.tokens().min(room - 1).min(MAX_DRAFT) {
            0 => Draft::Tokens(Vec::new()),
            count => Draft::Model(count),
        }
    }

    fn repeats(&mut self, _tokens: &[u32], _room: usize) -> bool {
        self.lookahead.is_constant()
    }

    fn learn(&mut self, round: &Round) {
        self.lookahead.learn(round.drafted, round.accepted);
    }

    fn origin(&self) -> Origin {
        self.origin
    }
}
