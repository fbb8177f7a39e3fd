//! Distributed speculative inference as a pure state machine: events in, actions out; no clock, no threads, no GPU (Timor et al. 2024,
//! arXiv 2405.14105, Algorithm 1 with a lookahead).
//!
//! ```text
//!  Drafted, Verified, Free, Lost ──> Dsi::handle ──> Draft, Verify, Cancel, Emit
//! ```
//!
//! A drafter never waits for a verification: it continues as if all its tokens were accepted. Several drafters continue the same text.
//! Where they disagree, the draft branches. Every `lookahead` draft tokens of a branch become a verify task for the next free server of the
//! target; the likeliest branch comes first, and may take the server of another. A token of the target removes the branches that disagree
//! with it, and everything that continues them is cancelled. If no branch has it, drafters start again after it. Emitted tokens are settled
//! and never taken back. So the text is the target's own, whatever the order of events.
//!
//! ```text
//!  settled  | unsettled
//!           |            .- c - d        lookup, verified by server 1
//!  a - b ---+- the - cat |
//!           |            '- s - a - t    draft model, verified by server 2
//! ```
//!
//! docs/dsi.md states what it guarantees.

mod costs;
mod machine;
mod rank;
mod tree;

pub use costs::DsiCosts;
pub use machine::Dsi;

use serde::{Deserialize, Serialize};

/// Maximum number of drafters.
pub const MAX_DRAFTERS: usize = 32;

/// An option that a machine refuses.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{option} is {value}, but may be {allowed}")]
pub struct InvalidOption {
    /// Name of the option.
    pub option: &'static str,
    /// Value that was given.
    pub value: usize,
    /// The values that are accepted.
    pub allowed: String,
}

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
    /// Instances of each drafter, 1 or more: tasks that it can do at the same time. At most [`MAX_DRAFTERS`] drafters.
    pub drafters: Vec<usize>,
    /// `true`: a server stops as soon as its task is cancelled, so a likelier branch may take the place of another.
    pub can_cancel: bool,
}

/// Number of a task, unique within a machine.
pub type TaskId = u64;

/// The text for a model, as a change to the copy that the model has.
///
/// The caller keeps a copy for each server and for each instance of a drafter. It truncates the copy to `keep` and appends `tokens`.
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
    /// A drafter returned the next tokens of a task: one or more, or none if it has nothing to propose.
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
    /// Drafting after the text. [`Event::Drafted`] returns the tokens, all at once or one by one.
    Draft {
        /// Number of the task.
        task: TaskId,
        /// Index of the drafter.
        drafter: usize,
        /// Index of its instance, which has no task. Instances of all drafters are counted, those of the first drafter first.
        instance: usize,
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
    /// with [`Event::Verified`] if it completed it anyway. A drafter does not answer.
    Cancel {
        /// Number of the task.
        task: TaskId,
    },
    /// Next token of the text, which is never taken back.
    Emit {
        /// Id of the token.
        id: u32,
        /// The drafter, if it is an accepted draft token; the first one, if several proposed it. The last token of the text counts as the
        /// target's own.
        drafter: Option<usize>,
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
    /// Emitted tokens that a drafter proposed.
    pub accepted: usize,
}
