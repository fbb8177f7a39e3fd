//! Distributed speculative inference as a pure state machine: events in, actions out; no clock, no threads, no GPU (Timor et al. 2024,
//! arXiv 2405.14105, Algorithm 1 with a lookahead).
//!
//! ```text
//!  Drafted, Verified, Free, Lost ──> Dsi::handle ──> Draft, Verify, Cancel, Emit
//! ```
//!
//! The drafter never waits for a verification: it continues as if all its tokens were accepted. Every `lookahead` draft tokens become a
//! verify task for the next free server of the target. If the target disagrees with a token, the token is replaced, everything after it is
//! cancelled, and the drafter restarts from there. Emitted tokens are settled and never taken back. So the text is the target's own,
//! whatever the order of events.
//!
//! docs/dsi.md states what it guarantees.

mod chain;
mod costs;
mod machine;
mod tuner;

pub use costs::DsiCosts;
pub use machine::Dsi;
pub use tuner::Tuner;

use serde::{Deserialize, Serialize};

/// Settings of a machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DsiOptions {
    /// Draft tokens of a verify task, 1 or more.
    pub lookahead: usize,
    /// Servers: instances of the target that verify at the same time, 1 or more.
    pub sp_degree: usize,
    /// Draft tokens to wait for if no task is in flight, at most `lookahead`.
    pub patience: usize,
    /// Tokens wanted.
    pub room: usize,
    /// Ids of tokens that end the text.
    pub ends: Vec<u32>,
}

/// Number of a task, unique within a machine.
pub type TaskId = u64;

/// The text for a model, as a change to the copy that the model has.
///
/// The caller keeps a copy for each server and for the drafter. It truncates the copy to `keep` and appends `tokens`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Feed {
    /// Tokens of the earlier copy that are still valid.
    pub keep: usize,
    /// Tokens after them.
    pub tokens: Vec<u32>,
}

/// Input of the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event<'a> {
    /// The drafter returned the next tokens of its task: one or more, or none if it has nothing to propose.
    Drafted {
        /// Task of the drafter.
        task: TaskId,
        /// Draft tokens.
        ids: &'a [u32],
    },
    /// A verification is done; its server can take another task.
    Verified {
        /// Index of the server.
        server: usize,
        /// Task of the server.
        task: TaskId,
        /// The target's token after each of the task's last `rows` tokens.
        ids: &'a [u32],
    },
    /// A server is available: at first, when it returns after [`Event::Lost`], and after a cancelled task.
    Free {
        /// Index of the server, from 0.
        server: usize,
    },
    /// A server was lost, with its task and its copy of the text.
    Lost {
        /// Index of the server.
        server: usize,
    },
}

/// Output of the machine. The caller performs actions in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Drafting after the text. [`Event::Drafted`] returns the tokens, all at once or one by one. This replaces the drafter's current task,
    /// if any.
    Draft {
        /// Number of the task.
        task: TaskId,
        /// The text; the drafter's own tokens are part of its copy.
        feed: Feed,
        /// Most tokens to draft.
        most: usize,
    },
    /// Pass of the target over the text. [`Event::Verified`] returns the result.
    Verify {
        /// Number of the task.
        task: TaskId,
        /// Index of the server.
        server: usize,
        /// The text. In the same pass, the target reads the tokens that the server has not cached yet.
        feed: Feed,
        /// The task verifies the last `rows` tokens of the text: a known one, then draft tokens.
        rows: usize,
    },
    /// Cancellation of a task whose result is not needed any more. A server answers once: with [`Event::Free`] if it dropped the task, or
    /// with [`Event::Verified`] if it completed it anyway. The drafter does not answer.
    Cancel {
        /// Number of the task.
        task: TaskId,
    },
    /// Next token of the text, which is never taken back.
    Emit {
        /// Id of the token.
        id: u32,
        /// `true`: an accepted draft token. The last token of the text counts as the target's own.
        is_draft: bool,
    },
}

/// Counts of a machine so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Draft tokens.
    pub drafted: usize,
    /// Verify tasks.
    pub verified: usize,
    /// Cancelled tasks, including drafting.
    pub cancelled: usize,
    /// Tokens that the target replaced.
    pub rejected: usize,
    /// Emitted tokens.
    pub emitted: usize,
    /// Emitted tokens that the drafter proposed.
    pub accepted: usize,
}
