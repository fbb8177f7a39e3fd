//! Drafting under a constraint: drafts forced tokens, and cuts other drafts at the first forbidden token.

use crate::constraint::Shared;
use crate::speculate::{Drafter, Origin, Round};
use crate::target::{Draft, MAX_DRAFT};

/// A drafter under a constraint.
pub(super) struct UnderConstraint<'a> {
    constraint: Shared,
    /// Drafter for positions at which the constraint leaves a choice.
    next: Box<dyn Drafter + 'a>,
    is_forced: bool,
}

impl<'a> UnderConstraint<'a> {
    pub fn new(constraint: Shared, next: Box<dyn Drafter + 'a>) -> Self {
        Self { constraint, next, is_forced: false }
    }
}

impl Drafter for UnderConstraint<'_> {
    // Errors of the constraint are ignored here: computing the masks reports them.
    fn draft(&mut self, tokens: &[u32], room: usize) -> Draft {
        let mut forced = self.constraint.borrow_mut().forced(tokens).unwrap_or_default();
        self.is_forced = !forced.is_empty();
        if self.is_forced {
            forced.truncate(MAX_DRAFT);
            return Draft::Tokens(forced);
        }
        match self.next.draft(tokens, room) {
            Draft::Tokens(mut draft) => {
                draft.truncate(self.constraint.borrow_mut().allowed(tokens, &draft).unwrap_or(0));
                Draft::Tokens(draft)
            }
            draft => draft,
        }
    }

    fn least_acceptance(&self) -> f64 {
        self.next.least_acceptance()
    }

    fn learn(&mut self, round: &Round) {
        if self.is_forced {
            self.constraint.borrow_mut().forced_rounds += 1;
        } else {
            self.next.learn(round);
        }
    }

    fn origin(&self) -> Origin {
        if self.is_forced { Origin::Grammar } else { self.next.origin() }
    }
}
