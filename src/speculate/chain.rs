//! Chain of two drafters, the cheap one first.

use super::{Drafter, Origin, Round};
use crate::target::Draft;

/// Drafter that asks `first`, and asks `next` if `first` proposes nothing. Chains nest.
pub struct Chain<A, B> {
    first: A,
    next: B,
    from_first: bool,
}

impl<A: Drafter, B: Drafter> Chain<A, B> {
    /// Creates a chain of two drafters.
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
