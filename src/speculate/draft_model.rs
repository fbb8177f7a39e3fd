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

/// A drafter whose drafts on the device are reported as those of `on_device`.
pub struct Named<'a> {
    /// The drafter.
    pub drafter: Box<dyn Drafter + 'a>,
    /// Drafter on the device.
    pub on_device: Origin,
}

impl Drafter for Named<'_> {
    fn draft(&mut self, tokens: &[u32], room: usize) -> Draft {
        self.drafter.draft(tokens, room)
    }

    fn repeats(&mut self, tokens: &[u32], room: usize) -> bool {
        self.drafter.repeats(tokens, room)
    }

    fn learn(&mut self, round: &Round) {
        self.drafter.learn(round);
    }

    fn origin(&self) -> Origin {
        self.drafter.origin().or_on_device(self.on_device)
    }
}
