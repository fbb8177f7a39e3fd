//! Measured choice of the size of a verify task, and of the draft tokens for which an idle target waits.

use super::acceptance::{Acceptance, KEPT};
use foretoken_dsi::DsiCosts;

/// Assumed tokens of a text: its end matters little.
const TOKENS: usize = 200;

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

    /// Returns the lookahead, from `shortest` to `longest`, and the patience with the most tokens per second; `None` before the first
    /// measurement.
    pub fn best(&self, sp_degree: usize, shortest: usize, longest: usize) -> Option<(usize, usize)> {
        let is_measured = self.forwards.weight > 0.0 && self.steps.weight > 0.0;
        let (forward, step, acceptance) = (|rows| self.forwards.at(rows), self.steps.seconds, self.acceptance.rates());
        is_measured.then(|| DsiCosts { forward, step, acceptance, sp_degree, tokens: TOKENS }.best(shortest, longest))
    }
}
