//! Proposals of drafters on the CPU, compared with the text that follows, verified or not. So learning about them costs no rounds.

use super::budget::MAX_SAVED;
use super::{Drafter, Origin};
use crate::target::Draft;

/// Target forwards of credit that a drafter gains for each proposal whose first token the text confirmed.
const CREDIT: f64 = 0.5;
/// Credit at first, and after each wrong first token.
const DOUBT: f64 = -1.5;

/// A drafter on the CPU with its proposals.
pub(super) struct Proposer {
    drafter: Box<dyn Drafter>,
    /// Tokens that it proposes to follow the text; empty: none.
    pub proposal: Vec<u32>,
    /// Length of its latest proposal that was not empty.
    pub usual: usize,
    /// Target forwards that a draft may lose in addition to the budget, which trials of a draft model or an unlucky first draft may have
    /// used up.
    pub credit: f64,
    /// Proposals that the text has not fully confirmed or refuted yet.
    open: Vec<Open>,
}

/// A proposal that is compared with the text.
struct Open {
    /// Position of its first token.
    at: usize,
    proposal: Vec<u32>,
    /// Tokens that agreed with the text so far.
    agreed: usize,
}

impl Open {
    /// Calls `learn(place, is_right)` for each token that the text has reached. Returns true if tokens are left to compare.
    fn compare(&mut self, text: &[u32], learn: &mut impl FnMut(usize, bool)) -> bool {
        while let (Some(guess), Some(id)) = (self.proposal.get(self.agreed), text.get(self.at + self.agreed)) {
            learn(self.agreed, guess == id);
            if guess != id {
                return false;
            }
            self.agreed += 1;
        }
        self.agreed < self.proposal.len()
    }
}

impl Proposer {
    pub fn new(drafter: Box<dyn Drafter>) -> Self {
        Self { drafter, proposal: Vec::new(), usual: 0, credit: DOUBT, open: Vec::new() }
    }

    pub fn origin(&self) -> Origin {
        self.drafter.origin()
    }

    /// Compares earlier proposals with the text, as [`Open::compare`] does, and collects a new one of at most `most` tokens.
    pub fn propose(&mut self, text: &[u32], room: usize, most: usize, mut learn: impl FnMut(usize, bool)) {
        let credit = &mut self.credit;
        let mut compared = |place, is_right| {
            if place == 0 {
                *credit = if is_right { MAX_SAVED.min(*credit + CREDIT) } else { DOUBT };
            }
            learn(place, is_right);
        };
        self.open.retain_mut(|open| open.compare(text, &mut compared));
        self.proposal = match self.drafter.draft(text, room).cut(most) {
            Draft::Tokens(tokens) => tokens,
            Draft::Model(_) => Vec::new(),
        };
        if self.proposal.is_empty() {
            return;
        }
        self.usual = self.proposal.len();
        if self.open.last().is_none_or(|open| open.at < text.len()) {
            self.open.push(Open { at: text.len(), proposal: self.proposal.clone(), agreed: 0 });
        }
    }
}
