//! Decision of the adaptive schedule for one round. Pure.

use super::Origin;
use super::budget::Budget;
use super::choice::{Candidate, Choice};

/// Candidates of one drafter, in ascending order of lookahead; one at least.
pub(super) struct Offer {
    /// One candidate per lookahead.
    pub candidates: Vec<Candidate>,
    /// Cost for the draft model to read what it missed; 0 for other drafters.
    pub reading: f64,
    /// Target forwards that this drafter may lose in addition to the budget.
    pub credit: f64,
}

impl Offer {
    /// Returns the candidate with the highest score among those that lose at most `limit`, if all their tokens are rejected.
    ///
    /// The draft model can draft in each round, so its score is its speed. Others draft in some rounds only, and a long round delays
    /// the gains of the next ones. So their score is the gain over `rate` tokens per target forward.
    fn best(&self, rate: f64, limit: f64) -> Option<Candidate> {
        let score = |one: &Candidate| match one.drafter {
            Origin::DraftModel => one.speed(),
            _ => one.gain(rate),
        };
        let allowed = self.candidates.iter().copied().filter(|one| one.loss() <= limit);
        allowed.reduce(|a, b| if score(&b) > score(&a) { b } else { a })
    }

    /// Returns the gain of the best candidate that loses at most `limit`; 0 without one.
    pub fn gain(&self, rate: f64, limit: f64) -> f64 {
        self.best(rate, limit).map_or(0.0, |one| one.gain(rate))
    }
}

/// Chooses a candidate, or plain decoding. The draft model's offer comes first. `pace`: tokens per target forward of recent rounds.
/// `room`: tokens still wanted; half of them are expected to come.
pub(super) fn decide(offers: &[Offer], budget: &Budget, pace: f64, room: usize) -> Choice {
    // Tokens per target forward that a round must exceed.
    let mut rate = pace;
    let (mut found, mut refused) = (None::<Candidate>, Choice::Nothing);
    for offer in offers {
        let pays = offer.best(rate, f64::INFINITY).is_some_and(|one| one.speed() > 1.0);
        // What does not pay is not drafted, so its loss does not matter for the reason that is reported.
        let limit = if pays { budget.drafts + offer.credit } else { f64::INFINITY };
        let Some(one) = offer.best(rate, limit) else {
            let least = offer.candidates.first();
            refused = least.map_or(refused, |one| Choice::TooExpensive(*one, one.loss()));
            continue;
        };
        if pays && offer.reading > 0.0 {
            let gain = 0.5 * room as f64 * (1.0 - 1.0 / one.speed());
            if gain <= 2.0 * offer.reading || !budget.allows_reading(offer.reading, one.loss()) {
                refused = Choice::TooExpensive(one, offer.reading + one.cost - 1.0);
                continue;
            }
        }
        if one.drafter == Origin::DraftModel {
            rate = one.speed().max(rate);
        }
        found = found.filter(|other| other.gain(rate) >= one.gain(rate)).or(Some(one));
    }
    match found {
        Some(one) if one.gain(rate) > 0.0 && budget.allows_timing(one.speed()) => Choice::Measure,
        Some(one) if one.gain(rate) > 0.0 => Choice::Draft(one),
        Some(one) if one.speed() >= 1.0 => Choice::Wait(one, rate),
        Some(one) => Choice::Plain(one),
        None => refused,
    }
}

#[cfg(test)]
mod tests;
