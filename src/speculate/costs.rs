//! What rounds cost, in target forwards: told at load, and corrected by each round.

use super::Origin;
use crate::target::Timings;

/// How much of what a round took otherwise than expected is believed ...
const RATE: f64 = 0.2;
/// ... and up to which factor: a busy machine multiplies some timings, and a first run may include a compilation.
const MOST: f64 = 1.25;
/// Tokens that the draft model reads along with its first step, and in the time of one when it reads many.
pub(super) const READ_PER_STEP: usize = 16;
/// Rounds without draft tokens after which one is submitted the other way, to know what waiting costs.
const PAIR: usize = 64;

/// The costs on one device with one pair of models.
#[derive(Debug, Clone)]
pub(super) struct Costs {
    told: Timings,
    /// The round before, if it was a plain one: its seconds, and whether it was submitted ahead.
    before: Option<(f64, bool)>,
    /// Plain rounds since two that differed in that came next to each other.
    unpaired: usize,
}

impl Costs {
    /// As told.
    pub fn new(told: Timings) -> Self {
        Self { told, before: None, unpaired: 0 }
    }

    /// Seconds of a plain round that is submitted ahead.
    pub fn plain(&self) -> Option<f64> {
        self.told.plain
    }

    /// What it costs to wait for a round before the next is submitted.
    pub fn waiting(&self) -> f64 {
        self.told.waiting
    }

    /// A round of a drafter. Those of the draft model are submitted ahead.
    pub fn cost(&self, drafter: Origin, tokens: usize) -> f64 {
        let Timings { rows, step, waiting, .. } = self.told;
        let verifying = rows[variant(tokens)];
        if drafter == Origin::DraftModel { verifying + step * tokens as f64 } else { verifying + waiting }
    }

    /// What the draft model takes to read so many tokens.
    pub fn reading(&self, tokens: usize) -> f64 {
        tokens as f64 * self.told.step / READ_PER_STEP as f64
    }

    /// A round of a drafter took so many seconds. Returns what it is believed to have cost.
    pub fn learn(&mut self, drafter: Origin, tokens: usize, seconds: f64, ahead: bool) -> f64 {
        self.before = None;
        let waited = if ahead || drafter != Origin::DraftModel { 0.0 } else { self.told.waiting };
        let expected = self.cost(drafter, tokens) + waited;
        let seen = self.told.plain.map_or(expected, |plain| seconds / plain).clamp(expected / MOST, expected * MOST);
        let factor = 1.0 + RATE * (seen / expected - 1.0);
        let row = &mut self.told.rows[variant(tokens)];
        *row = f64::max(*row * factor, 1.0);
        if drafter == Origin::DraftModel {
            self.told.step *= factor;
        }
        seen
    }

    /// A plain round took so many seconds.
    pub fn learn_plain(&mut self, seconds: f64, ahead: bool) {
        // A coarse clock may say that no time passed.
        if seconds <= 0.0 {
            return;
        }
        let told = &mut self.told;
        self.unpaired += 1;
        if let Some((before, was_ahead)) = self.before.replace((seconds, ahead))
            && ahead != was_ahead
        {
            let ratio = if ahead { before / seconds } else { seconds / before } - 1.0;
            told.waiting = f64::max(told.waiting + RATE * (ratio.clamp(-0.5, told.waiting + 0.5) - told.waiting), 0.0);
            self.unpaired = 0;
        }
        let seen = if ahead { seconds } else { seconds / (1.0 + told.waiting) };
        let plain = told.plain.unwrap_or(seen);
        told.plain = Some(plain + RATE * (seen.clamp(plain / MOST, plain * MOST) - plain));
    }

    /// Whether it is time to submit a plain round the other way.
    pub fn wants_pair(&self) -> bool {
        self.unpaired % PAIR == PAIR - 1
    }
}

/// The kernels' variant for the rows of a draft and its pending token: 1, 2, 4, 8 or 16.
fn variant(tokens: usize) -> usize {
    (tokens + 1).next_power_of_two().ilog2().min(4) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_round_is_hardly_believed_and_many_are() {
        let mut costs = Costs::new(Timings { plain: Some(1.0), ..Timings::guess(0.1) });
        let before = costs.cost(Origin::Lookup, 7);
        costs.learn(Origin::Lookup, 7, 50.0, false);
        assert!(costs.cost(Origin::Lookup, 7) < 1.06 * before);
        for _ in 0..60 {
            costs.learn(Origin::Lookup, 7, 2.0 * before, false);
        }
        assert!((costs.cost(Origin::Lookup, 7) / before - 2.0).abs() < 0.01);
    }

    #[test]
    fn waiting_is_known_from_two_plain_rounds_next_to_each_other() {
        let mut costs = Costs::new(Timings { plain: Some(1.0), ..Timings::guess(0.1) });
        (0..40).for_each(|round| costs.learn_plain(if round % 2 == 0 { 1.2 } else { 1.0 }, round % 2 == 1));
        assert!((costs.waiting() - 0.2).abs() < 0.01 && (costs.plain().unwrap() - 1.0).abs() < 0.01);
    }
}
