//! Measured choice of the size of a verify task, and of the draft tokens for which an idle target waits.

use super::lookahead_for;
use crate::speculate::acceptance::{Acceptance, KEPT};

/// Durations of target forwards and draft steps, and acceptance of drafts; older measurements weigh less.
#[derive(Debug, Clone, Default)]
pub struct Tuner {
    forwards: FittedLine,
    steps: FittedLine,
    acceptance: Acceptance,
}

/// Regression line of seconds over rows.
#[derive(Debug, Clone, Copy, Default)]
struct FittedLine {
    weight: f64,
    rows: f64,
    seconds: f64,
    /// Sums of squares and products about the means.
    squares: f64,
    products: f64,
}

impl FittedLine {
    fn add(&mut self, rows: usize, seconds: f64) {
        for sum in [&mut self.weight, &mut self.squares, &mut self.products] {
            *sum *= KEPT;
        }
        self.weight += 1.0;
        let (rows, seconds) = (rows as f64 - self.rows, seconds - self.seconds);
        self.rows += rows / self.weight;
        self.seconds += seconds / self.weight;
        let left = 1.0 - 1.0 / self.weight;
        self.squares += rows * rows * left;
        self.products += rows * seconds * left;
    }

    /// Returns the seconds of `rows` rows, which grow at most in proportion and never fall.
    fn at(&self, rows: usize) -> f64 {
        let slope = if self.squares > 0.0 { self.products / self.squares } else { 0.0 };
        self.seconds + slope.clamp(0.0, self.seconds / self.rows.max(1.0)) * (rows as f64 - self.rows)
    }
}

impl Tuner {
    /// Records the seconds of a target forward over `rows` rows.
    pub fn forward(&mut self, rows: usize, seconds: f64) {
        self.forwards.add(rows, seconds);
    }

    /// Records the seconds of a draft step.
    pub fn step(&mut self, seconds: f64) {
        self.steps.add(1, seconds);
    }

    /// Records that `accepted` of `drafted` tokens were accepted before a token of the target's own.
    pub fn round(&mut self, drafted: usize, accepted: usize) {
        self.acceptance.learn(drafted, accepted);
    }

    /// Returns the mean seconds of a draft step.
    pub fn drafter_latency(&self) -> f64 {
        self.steps.seconds
    }

    /// Returns the draft tokens of a verify task; `None` before the first measurement. With several servers, this is the smallest number
    /// with which they keep up with the drafter (equation 1 of the paper). With one server, it is the number with the most tokens per
    /// second if drafting is free, since drafting overlaps with the target.
    pub fn lookahead(&self, sp_degree: usize) -> Option<usize> {
        let measured = self.forwards.weight > 0.0 && self.steps.weight > 0.0;
        measured.then(|| match sp_degree {
            1 => self.best(0.0).max(1),
            _ => lookahead_for(self.forwards.seconds, self.steps.seconds.max(f64::MIN_POSITIVE), sp_degree),
        })
    }

    /// Returns the draft tokens for which an idle target waits. One server: the number with the most tokens per second, including the wait.
    /// Several servers do not wait, unless drafts take no time.
    pub fn patience(&self, sp_degree: usize) -> usize {
        let is_known = self.forwards.weight > 0.0 && self.steps.weight > 0.0;
        if is_known && (sp_degree == 1 || self.steps.seconds == 0.0) { self.best(self.steps.seconds) } else { 0 }
    }

    /// Returns the draft tokens with the least time per token, if each is waited for `waited` seconds; 0: plain decoding.
    fn best(&self, waited: f64) -> usize {
        let mut best = (self.forwards.at(1), 0);
        for (drafted, accepted) in (1..).zip(self.acceptance.expect()) {
            let per_token = (self.forwards.at(drafted + 1) + drafted as f64 * waited) / (1.0 + accepted);
            if per_token < best.0 {
                best = (per_token, drafted);
            }
        }
        best.1
    }
}
