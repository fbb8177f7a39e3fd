//! Drafting with a small model on the same device, as many tokens as the schedule says.

use super::{Drafter, Lookahead, Origin, Round};
use crate::target::{Draft, MAX_DRAFT};

/// A draft model; it runs inside the target's submission, so here is only how far it looks ahead.
pub struct DraftModel<'a>(pub &'a mut Lookahead);

impl Drafter for DraftModel<'_> {
    fn draft(&mut self, _tokens: &[u32], room: usize) -> Draft {
        match self.0.tokens().min(room - 1).min(MAX_DRAFT) {
            0 => Draft::Tokens(Vec::new()),
            count => Draft::Model(count),
        }
    }

    fn repeats(&mut self, _tokens: &[u32], _room: usize) -> bool {
        self.0.is_constant()
    }

    fn learn(&mut self, round: &Round) {
        self.0.learn(round.drafted, round.accepted);
    }

    fn origin(&self) -> Origin {
        Origin::DraftModel
    }
}
