//! One drafter after the other: the cheap one first.

use super::{Drafter, Origin, Round};
use crate::target::Draft;

/// Asks `first`, and `next` when that proposes nothing. Chains nest.
pub struct Chain<A, B> {
    first: A,
    next: B,
    from_first: bool,
}

impl<A: Drafter, B: Drafter> Chain<A, B> {
    /// A chain of two.
    pub fn new(first: A, next: B) -> Self {
        Self { first, next, from_first: true }
    }
}

impl<A: Drafter, B: Drafter> Drafter for Chain<A, B> {
    fn draft(&mut self, tokens: &[u32], room: usize) -> Draft {
        let draft = self.first.draft(tokens, room);
        self.from_first = !draft.is_empty();
        if self.from_first { draft } else { self.next.draft(tokens, room) }
    }

    fn learn(&mut self, round: &Round) {
        if self.from_first {
            self.first.learn(round);
        } else {
            self.next.learn(round);
        }
    }

    fn origin(&self) -> Origin {
        if self.from_first { self.first.origin() } else { self.next.origin() }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{DraftModel, Lookahead, PromptLookup};
    use super::*;
    use crate::options::{LookupRule, Schedule};

    fn round(drafted: usize, accepted: usize) -> Round {
        Round { drafted, accepted, ..Round::default() }
    }

    #[test]
    fn the_next_drafts_and_learns_only_when_the_first_has_nothing() {
        let mut lookahead = Lookahead::new(Schedule::Heuristic, 5);
        let lookup = PromptLookup::new(3, 2, LookupRule::Leftmost, &[]);
        let mut chain = Chain::new(lookup, DraftModel(&mut lookahead));
        assert_eq!(chain.draft(&[1, 2, 3, 1, 2], 100), Draft::Tokens(vec![3, 1, 2]));
        assert_eq!(chain.origin(), Origin::Lookup);
        chain.learn(&round(3, 0));
        assert_eq!(chain.draft(&[1, 2, 3, 1, 2, 9], 100), Draft::Model(5));
        assert_eq!(chain.origin(), Origin::DraftModel);
        chain.learn(&round(5, 5));
        assert_eq!(chain.draft(&[1, 2, 3, 1, 2, 9, 8], 100), Draft::Model(7));
    }
}
