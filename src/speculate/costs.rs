//! What rounds cost, in target forwards: told at load, and corrected by each round.

use super::Origin;
use crate::target::Timings;

/// How much of what a round took otherwise than expected is believed ...
const RATE: f64 = 0.2;
/// ... and up to which factor, since a busy machine multiplies some timings. The account hears of up to its square.
const MOST: f64 = 1.25;
/// Tokens that the draft model reads along with its first step, and in the time of one when it reads many.
pub(super) const READ_PER_STEP: usize = 16;
/// Least extra cost of a guessed forward over several rows, in plain rounds. At 0 there would be nothing left to scale.
const LEAST_EXTRA: f64 = 0.01;
/// Plain rounds that wait for proposals, after which one is submitted ahead, to know what waiting costs.
const PAIR: usize = 64;

/// The costs on one device with one pair of models.
#[derive(Debug, Clone)]
pub(super) struct Costs {
    told: Timings,
    /// Which of the forwards over 1, 2, 4, 8 and 16 rows are only guessed.
    guessed: [bool; 5],
    /// The round before, if it was a plain one: its seconds, and whether it was submitted ahead.
    before: Option<(f64, bool)>,
    /// Whether plain decoding was not timed yet in this text, at positions that may be earlier ones.
    is_new_text: bool,
    /// Plain rounds since one was submitted ahead and the one next to it was not.
    unpaired: usize,
}

impl Costs {
    /// As told.
    pub fn new(told: Timings) -> Self {
        Self { told, guessed: [!told.timed; 5], before: None, is_new_text: true, unpaired: PAIR - 5 }
    }

    /// A text begins.
    pub fn begin(&mut self) {
        (self.before, self.is_new_text) = (None, true);
    }

    /// Whether it was long ago that anything said what waiting costs.
    pub fn wants_pair(&self) -> bool {
        self.unpaired % PAIR == PAIR - 1
    }

    /// Seconds of a plain round that is submitted ahead.
    pub fn plain(&self) -> Option<f64> {
        self.told.plain
    }

    /// What it costs to wait for a round before the next is submitted.
    pub fn waiting(&self) -> f64 {
        self.told.waiting
    }

    /// Whether each draft costs the way to a server.
    pub fn is_far(&self) -> bool {
        self.told.far
    }

    /// A round of a drafter. Those of the draft model are submitted ahead, unless the target is far.
    pub fn cost(&self, drafter: Origin, tokens: usize) -> f64 {
        let Timings { rows, step, waiting, far, .. } = self.told;
        let drafting = if drafter == Origin::DraftModel { step * tokens as f64 } else { 0.0 };
        let waiting = if drafter == Origin::DraftModel && !far { 0.0 } else { waiting };
        rows[variant(tokens)] + drafting + waiting
    }

    /// What the draft model takes to read so many tokens.
    pub fn reading(&self, tokens: usize) -> f64 {
        tokens as f64 * self.told.step / READ_PER_STEP as f64
    }

    /// A round of a drafter took so many seconds. Returns what it is believed to have cost.
    pub fn learn(&mut self, drafter: Origin, tokens: usize, seconds: f64, ahead: bool) -> f64 {
        self.before = None;
        let waited = if ahead || drafter != Origin::DraftModel || self.told.far { 0.0 } else { self.told.waiting };
        let expected = self.cost(drafter, tokens) + waited;
        let seen = self.told.plain.map_or(expected, |plain| seconds / plain);
        let rows = variant(tokens);
        if self.guessed[rows] && drafter != Origin::DraftModel {
            // The first of its kind is believed, and what else is guessed is as much off.
            let seen = seen.clamp(expected / 2.0, expected * 2.0);
            let extra = |forward: f64| f64::max(forward - 1.0, LEAST_EXTRA);
            let off = extra(self.told.rows[rows] + seen - expected) / extra(self.told.rows[rows]);
            let guessed = self.told.rows.iter_mut().zip(self.guessed).filter(|(_, guessed)| *guessed);
            guessed.for_each(|(rows, _)| *rows = 1.0 + off * (*rows - 1.0));
            debug_assert!(self.told.rows.iter().all(|rows| rows.is_finite()), "{:?}", self.told);
            self.guessed[rows] = false;
            return seen;
        }
        let ratio = (seen / expected).clamp(1.0 / MOST, MOST * MOST);
        let factor = 1.0 + RATE * (ratio.min(MOST) - 1.0);
        self.told.rows[rows] = f64::max(self.told.rows[rows] * factor, 1.0);
        if drafter == Origin::DraftModel {
            self.told.step *= factor;
        }
        expected * ratio
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
            self.unpaired = 0;
            let ratio = if ahead { before / seconds } else { seconds / before } - 1.0;
            told.waiting = f64::max(told.waiting + RATE * (ratio.clamp(-0.5, told.waiting + 0.5) - told.waiting), 0.0);
        }
        let seen = if ahead { seconds } else { seconds / (1.0 + told.waiting) };
        let plain = told.plain.unwrap_or(seen);
        // Nothing but an earlier position makes a round shorter.
        let rate = if std::mem::take(&mut self.is_new_text) && seen < plain { 1.0 } else { RATE };
        let now = plain + rate * (seen.clamp(plain / MOST, plain * MOST) - plain);
        if told.far {
            // The way takes its time, whatever a token takes.
            told.waiting *= plain / now;
        }
        told.plain = Some(now);
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
        let mut costs = Costs::new(Timings { plain: Some(1.0), timed: true, ..Timings::guess(0.1) });
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
        let mut costs = Costs::new(Timings { plain: Some(1.0), timed: true, ..Timings::guess(0.1) });
        (0..40).for_each(|round| costs.learn_plain(if round % 2 == 0 { 1.2 } else { 1.0 }, round % 2 == 1));
        assert!((costs.waiting() - 0.2).abs() < 0.01 && (costs.plain().unwrap() - 1.0).abs() < 0.01);
    }
}
