//! How many draft tokens make a verify task, and for how many an idle target waits, by what was measured.

use super::lookahead_for;
use crate::speculate::acceptance::{Acceptance, KEPT};

/// What target forwards and draft steps take, and how often drafts are accepted; what is older counts less.
#[derive(Debug, Clone, Default)]
pub struct Tuner {
    forwards: Line,
    steps: Line,
    acceptance: Acceptance,
}

/// A line through (rows, seconds).
#[derive(Debug, Clone, Copy, Default)]
struct Line {
    weight: f64,
    rows: f64,
    seconds: f64,
    /// Sums of squares and products about the means.
    squares: f64,
    products: f64,
}

impl Line {
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

    /// More rows take no less, and no more than in proportion.
    fn at(&self, rows: usize) -> f64 {
        let slope = if self.squares > 0.0 { self.products / self.squares } else { 0.0 };
        self.seconds + slope.clamp(0.0, self.seconds / self.rows.max(1.0)) * (rows as f64 - self.rows)
    }
}

impl Tuner {
    /// A target forward over so many rows took so many seconds.
    pub fn forward(&mut self, rows: usize, seconds: f64) {
        self.forwards.add(rows, seconds);
    }

    /// A draft step took so many seconds.
    pub fn step(&mut self, seconds: f64) {
        self.steps.add(1, seconds);
    }

    /// Of so many draft tokens so many were accepted, before the target wrote one of its own.
    pub fn round(&mut self, drafted: usize, accepted: usize) {
        self.acceptance.learn(drafted, accepted);
    }

    /// Mean seconds of a draft step.
    pub fn drafter_latency(&self) -> f64 {
        self.steps.seconds
    }

    /// Draft tokens for a verify task; none before anything was measured. With several servers that is the smallest number with which
    /// they keep up with the drafter, by equation 1 of the paper. With one it is the number that gives most tokens per second when
    /// drafting costs nothing, because that is done while the target computes.
    pub fn lookahead(&self, sp_degree: usize) -> Option<usize> {
        let measured = self.forwards.weight > 0.0 && self.steps.weight > 0.0;
        measured.then(|| match sp_degree {
            1 => self.best(0.0).max(1),
            _ => lookahead_for(self.forwards.seconds, self.steps.seconds.max(f64::MIN_POSITIVE), sp_degree),
        })
    }

    /// Draft tokens for which an idle target waits. One server: as many as give most tokens per second when they are waited for.
    /// Several need not wait, unless drafts take no time.
    pub fn patience(&self, sp_degree: usize) -> usize {
        let is_known = self.forwards.weight > 0.0 && self.steps.weight > 0.0;
        if is_known && (sp_degree == 1 || self.steps.seconds == 0.0) { self.best(self.steps.seconds) } else { 0 }
    }

    /// The draft tokens, each of which is waited for so long, with which a round takes the least time per token; 0 where that is plain
    /// decoding.
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
