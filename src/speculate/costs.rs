//! Costs of rounds in target forwards: measured or guessed at load, and corrected by each round.

use super::Origin;
use crate::target::Timings;

/// Share of the difference between measured and expected cost that a round corrects.
const RATE: f64 = 0.2;
/// Largest correction factor, since a busy machine multiplies some timings. The cost for the budget is limited to its square.
const MAX_FACTOR: f64 = 1.25;
/// Tokens that the draft model reads together with its first step. Until it is measured, reading takes one step for each such group.
pub(super) const READ_PER_STEP: usize = 16;
/// Least number of tokens whose reading is timed.
const MUCH: usize = 64;
/// Least extra cost of a guessed forward over several rows, in plain rounds. At 0 there would be nothing left to scale.
const LEAST_EXTRA: f64 = 0.01;
/// Plain rounds that wait for proposals before one is submitted ahead, to measure the cost of waiting.
const PAIR: usize = 64;

/// Costs on one device for one target and draft model.
#[derive(Debug, Clone)]
pub(super) struct Costs {
    timings: Timings,
    /// Time for a model to read one token of many, in its forwards over one row.
    reading: f64,
    /// Seconds of the previous round, and true if it was submitted ahead; `None`: it was not a plain round.
    before: Option<(f64, bool)>,
    /// True until plain decoding is timed in this text, whose positions may be lower.
    is_new_text: bool,
    /// Plain rounds since the last pair of neighbours of which only one was submitted ahead.
    unpaired: usize,
}

impl Costs {
    pub fn new(timings: Timings) -> Self {
        let reading = 1.0 / READ_PER_STEP as f64;
        Self { timings, reading, before: None, is_new_text: true, unpaired: PAIR - 5 }
    }

    pub fn begin(&mut self) {
        (self.before, self.is_new_text) = (None, true);
    }

    /// Returns true if the cost of waiting should be measured again.
    pub fn wants_pair(&self) -> bool {
        self.unpaired % PAIR == PAIR - 1
    }

    /// Returns the seconds of a plain round that is submitted ahead.
    pub fn plain(&self) -> Option<f64> {
        self.timings.plain
    }

    /// Returns the extra cost of reading a round before the next one is submitted.
    pub fn waiting(&self) -> f64 {
        self.timings.waiting
    }

    /// Returns the cost of a round. Rounds of the draft model are submitted ahead, unless the target is far.
    pub fn cost(&self, drafter: Origin, tokens: usize) -> f64 {
        let Timings { rows, step, at_once, waiting, far, .. } = self.timings;
        let steps = if at_once { tokens.min(1) } else { tokens };
        let drafting = if drafter == Origin::DraftModel { step * steps as f64 } else { 0.0 };
        let waiting = if drafter == Origin::DraftModel && !far { 0.0 } else { waiting };
        rows[variant(tokens)] + drafting + waiting
    }

    /// Returns the cost of each of `tokens` draft rows.
    pub fn row(&self, tokens: usize) -> f64 {
        (self.timings.rows[variant(tokens)] - 1.0) / tokens as f64
    }

    /// Returns the cost for the draft model to read `tokens` tokens.
    pub fn reading(&self, tokens: usize) -> f64 {
        tokens as f64 * self.timings.step * self.reading
    }

    /// Records the seconds in which the target read `tokens` tokens and computed a round of expected cost `cost`. In forwards over one row, a
    /// draft model reads them as fast.
    pub fn learn_reading(&mut self, tokens: usize, cost: f64, seconds: f64) {
        // A server reads at a speed of its own.
        if let Some(plain) = self.timings.plain.filter(|_| tokens >= MUCH && !self.timings.far) {
            self.reading = ((seconds / plain - cost) / tokens as f64).clamp(0.0, 1.0);
        }
    }

    /// Records the seconds of a round with a draft. Returns its estimated cost.
    pub fn learn(&mut self, drafter: Origin, tokens: usize, seconds: f64, ahead: bool) -> f64 {
        self.before = None;
        let waited =
            if ahead || drafter != Origin::DraftModel || self.timings.far { 0.0 } else { self.timings.waiting };
        let expected = self.cost(drafter, tokens) + waited;
        let seen = self.timings.plain.map_or(expected, |plain| seconds / plain);
        let (at, timings) = (variant(tokens), &mut self.timings);
        if !timings.timed[at] && drafter != Origin::DraftModel {
            // The first measurement is used within a factor of 2, and other guesses are scaled by the same error.
            let seen = seen.clamp(expected / 2.0, expected * 2.0);
            let extra = |forward: f64| f64::max(forward - 1.0, LEAST_EXTRA);
            let off = extra(timings.rows[at] + seen - expected) / extra(timings.rows[at]);
            let guessed = timings.rows.iter_mut().zip(timings.timed).filter(|(_, timed)| !timed);
            guessed.for_each(|(rows, _)| *rows = 1.0 + off * (*rows - 1.0));
            debug_assert!(timings.rows.iter().all(|rows| rows.is_finite()), "{timings:?}");
            timings.timed[at] = true;
            return seen;
        }
        let ratio = (seen / expected).clamp(1.0 / MAX_FACTOR, MAX_FACTOR * MAX_FACTOR);
        let factor = 1.0 + RATE * (ratio.min(MAX_FACTOR) - 1.0);
        timings.rows[at] = f64::max(timings.rows[at] * factor, 1.0);
        if drafter == Origin::DraftModel {
            timings.step *= factor;
        }
        expected * ratio
    }

    /// Records the seconds of a plain round.
    pub fn learn_plain(&mut self, seconds: f64, ahead: bool) {
        // With a coarse clock, the time may be 0.
        if seconds <= 0.0 {
            return;
        }
        let timings = &mut self.timings;
        self.unpaired += 1;
        if let Some((before, was_ahead)) = self.before.replace((seconds, ahead))
            && ahead != was_ahead
        {
            self.unpaired = 0;
            let ratio = if ahead { before / seconds } else { seconds / before } - 1.0;
            timings.waiting =
                f64::max(timings.waiting + RATE * (ratio.clamp(-0.5, timings.waiting + 0.5) - timings.waiting), 0.0);
        }
        let seen = if ahead { seconds } else { seconds / (1.0 + timings.waiting) };
        let plain = timings.plain.unwrap_or(seen);
        // Only a lower position makes a round faster.
        let rate = if std::mem::take(&mut self.is_new_text) && seen < plain { 1.0 } else { RATE };
        let now = plain + rate * (seen.clamp(plain / MAX_FACTOR, plain * MAX_FACTOR) - plain);
        if timings.far {
            // The round trip takes the same time, however fast a token is.
            timings.waiting *= plain / now;
        }
        timings.plain = Some(now);
    }
}

/// Returns the kernel variant for a draft and its pending token: 0 to 4 for 1, 2, 4, 8 or 16 rows.
fn variant(tokens: usize) -> usize {
    (tokens + 1).next_power_of_two().ilog2().min(4) as usize
}

#[cfg(test)]
mod tests;
