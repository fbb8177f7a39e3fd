//! The coordinator's view of its instances: the trait, and the messages in both directions, which can be sent as JSON.

use crate::backend::server::Later;
use crate::error::{Error, Result};
use crate::sample::Sampling;
use crate::target::Traffic;
use foretoken_dsi::{Feed, TaskId};
use serde::{Deserialize, Serialize};

/// Role of an instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// An instance of the target, counted from 0.
    Target(usize),
    /// The draft model.
    Drafter,
}

/// A message to an instance.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Command {
    /// Start of a text. Target instances report that they are free. Instances that were given up are built again.
    Begin {
        /// The text's number.
        text: u64,
        /// How tokens are chosen.
        sampling: Sampling,
    },
    /// A verify task, for a target instance.
    Verify {
        /// The task.
        task: TaskId,
        /// Change to the instance's copy of the text.
        feed: Feed,
        /// Last tokens of the text that the task verifies.
        rows: usize,
    },
    /// A draft task, for the drafter.
    Draft {
        /// The task.
        task: TaskId,
        /// Change to the drafter's copy of the text.
        feed: Feed,
        /// Maximum draft tokens.
        most: usize,
    },
    /// Cancellation of a task, for both roles.
    Cancel {
        /// The task.
        task: TaskId,
    },
}

/// A message from an instance.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Report {
    /// A target instance can take a task.
    Free {
        /// Number of the instance.
        server: usize,
    },
    /// A target instance has read a chunk of the text before a task.
    Prefilled {
        /// Tokens read so far.
        done: usize,
    },
    /// A verify task is done.
    Verified {
        /// Number of the instance.
        server: usize,
        /// The task.
        task: TaskId,
        /// The target's token after each of the last `rows` tokens of the text.
        ids: Vec<u32>,
        /// Tokens that were already cached.
        reused: usize,
        /// Duration of the forward.
        seconds: f64,
        /// Requests to a server that has the target.
        #[serde(default)]
        traffic: Traffic,
    },
    /// The drafter's next tokens.
    Drafted {
        /// The draft task.
        task: TaskId,
        /// The tokens. Empty: the drafter has no more.
        ids: Vec<u32>,
        /// Duration of the step.
        seconds: f64,
    },
    /// A target instance has lost its device, and sets itself up on another.
    Lost {
        /// Number of the instance.
        server: usize,
        /// The driver's message.
        reason: String,
    },
    /// A target instance cannot continue.
    Gone {
        /// Number of the instance.
        server: usize,
        /// The reason.
        error: Error,
    },
    /// A failure that any instance would repeat.
    Failed {
        /// The reason.
        error: Error,
    },
    /// The drafter cannot continue.
    NoDrafter {
        /// The reason.
        error: Error,
    },
}

impl Role {
    /// Returns the report of an instance that cannot continue.
    pub fn gone(self, error: Error) -> Report {
        match self {
            Self::Target(server) => Report::Gone { server, error },
            Self::Drafter => Report::NoDrafter { error },
        }
    }
}

/// A report with the number of its text. `None`: it applies to the current text.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NumberedReport {
    /// Number of the text.
    pub text: Option<u64>,
    /// The report.
    pub report: Report,
}

/// Instances of a target and of a draft model, in any place. Their caches persist between texts.
pub trait Instances {
    /// Returns the number of target instances.
    fn sp_degree(&self) -> usize;

    /// Returns true if there is a draft model.
    fn has_drafter(&self) -> bool;

    /// Returns true if a target instance stops as soon as its task is cancelled.
    fn can_cancel(&self) -> bool {
        false
    }

    /// Starts a text on all instances, with the sampling of the targets and of the draft model.
    fn begin(&mut self, sampling: &Sampling, drafting: &Sampling);

    /// Sends a command. An instance that has reported its end ignores it.
    fn send(&mut self, to: Role, command: Command);

    /// Returns the next report on the latest text. `None`: none came within `within` seconds.
    ///
    /// # Errors
    /// [`Error::Internal`] if no instance is left that could report.
    fn report(&mut self, within: Option<f64>) -> Later<'_, Result<Option<Report>>>;
}
