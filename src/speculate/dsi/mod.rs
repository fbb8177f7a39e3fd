//! Distributed speculative inference as a pure state machine: events in, actions out; no clock, no threads, no GPU
//! (Timor et al. 2024, arXiv 2405.14105, Algorithm 1 with a lookahead).
//!
//! ```text
//!  Drafted, Verified, Free, Lost ──> Dsi::handle ──> Draft, Verify, Cancel, Emit
//! ```
//!
//! The drafter never waits for a verification: it goes on as if all its tokens were accepted. Every `lookahead` draft
//! tokens become a verify task for the next free server of the target. A token that the target disagrees with is
//! replaced, everything behind it is cancelled, and the drafter starts again from there. What is emitted is settled
//! and never taken back, so the text is the target's own, whatever the order in which things happen.
//!
//! Models stand in a row: model 0 drafts, the last one is the target, and those between both verify what came from
//! the faster ones and are verified by the slower ones.
//!
//! **What is guaranteed**, for every sequence of acceptances, when a verification takes the same time for any number
//! of tokens and cancelling is free:
//! - With two servers or more and patience 0, no token comes later than in plain decoding, and the text is complete no
//!   later than with sequential speculation of the same lookahead.
//! - One server cannot promise both: with a first draft token that is wrong, only a target that started at once is as
//!   fast as plain decoding; with `lookahead` right ones, only a target that waited for them is as fast as sequential
//!   speculation. [`Verifier::patience`] chooses: 0 promises the first, `lookahead` the second, and [`patience`] is the
//!   number for which neither is missed on average.
//! - At most `(sp_degree * depth + 1) * (lookahead + 1)` tokens are not settled, one more for every model between
//!   drafter and target: a disagreement throws away no more than that.

mod chain;
mod machine;
mod tuner;

pub use machine::Dsi;
pub use tuner::Tuner;

use serde::{Deserialize, Serialize};

/// What a run of the machine is made of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DsiOptions {
    /// The models that verify, faster ones first; the last one is the target.
    pub verifiers: Vec<Verifier>,
    /// Tokens wanted.
    pub room: usize,
    /// Token ids that end the text.
    pub ends: Vec<u32>,
}

/// A model that verifies, on one or more servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Verifier {
    /// Draft tokens that make a verify task, 1 or more.
    pub lookahead: usize,
    /// Servers: instances of the model that verify at the same time, 1 or more.
    pub sp_degree: usize,
    /// Draft tokens that are waited for when nothing of the model's is in flight, at most `lookahead`.
    pub patience: usize,
    /// Tasks that a server may hold, 1 or more; with 2, one waits in the device's queue behind the running one.
    pub depth: usize,
}

impl DsiOptions {
    /// One drafter and one target on `sp_degree` servers, without patience. [`Dsi::tune`] changes that on the way.
    pub fn pair(lookahead: usize, sp_degree: usize, room: usize, ends: &[u32]) -> Self {
        let target = Verifier { lookahead, sp_degree, patience: 0, depth: 1 };
        Self { verifiers: vec![target], room, ends: ends.to_vec() }
    }
}

/// Number of a task; no two tasks of a machine share one.
pub type TaskId = u64;

/// The text as a model has to know it: what it was told before, cut and continued.
///
/// A driver keeps a copy for each server and for the drafter: it truncates the copy to `keep` and appends `tokens`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Feed {
    /// Tokens of the earlier copy that hold.
    pub keep: usize,
    /// What follows them.
    pub tokens: Vec<u32>,
}

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event<'a> {
    /// The drafter has the next tokens of its task: one or more, or none when it has nothing to propose.
    Drafted {
        /// Its task.
        task: TaskId,
        /// The tokens.
        ids: &'a [u32],
    },
    /// A verification is done; its server can take another task.
    Verified {
        /// The server.
        server: usize,
        /// Its task.
        task: TaskId,
        /// The model's token after each of the task's last `rows` tokens.
        ids: &'a [u32],
    },
    /// A server is there: at first, when it comes back after [`Event::Lost`], and after a cancelled task.
    Free {
        /// Which one: servers are numbered from 0, those of the first verifier first.
        server: usize,
    },
    /// A server is gone, and with it its task and its copy of the text.
    Lost {
        /// Which one.
        server: usize,
    },
}

/// What to do. Actions are to be carried out in their order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Draft behind the text; reported by [`Event::Drafted`], in one piece or token by token. It replaces the drafter's
    /// task, if there is one.
    Draft {
        /// Number of the task.
        task: TaskId,
        /// The text; the drafter's own tokens belong to its copy.
        feed: Feed,
        /// Most tokens to draft.
        most: usize,
    },
    /// Run a model over the text; reported by [`Event::Verified`].
    Verify {
        /// Number of the task.
        task: TaskId,
        /// The server.
        server: usize,
        /// The text. What the server does not have in its cache yet goes through the model in the same pass.
        feed: Feed,
        /// The task is about the last so many tokens of the text: a known one, then draft tokens.
        rows: usize,
    },
    /// The result of a task is not wanted any more. A server answers once: with [`Event::Free`] when it has dropped the
    /// task, or with [`Event::Verified`] when it is done with it all the same. The drafter does not answer.
    Cancel {
        /// The task.
        task: TaskId,
    },
    /// A token of the text, in order, never taken back.
    Emit {
        /// The token.
        id: u32,
        /// The model that proposed it first; the target for its own tokens and for whatever ends the text.
        model: usize,
    },
}

/// What a machine did so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Draft tokens of model 0.
    pub drafted: usize,
    /// Verify tasks of all models.
    pub verified: usize,
    /// Tasks cancelled, drafting included.
    pub cancelled: usize,
    /// Tokens replaced by a slower model's.
    pub rejected: usize,
    /// Tokens emitted.
    pub emitted: usize,
    /// Emitted tokens that another model than the target proposed.
    pub accepted: usize,
}

/// The smallest lookahead for which `sp_degree` servers keep up with the drafter:
/// `ceil(target_latency / (lookahead * drafter_latency)) <= sp_degree` (equation 1 of the paper). Latencies are per
/// token, positive, in the same unit.
pub fn lookahead_for(target_latency: f64, drafter_latency: f64, sp_degree: usize) -> usize {
    // A quotient that is whole up to rounding counts as whole.
    let ratio = target_latency / (drafter_latency * sp_degree.max(1) as f64);
    ((ratio * (1.0 - 1e-12)).ceil() as usize).max(1)
}

/// The SP degree that a lookahead needs, by the same equation.
pub fn sp_degree_for(target_latency: f64, drafter_latency: f64, lookahead: usize) -> usize {
    lookahead_for(target_latency, drafter_latency, lookahead)
}

/// The number of draft tokens, at most `lookahead`, for which a round of sequential speculation takes the least time
/// per token on average, `(k c + t) (1 - p) / (1 - p^(k + 1))`; 0 where plain decoding is faster. Latencies are per
/// token, in the same unit; `acceptance` is from 0 to 1.
pub fn patience(target_latency: f64, drafter_latency: f64, acceptance: f64, lookahead: usize) -> usize {
    let mut best = (f64::INFINITY, 0);
    let (mut tokens, mut power) = (0.0, 1.0);
    for k in 0..=lookahead {
        tokens += power;
        power *= acceptance;
        let per_token = (k as f64 * drafter_latency + target_latency) / tokens;
        if per_token < best.0 {
            best = (per_token, k);
        }
    }
    best.1
}
