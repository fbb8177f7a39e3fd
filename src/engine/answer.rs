//! The pending result of a call.

use crate::error::{Error, Result};
use futures_channel::oneshot;
use std::pin::Pin;
use std::task::{Context, Poll};

/// Pending result of a call: await it, or use [`Answer::wait`].
#[must_use = "the call is made, but its result is lost"]
pub struct Answer<T>(oneshot::Receiver<Result<T>>);

/// Sender of the result.
pub(super) struct AnswerSender<T>(oneshot::Sender<Result<T>>);

impl<T> AnswerSender<T> {
    pub fn send(self, answer: Result<T>) {
        // This fails only if the caller dropped the answer.
        let _ = self.0.send(answer);
    }
}

impl<T> Answer<T> {
    pub(super) fn new() -> (Self, AnswerSender<T>) {
        let (sender, receiver) = oneshot::channel();
        (Self(receiver), AnswerSender(sender))
    }

    /// Blocks until the result is there.
    ///
    /// # Errors
    /// Errors of the call; [`Error::Internal`] if the engine's thread has panicked.
    pub fn wait(self) -> Result<T> {
        pollster::block_on(self)
    }
}

impl<T> Future for Answer<T> {
    type Output = Result<T>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(context).map(|answer| answer.unwrap_or_else(|_| Err(thread_ended())))
    }
}

/// Returns the error for a call that the thread did not answer.
pub(super) fn thread_ended() -> Error {
    Error::Internal { reason: "the engine's thread has panicked: load the model again".into() }
}
