//! Simulations of speculation without models: sequential and distributed speculation and variants, on simulated latencies and acceptances
//! (after the simulations of Timor et al. 2024, arXiv 2405.14105).
//!
//! - [`offline`] adds latencies: exact, fast, and reproducible by seed. [`online`] waits for them on real threads, so its times include
//!   scheduling. In [`cluster`] many users share servers.
//! - A draft token is accepted with the same probability at every position, independent of the tokens before it. Observed match lengths
//!   replace this assumption ([`Draws::with_matches`]): copied text tends to continue.
//! - The time of a forward does not depend on its number of tokens, except for the first forward, which reads the prompt. In a cluster it
//!   does depend on it.
//!
//! Offline latencies may have any unit, because only their ratio matters. Elsewhere they are in milliseconds.

pub mod cluster;
mod draws;
pub mod heatmap;
pub mod offline;
#[cfg(not(target_arch = "wasm32"))]
pub mod online;
pub mod picture;
mod rounds;
mod traces;

pub use draws::Draws;
pub use rounds::{Pass, best_lookahead, expected_si, pearl, plain, si, si_of_authors};
pub use traces::{Trace, Traces};

use foretoken::dsi::DsiCosts;
use foretoken::{Error, Result};
use serde::Serialize;
use std::ops::RangeInclusive;

/// Range searched for the best lookahead.
pub const LOOKAHEADS: RangeInclusive<usize> = 1..=200;

/// Maximum tokens, and maximum repeats, of a simulation.
pub const MOST: usize = 100_000;

/// Allowed latencies. Beyond them, sums would lose their small terms.
const LATENCIES: RangeInclusive<f64> = 1e-6..=1e9;

fn check(option: &'static str, value: f64, allowed: RangeInclusive<f64>) -> Result<()> {
    if allowed.contains(&value) {
        return Ok(());
    }
    let allowed = format!("{} to {}", allowed.start(), allowed.end());
    Err(Error::BadOption { option: option.into(), value: value.to_string(), allowed })
}

fn check_count(option: &'static str, value: usize, most: usize) -> Result<()> {
    check(option, value as f64, 1.0..=most as f64)
}

/// Duration of a model's forwards.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Latency {
    /// Time of the first forward, which reads the prompt: time to first token.
    pub ttft: f64,
    /// Time of each later forward: time per output token.
    pub tpot: f64,
}

impl Latency {
    /// Returns latencies that are equal for all forwards.
    pub fn even(tpot: f64) -> Self {
        Self { ttft: tpot, tpot }
    }
}

/// A target, a drafter, and the settings of their schedules.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Cell {
    /// Latency of the target.
    pub target: Latency,
    /// Latency of the drafter.
    pub drafter: Latency,
    /// Probability that a draft token is accepted.
    pub acceptance: f64,
    /// Draft tokens of a round or a verify task.
    pub lookahead: usize,
    /// Target servers of distributed speculation.
    pub sp_degree: usize,
    /// Tokens to generate.
    pub tokens: usize,
}

impl Cell {
    /// # Errors
    /// [`Error::BadOption`], with the option names of the program.
    pub fn validate(&self) -> Result<()> {
        for (option, value) in [
            ("target_latency", self.target.tpot),
            ("target_ttft", self.target.ttft),
            ("drafter_latency", self.drafter.tpot),
            ("drafter_ttft", self.drafter.ttft),
        ] {
            check(option, value, LATENCIES)?;
        }
        // No realistic target waits for more than 10,000 draft tokens.
        check("drafter_latency", self.drafter.tpot, self.target.tpot * 1e-4..=*LATENCIES.end())?;
        check("acceptance", self.acceptance, 0.0..=1.0)?;
        for (option, value, most) in
            [("lookahead", self.lookahead, 10_000), ("sp_degree", self.sp_degree, 1000), ("tokens", self.tokens, MOST)]
        {
            check_count(option, value, most)?;
        }
        Ok(())
    }

    /// Returns the cell with the smallest lookahead that its servers keep up with.
    pub fn with_least_lookahead(self) -> Self {
        Self { lookahead: lookahead_for(self.target.tpot, self.drafter.tpot, self.sp_degree), ..self }
    }

    /// Returns the draft tokens that an idle target waits for: the best number on average.
    pub fn patience(&self) -> usize {
        self.costs().best_patience(self.lookahead)
    }

    /// Returns the cell with the best lookahead of distributed speculation.
    pub fn with_best_lookahead(self) -> Self {
        Self { lookahead: self.costs().best(*LOOKAHEADS.start(), *LOOKAHEADS.end()).0, ..self }
    }

    fn costs(&self) -> DsiCosts<impl Fn(usize) -> f64, impl Fn(usize) -> f64> {
        let Self { target, drafter, acceptance, sp_degree, tokens, .. } = *self;
        DsiCosts {
            forward: move |_| target.tpot,
            step: drafter.tpot,
            acceptance: move |_| acceptance,
            sp_degree,
            tokens,
        }
    }

    /// Returns an upper bound of the mean latency of distributed speculation (proposition 1 of the paper):
    /// `t1 p (N - 1) + t2 ((1 - p) (N - 1) + 1)`, with latencies t1 of the drafter and t2 of the target. It holds for a lookahead of 1 with
    /// the number of servers that this needs. With larger lookaheads, each disagreement and the end may add the time to complete a block:
    /// `lookahead - 1` draft tokens.
    pub fn bound(&self) -> f64 {
        let Self { target, drafter, acceptance, .. } = self;
        let waits = (self.lookahead - 1) as f64 * drafter.tpot;
        bound(target.tpot + waits, &[(drafter.tpot, *acceptance)], self.tokens)
    }
}

/// Returns the bound of proposition 1 for drafters that are independent of each other, given as latency and acceptance, the fastest first. A
/// token takes as long as the fastest drafter that has it, or as the target if none has. It holds if every drafter continues every branch at
/// once, and every branch is verified at once.
pub fn bound(target: f64, drafters: &[(f64, f64)], tokens: usize) -> f64 {
    let (mut none_has, mut later) = (1.0, 0.0);
    for (latency, acceptance) in drafters {
        later += none_has * acceptance * latency;
        none_has *= 1.0 - acceptance;
    }
    (later + none_has * target) * (tokens - 1) as f64 + target
}

/// Returns the smallest lookahead for which `sp_degree` servers keep up with the drafter: `ceil(target_latency / (lookahead *
/// drafter_latency)) <= sp_degree` (equation 1 of the paper). Latencies are per token, positive, in the same unit.
pub fn lookahead_for(target_latency: f64, drafter_latency: f64, sp_degree: usize) -> usize {
    // A quotient that is whole up to rounding counts as whole.
    let ratio = target_latency / (drafter_latency * sp_degree.max(1) as f64);
    ((ratio * (1.0 - 1e-12)).ceil() as usize).max(1)
}

/// Returns the acceptance that fits observed match lengths: the numbers of accepted tokens before each disagreement. They are geometric, so
/// it is `1 - 1 / (1 + mean)`. Returns 0 without observations.
pub fn acceptance_from_matches(lengths: &[usize]) -> f64 {
    match lengths.len() {
        0 => 0.0,
        count => 1.0 - 1.0 / (1.0 + lengths.iter().sum::<usize>() as f64 / count as f64),
    }
}
