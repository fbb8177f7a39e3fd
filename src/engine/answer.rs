//! What a call gives, some time.

use crate::error::{Error, Result};
use futures_channel::oneshot;
use std::pin::Pin;
use std::task::{Context, Poll};

/// What a call gives: await it, or [`Answer::wait`].
#[must_use = "the call is made, but nobody hears what comes of it"]
pub struct Answer<T>(oneshot::Receiver<Result<T>>);

/// Where it is given.
pub(super) struct Asked<T>(oneshot::Sender<Result<T>>);

impl<T> Asked<T> {
    pub fn answer(self, answer: Result<T>) {
        // Who does not want it any more has dropped it.
        let _ = self.0.send(answer);
    }
}

impl<T> Answer<T> {
    pub(super) fn new() -> (Self, Asked<T>) {
        let (sender, receiver) = oneshot::channel();
        (Self(receiver), Asked(sender))
    }

    /// Blocks until it is there.
    ///
    /// # Errors
    /// Those of the call; [`Error::Internal`] where the engine's thread broke down.
    pub fn wait(self) -> Result<T> {
        pollster::block_on(self)
    }
}

impl<T> Future for Answer<T> {
    type Output = Result<T>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(context).map(|answer| answer.unwrap_or_else(|_| Err(broken_down())))
    }
}

pub(super) fn broken_down() -> Error {
    Error::Internal { reason: "the engine's thread broke down: load the model again".into() }
}
