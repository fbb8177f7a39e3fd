//! Expected time per token, and the lookahead and patience for which it is least. Drafting and verifying overlap.

use std::collections::VecDeque;

/// Probability of a longer run of accepted tokens that is left out of an expectation.
const RARE: f64 = 1e-3;

/// Costs and acceptance of a pair of models. Times have one unit.
pub struct DsiCosts<F, A> {
    /// Time of a target forward by its number of rows.
    pub forward: F,
    /// Time of a draft step.
    pub step: f64,
    /// Probability that the draft token at a place, from 0, is accepted if those before it are.
    pub acceptance: A,
    /// Servers of the target.
    pub sp_degree: usize,
    /// Tokens of a text, 1 or more.
    pub tokens: usize,
}

impl<F: Fn(usize) -> f64, A: Fn(usize) -> f64> DsiCosts<F, A> {
    /// Returns the expected time per token. An idle target waits for `patience` draft tokens.
    ///
    /// After each token that the drafter did not propose, everything begins anew. Until then all draft tokens are right, so there is only one
    /// course of events, and the first wrong token only decides where it ends.
    pub fn time_per_token(&self, lookahead: usize, patience: usize) -> f64 {
        let block = lookahead.saturating_add(1);
        let (mut now, mut drafting, mut tasks) = (0.0, None, VecDeque::new());
        // Position 0 has the known token. Positions that are drafted, settled and given to a server, and the start of the block to fill.
        let (mut drafted, mut settled, mut fed, mut block_start) = (0_usize, 0, 0, 1);
        let (mut reached, mut time, mut tokens) = (1.0, 0.0, 0.0);
        loop {
            while tasks.len() < self.sp_degree && fed <= drafted {
                let is_full = (drafted + 1).saturating_sub(block_start) >= lookahead;
                let waits = if tasks.is_empty() { drafted - fed < patience } else { !is_full };
                if waits && drafted + 1 < self.tokens {
                    break;
                }
                let rows = (drafted + 1 - fed).min(block);
                fed += rows;
                if is_full {
                    block_start = fed;
                }
                tasks.push_back((now + (self.forward)(rows), fed));
            }
            let has_room = drafted + 1 - fed < block && drafted - settled < (self.sp_degree + 1) * block;
            if drafting.is_none() && has_room && drafted + 1 < self.tokens {
                drafting = Some(now + self.step);
            }
            let end = tasks.front().map_or(f64::INFINITY, |task: &(f64, usize)| task.0);
            if let Some(ready) = drafting.take_if(|ready| *ready <= end) {
                now = ready;
                drafted += 1;
                continue;
            }
            let Some((end, to)) = tasks.pop_front() else { return f64::INFINITY };
            now = end.max(now);
            while settled < to {
                settled += 1;
                let accepted = if settled <= drafted { (self.acceptance)(settled - 1) } else { 0.0 };
                let ends = reached * (1.0 - accepted);
                time += ends * now;
                tokens += ends * settled as f64;
                reached *= accepted;
            }
            if reached < RARE || settled >= self.tokens {
                return (time + reached * now) / (tokens + reached * settled as f64);
            }
        }
    }

    /// Returns the patience with the least time per token.
    pub fn best_patience(&self, lookahead: usize) -> usize {
        self.least((0..=lookahead).map(|patience| (lookahead, patience))).1
    }

    /// Returns the lookahead, from `shortest` to `longest`, and the patience with the least time per token. Of long ones it tries some.
    pub fn best(&self, shortest: usize, longest: usize) -> (usize, usize) {
        let pairs = |lookahead| some(0, lookahead).map(move |patience| (lookahead, patience));
        self.least(some(shortest, longest).flat_map(pairs))
    }

    fn least(&self, pairs: impl Iterator<Item = (usize, usize)>) -> (usize, usize) {
        let timed =
            pairs.map(|(lookahead, patience)| (self.time_per_token(lookahead, patience), (lookahead, patience)));
        timed.fold((f64::INFINITY, (1, 0)), |best, next| if next.0 < best.0 { next } else { best }).1
    }
}

/// Returns numbers from `first` to `last`; neighbours differ by one, or by a sixth.
fn some(first: usize, last: usize) -> impl Iterator<Item = usize> {
    std::iter::successors(Some(first), move |&at| (at < last).then(|| (at + 1 + at / 6).min(last)))
}
