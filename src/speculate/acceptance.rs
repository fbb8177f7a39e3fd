//! How likely a drafter's tokens are to be accepted, by their place in the draft.

use super::adaptive::MOST;

/// How much the guesses about what was not tried count, in rounds.
const PRIOR: f64 = 1.5;
/// How much a place counts as a guess about the next one, in rounds: acceptance changes little from place to place.
const ALIKE: f64 = 8.0;
/// What a round leaves of the weight of earlier ones: half of it after 350 rounds.
const KEPT: f64 = 0.998;
/// Weight of what is left after a change: few enough rounds that the next ones decide.
const AFTER_CHANGE: f64 = 3.0;
/// A change is a mean of the last few surprises, in standard deviations, beyond this.
const CHANGE: f64 = 1.15;
/// What a round leaves of the mean of surprises.
const SURPRISE_KEPT: f64 = 0.82;

/// Running acceptance of one drafter. Old rounds fade slowly, and at once when the recent ones contradict them.
#[derive(Debug, Clone)]
pub(super) struct Acceptance {
    guess: f64,
    /// Rounds that came to this place, and those that were accepted there.
    places: [(f64, f64); MOST],
    surprise: f64,
}

/// What a draft of some length is expected to bring.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Expected {
    /// Accepted tokens, the mean.
    pub accepted: f64,
    /// The standard error of that mean.
    pub error: f64,
    deviation: f64,
}

impl Acceptance {
    /// Nothing is known; a draft token is guessed to be accepted with probability `guess`.
    pub fn new(guess: f64) -> Self {
        Self { guess, places: [(0.0, 0.0); MOST], surprise: 0.0 }
    }

    /// Rounds that count, the faded ones less.
    pub fn weight(&self) -> f64 {
        self.places[0].0
    }

    /// What drafts of 1, 2, ... tokens are expected to bring. A place that few rounds came to is like the one before it.
    pub fn expect(&self) -> [Expected; MOST] {
        let (mut like, mut reached, mut accepted, mut square) = (self.guess, 1.0, 0.0, 0.0);
        let mut all = [Expected::default(); MOST];
        for (i, (expected, (tried, held))) in all.iter_mut().zip(self.places).enumerate() {
            let prior = if i == 0 { PRIOR } else { ALIKE };
            like = (held + prior * like) / (tried + prior);
            reached *= like;
            accepted += reached;
            square += (2 * i + 1) as f64 * reached;
            let deviation = f64::max(square - accepted * accepted, 0.0).sqrt();
            *expected = Expected { accepted, error: deviation / (self.weight() + PRIOR).sqrt(), deviation };
        }
        all
    }

    /// A round of any drafter passed.
    pub fn fade(&mut self) {
        self.scale(KEPT);
    }

    /// Another text begins: what was learned counts as `most` rounds at most.
    pub fn begin(&mut self, most: f64) {
        self.keep(most);
        self.surprise = 0.0;
    }

    /// Of `drafted` tokens the first `accepted` were accepted.
    pub fn learn(&mut self, drafted: usize, accepted: usize) {
        let drafted = drafted.min(MOST);
        let Some(expected) = drafted.checked_sub(1).map(|last| self.expect()[last]) else { return };
        let accepted = accepted.min(drafted);
        let surprise = (accepted as f64 - expected.accepted) / expected.deviation.max(0.3);
        self.surprise = SURPRISE_KEPT * self.surprise + (1.0 - SURPRISE_KEPT) * surprise;
        if self.surprise.abs() > CHANGE {
            self.begin(AFTER_CHANGE);
            self.places[1..].fill((0.0, 0.0));
        }
        for (i, (tried, held)) in self.places.iter_mut().take(drafted.min(accepted + 1)).enumerate() {
            *tried += 1.0;
            *held += f64::from(u8::from(i < accepted));
        }
    }

    fn keep(&mut self, most: f64) {
        if self.weight() > most {
            self.scale(most / self.weight());
        }
    }

    fn scale(&mut self, factor: f64) {
        for (tried, held) in &mut self.places {
            *tried *= factor;
            *held *= factor;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn learned(rounds: usize, drafted: usize, accepted: usize) -> Acceptance {
        let mut acceptance = Acceptance::new(0.7);
        (0..rounds).for_each(|_| acceptance.learn(drafted, accepted));
        acceptance
    }

    #[test]
    fn a_place_that_was_not_tried_is_like_the_one_before() {
        let expected = learned(100, 2, 2).expect();
        assert!((expected[1].accepted - 2.0).abs() < 0.05, "{expected:?}");
        assert!((expected[4].accepted - 5.0).abs() < 0.2, "{expected:?}");
    }

    #[test]
    fn places_behind_a_disagreement_learn_nothing() {
        let expected = learned(100, 5, 1).expect();
        assert!((expected[0].accepted - 1.0).abs() < 0.05, "{expected:?}");
        assert!(expected[4].accepted < 1.1, "{expected:?}");
    }

    #[test]
    fn a_change_is_believed_after_few_rounds() {
        let mut acceptance = learned(300, 5, 5);
        (0..8).for_each(|_| acceptance.learn(5, 0));
        assert!(acceptance.expect()[4].accepted < 0.7);
        (0..12).for_each(|_| acceptance.learn(5, 5));
        assert!(acceptance.expect()[4].accepted > 2.5);
    }

    #[test]
    fn the_error_shrinks_with_the_rounds() {
        assert!(learned(2, 1, 0).expect()[0].error > 3.0 * learned(60, 1, 0).expect()[0].error);
    }
}
