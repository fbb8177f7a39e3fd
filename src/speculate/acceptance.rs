//! Running estimate of a drafter's acceptance, by place in the draft.

use super::estimates::MAX_LOOKAHEAD;

/// Factor on the weight of earlier rounds, low enough that changes are noticed.
pub(super) const KEPT: f64 = 0.97;
/// Weight of a class's estimate as the prior of the next class, in rounds.
const PRIOR: f64 = 2.0;
/// Initial acceptance estimate if a trial is cheap.
const GUESS: f64 = 0.9;
/// Initial acceptance estimate if a trial is expensive. The text shows without one whether a proposal was right.
const CAREFUL: f64 = 0.5;

/// Running acceptance of one drafter. Places 1, 2 to 3, 4 to 7 and 8 to 15 form one class each.
#[derive(Debug, Clone, Copy)]
pub(super) struct Acceptance {
    /// (verified, accepted) draft tokens by class; older rounds weigh less.
    classes: [(f64, f64); 4],
}

impl Default for Acceptance {
    fn default() -> Self {
        let nothing = (0.0, 0.0);
        Self { classes: [(PRIOR, PRIOR * GUESS), nothing, nothing, nothing] }
    }
}

impl Acceptance {
    /// Returns an estimate for drafters whose trials are expensive.
    pub fn careful() -> Self {
        let mut acceptance = Self::default();
        acceptance.classes[0].1 = PRIOR * CAREFUL;
        acceptance
    }

    /// Returns true if there are no observations.
    pub fn is_new(&self) -> bool {
        self.classes == Self::default().classes
    }

    /// Returns the estimate for a place, from 0, if all tokens before it are accepted. A class with few observations resembles the class
    /// before it.
    pub fn rates(&self) -> impl Fn(usize) -> f64 {
        let mut like = self.classes[0].1 / self.classes[0].0;
        let rates = self.classes.map(|(tried, held)| {
            like = (held + PRIOR * like) / (tried + PRIOR);
            like
        });
        move |place| rates[class(place).min(rates.len() - 1)]
    }

    /// Returns the expected accepted tokens of drafts of 1, 2, ... tokens.
    pub fn expect(&self) -> [f64; MAX_LOOKAHEAD] {
        let rate = self.rates();
        let (mut reached, mut accepted) = (1.0, 0.0);
        std::array::from_fn(|place| {
            reached *= rate(place);
            accepted += reached;
            accepted
        })
    }

    /// Records that the first `accepted` of `drafted` tokens were accepted.
    pub fn learn(&mut self, drafted: usize, accepted: usize) {
        for place in 0..drafted.min(accepted + 1).min(MAX_LOOKAHEAD) {
            self.learn_place(place, place < accepted);
        }
    }

    /// Records whether the token at `place` was accepted. All tokens before it were accepted.
    pub fn learn_place(&mut self, place: usize, accepted: bool) {
        if place == 0 {
            for (tried, held) in &mut self.classes {
                *tried *= KEPT;
                *held *= KEPT;
            }
        }
        let (tried, held) = &mut self.classes[class(place)];
        *tried += 1.0;
        *held += f64::from(u8::from(accepted));
    }

    /// Begins a text: reduces observations from other texts to the weight of a prior.
    pub fn begin(&mut self) {
        for (tried, held) in &mut self.classes {
            let kept = f64::min(PRIOR / *tried, 1.0);
            *tried *= kept;
            *held *= kept;
        }
    }
}

fn class(place: usize) -> usize {
    (place + 1).ilog2() as usize
}

#[cfg(test)]
mod tests;
