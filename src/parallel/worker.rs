//! What a thread with an instance of a model does: it keeps a copy of the text, and runs the model over what is new in it.

use super::Instance;
use crate::decode::{Draft, MAX_DRAFT};
use crate::error::{Error, Result};
use crate::sample::Sampling;
use crate::speculate::dsi::{Feed, TaskId};
use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, Sender};

/// Makes an instance on the thread that calls it, also in place of one whose device was lost.
pub type Build<T> = Box<dyn Fn() -> Result<T> + Send>;

/// From the caller's thread to one with an instance.
pub(super) enum Order {
    /// A text begins. Its reports go here; those of the text before find nobody any more.
    Begin { sampling: Sampling, report: Sender<Report> },
    /// For a server of the target.
    Verify { task: TaskId, feed: Feed, rows: usize },
    /// For the drafter.
    Draft { task: TaskId, feed: Feed, most: usize },
    /// For both.
    Cancel { task: TaskId },
}

/// From a thread with an instance to the caller's.
pub(super) enum Report {
    Free {
        server: usize,
    },
    Verified {
        server: usize,
        task: TaskId,
        ids: Vec<u32>,
        reused: usize,
    },
    Drafted {
        task: TaskId,
        ids: Vec<u32>,
    },
    /// Its device is lost; it is setting itself up on another.
    Lost {
        server: usize,
        reason: String,
    },
    /// It cannot go on.
    Gone {
        server: usize,
        error: Error,
    },
    /// Another instance would fail in the same way.
    Failed {
        error: Error,
    },
    /// The drafter cannot go on.
    NoDrafter {
        error: Error,
    },
}

/// Orders in their order, looked through for those that take others back.
pub(super) struct Inbox {
    orders: Receiver<Order>,
    waiting: VecDeque<Order>,
}

impl Inbox {
    pub fn new(orders: Receiver<Order>) -> Self {
        Self { orders, waiting: VecDeque::new() }
    }

    /// The next order; none when nobody is left to give one.
    pub fn next(&mut self) -> Option<Order> {
        self.waiting.pop_front().or_else(|| self.orders.recv().ok())
    }

    /// Whether an order waits.
    pub fn has_more(&mut self) -> bool {
        self.waiting.extend(self.orders.try_iter());
        !self.waiting.is_empty()
    }

    /// Whether a task's result is of no use any more: it was cancelled, or another text has begun.
    pub fn is_void(&mut self, task: TaskId) -> bool {
        let voids = |order: &Order| match order {
            Order::Cancel { task: cancelled } => *cancelled == task,
            Order::Begin { .. } => true,
            _ => false,
        };
        self.has_more() && self.waiting.iter().any(voids)
    }
}

/// An instance and its copy of the text.
pub(super) struct Worker<T> {
    build: Build<T>,
    instance: Option<T>,
    text: Vec<u32>,
    sampling: Sampling,
    /// It computed something since it was built: a device that is lost again before that would be lost for ever.
    proven: bool,
}

impl<T: Instance> Worker<T> {
    /// # Errors
    /// What `build` reports.
    pub fn new(build: Build<T>) -> Result<Self> {
        let instance = Some(build()?);
        Ok(Self { build, instance, text: Vec::new(), sampling: Sampling::default(), proven: true })
    }

    /// Another text. An instance that was given up gets another chance.
    ///
    /// # Errors
    /// What building and preparing an instance reports.
    pub fn begin(&mut self, sampling: Sampling) -> Result<()> {
        self.text.clear();
        self.sampling = sampling;
        match &mut self.instance {
            Some(instance) => instance.sample_by(&self.sampling),
            None => self.rebuild(),
        }
    }

    /// Sets the model up again, with nothing cached.
    ///
    /// # Errors
    /// As [`Self::begin`].
    pub fn rebuild(&mut self) -> Result<()> {
        // First, so that there are never two at a time.
        self.instance = None;
        self.proven = false;
        let instance = self.instance.insert((self.build)()?);
        instance.sample_by(&self.sampling)
    }

    /// Until the next text begins.
    pub fn give_up(&mut self) {
        self.instance = None;
    }

    /// Whether there is no instance.
    pub fn is_gone(&self) -> bool {
        self.instance.is_none()
    }

    /// Whether it makes sense to build it again after an error.
    pub fn can_return(&self, error: &Error) -> bool {
        self.proven && matches!(error, Error::DeviceLost { .. })
    }

    /// Brings the copy of the text up to date. Tasks that are not carried out do that too: later ones build on it.
    pub fn feed(&mut self, feed: Feed) {
        self.text.truncate(feed.keep);
        self.text.extend(feed.tokens);
    }

    /// The model's token after each of the last `rows` tokens of the text, and how many tokens were cached before. What was
    /// not goes through the model in the same forward, as far as one forward holds it.
    ///
    /// # Errors
    /// What the instance reports.
    pub fn read(&mut self, rows: usize) -> Result<(Vec<u32>, usize)> {
        let gone = || Error::DeviceLost { reason: "it could not be set up again".into() };
        let instance = self.instance.as_mut().ok_or_else(gone)?;
        let known = &self.text[..self.text.len().saturating_sub(rows)];
        let reused = instance.cached().iter().zip(known).take_while(|(cached, token)| cached == token).count();
        instance.truncate(reused);
        let missed = &self.text[reused..];
        let (head, last) = missed.split_at(missed.len().saturating_sub(MAX_DRAFT + 1));
        let Some((&pending, draft)) = last.split_first() else { return Ok((Vec::new(), reused)) };
        let verified = pollster::block_on(async {
            instance.prefill(head).await?;
            instance.verify(pending, &Draft::Tokens(draft.to_vec())).await
        })?;
        self.proven = true;
        // A forward may hold fewer tokens than were given to it.
        let ids = verified.ids.get(last.len().saturating_sub(rows)..).unwrap_or_default();
        Ok((ids.to_vec(), reused))
    }

    /// The model's own next token, which becomes part of the text; none where its context is full.
    ///
    /// # Errors
    /// What the instance reports.
    pub fn step(&mut self) -> Result<Option<u32>> {
        if self.instance.as_ref().is_some_and(|instance| self.text.len() > instance.capacity()) {
            return Ok(None);
        }
        let next = self.read(1)?.0.first().copied();
        self.text.extend(next);
        Ok(next)
    }
}
