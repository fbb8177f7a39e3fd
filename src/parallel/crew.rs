//! What is said between the one that writes a text and the instances that work for it. All of it can be sent as JSON.

use crate::error::{Error, Result};
use crate::remote::Later;
use crate::sample::Sampling;
use crate::speculate::dsi::{Feed, TaskId};
use crate::target::Traffic;
use serde::{Deserialize, Serialize};

/// Who an instance is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// A server of the target, from 0 on.
    Server(usize),
    /// The draft model.
    Drafter,
}

/// To an instance.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// A text begins, under a number of its own. A server reports that it is free; an instance that was given up is set up
    /// again.
    Begin {
        /// The text's number.
        text: u64,
        /// How tokens are chosen.
        sampling: Sampling,
    },
    /// For a server of the target.
    Verify {
        /// The task.
        task: TaskId,
        /// The text.
        feed: Feed,
        /// Its last tokens that the task is about.
        rows: usize,
    },
    /// For the drafter.
    Draft {
        /// The task.
        task: TaskId,
        /// The text.
        feed: Feed,
        /// Most tokens to draft.
        most: usize,
    },
    /// For both: a result is not wanted any more.
    Cancel {
        /// The task.
        task: TaskId,
    },
}

/// From an instance.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Report {
    /// A server can take a task.
    Free {
        /// Which one.
        server: usize,
    },
    /// A server reads the text before a task, chunk by chunk.
    Prefilled {
        /// Tokens that it has read.
        done: usize,
    },
    /// A task is done.
    Verified {
        /// By which server.
        server: usize,
        /// The task.
        task: TaskId,
        /// The target's token after each of the last tokens of the text.
        ids: Vec<u32>,
        /// Tokens that were cached before.
        reused: usize,
        /// How long it took.
        seconds: f64,
        /// What was asked of a server that has the target.
        #[serde(default)]
        traffic: Traffic,
    },
    /// The drafter's next tokens.
    Drafted {
        /// Its task.
        task: TaskId,
        /// The tokens; none where it has no more.
        ids: Vec<u32>,
        /// How long it took.
        seconds: f64,
    },
    /// A server's device is lost; it is setting itself up on another.
    Lost {
        /// Which one.
        server: usize,
        /// The driver's words.
        reason: String,
    },
    /// A server cannot go on.
    Gone {
        /// Which one.
        server: usize,
        /// Why.
        error: Error,
    },
    /// Another instance would fail in the same way.
    Failed {
        /// Why.
        error: Error,
    },
    /// The drafter cannot go on.
    NoDrafter {
        /// Why.
        error: Error,
    },
}

impl Role {
    /// What it reports when it cannot go on.
    pub fn gone(self, error: Error) -> Report {
        match self {
            Self::Server(server) => Report::Gone { server, error },
            Self::Drafter => Report::NoDrafter { error },
        }
    }
}

/// Instances of a target, and of a draft model, wherever they are. Their caches stay from text to text.
pub trait Crew {
    /// Target instances.
    fn sp_degree(&self) -> usize;

    /// Whether a draft model is there.
    fn has_drafter(&self) -> bool;

    /// Tells all of them that a text begins, and how the targets and the draft model choose their tokens.
    fn begin(&mut self, sampling: &Sampling, drafting: &Sampling);

    /// Gives an order. An instance that is gone takes none, and has said so.
    fn order(&mut self, to: Role, order: Order);

    /// The next report on the text that began last; none where it does not come within so many seconds.
    ///
    /// # Errors
    /// [`Error::Internal`] where nobody is left who could report.
    fn report(&mut self, within: Option<f64>) -> Later<'_, Result<Option<Report>>>;
}
