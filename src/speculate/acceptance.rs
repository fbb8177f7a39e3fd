//! How likely a drafter's tokens are to be accepted, by their place in the draft.

use super::adaptive::MOST;

/// What a round leaves of the weight of earlier ones: few enough rounds count that a change is noticed.
pub(super) const KEPT: f64 = 0.97;
/// How much a class of places counts as a guess about the next one, in rounds.
const PRIOR: f64 = 2.0;
/// How likely a draft token is guessed to be accepted before anything is known, where a try costs little.
const GUESS: f64 = 0.9;
/// The same where a try costs much, and the text shows without one whether a proposal was right.
const CAREFUL: f64 = 0.5;

/// Running acceptance of one drafter. Places 1, 2 to 3, 4 to 7 and 8 to 15 are a class each.
#[derive(Debug, Clone, Copy)]
pub(super) struct Acceptance {
    /// Draft tokens that were verified and those that were accepted, the older the less.
    classes: [(f64, f64); 4],
}

impl Default for Acceptance {
    /// Nothing is known.
    fn default() -> Self {
        let nothing = (0.0, 0.0);
        Self { classes: [(PRIOR, PRIOR * GUESS), nothing, nothing, nothing] }
    }
}

impl Acceptance {
    /// Nothing is known, and it is not to be found out by trying.
    pub fn careful() -> Self {
        let mut acceptance = Self::default();
        acceptance.classes[0].1 = PRIOR * CAREFUL;
        acceptance
    }

    /// Whether nothing is known.
    pub fn is_new(&self) -> bool {
        self.classes == Self::default().classes
    }

    /// Expected accepted tokens of drafts of 1, 2, ... tokens. A class of which little is known is like the one before it.
    pub fn expect(&self) -> [f64; MOST] {
        let mut like = self.classes[0].1 / self.classes[0].0;
        let rates = self.classes.map(|(tried, held)| {
            like = (held + PRIOR * like) / (tried + PRIOR);
            like
        });
        let (mut reached, mut accepted) = (1.0, 0.0);
        std::array::from_fn(|place| {
            reached *= rates[class(place)];
            accepted += reached;
            accepted
        })
    }

    /// Of `drafted` tokens the first `accepted` were accepted.
    pub fn learn(&mut self, drafted: usize, accepted: usize) {
        for place in 0..drafted.min(accepted + 1).min(MOST) {
            self.learn_place(place, place < accepted);
        }
    }

    /// The token at a place of a draft, whose earlier ones were accepted, was accepted or not.
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

    /// A text begins: what is known of others is a guess about it.
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
mod tests {
    use super::*;

    #[test]
    fn a_place_that_was_not_tried_is_like_the_one_before() {
        let mut acceptance = Acceptance::default();
        (0..100).for_each(|_| acceptance.learn(1, 1));
        assert!(acceptance.expect()[7] > 7.0, "{:?}", acceptance.expect());
        (0..100).for_each(|_| acceptance.learn(5, 1));
        let expected = acceptance.expect();
        assert!(expected[0] > 0.95 && expected[7] < 1.5, "{expected:?}");
    }
}
