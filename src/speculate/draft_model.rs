//! Drafting with a small model on the same device, with the lookahead of the schedule.

use super::{Drafter, Lookahead, Origin, Round};
use crate::target::{Draft, MAX_DRAFT};

/// A draft model. It runs in the target's submission, so only its lookahead is here.
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
