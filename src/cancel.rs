//! Cancellation of loading and of generations.
//!
//! A generation is cancelled if its callback breaks. [`CancelToken`]s and JavaScript's promises are read by such a callback, so all of them
//! take effect when it is next called:
//!
//! | generation | called |
//! |---|---|
//! | reads a prompt | after each chunk; chunks that were read stay cached |
//! | decodes | after each token; rounds in flight are dropped |
//! | waits for a server | when its task is woken; requests in flight are aborted |
//! | computes a long pass on the CPU | every 50 ms (100 ms in a page); the pass ends |
//!
//! Loading checks its token before it reads a portion of a file, and while it waits.

#[cfg(not(target_arch = "wasm32"))]
use crate::error::{Error, Result};
use std::future::poll_fn;
use std::ops::ControlFlow;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

/// Cancels a generation or loading from any thread. All clones are one token.
#[derive(Debug, Clone, Default)]
pub struct CancelToken(Arc<Cancelling>);

#[derive(Debug, Default)]
struct Cancelling {
    is_cancelled: AtomicBool,
    /// Task that the token wakes; it may be waiting for a server.
    task: Mutex<Option<Waker>>,
}

impl CancelToken {
    /// Ends a text after the next token, or before the first one; at once if a server is awaited. Ends loading before the next
    /// portion of a file is read.
    pub fn cancel(&self) {
        self.0.is_cancelled.store(true, Ordering::SeqCst);
        let task = self.0.task.lock().unwrap_or_else(PoisonError::into_inner).take();
        task.into_iter().for_each(Waker::wake);
    }

    /// Returns true if [`CancelToken::cancel`] was called.
    pub fn is_cancelled(&self) -> bool {
        self.0.is_cancelled.load(Ordering::SeqCst)
    }
}

/// For the public handle and JavaScript.
impl CancelToken {
    /// Returns what the callback of the generation returns.
    #[doc(hidden)]
    pub fn flow(&self) -> ControlFlow<()> {
        if self.is_cancelled() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    /// Returns ready if the token is cancelled. Otherwise the token will wake the task.
    fn poll_cancelled(&self, context: &Context<'_>) -> Poll<()> {
        *self.0.task.lock().unwrap_or_else(PoisonError::into_inner) = Some(context.waker().clone());
        if self.is_cancelled() { Poll::Ready(()) } else { Poll::Pending }
    }

    /// Awaits a generation whose callback returns [`CancelToken::flow`], such that [`CancelToken::cancel`] wakes it. If `signal` comes
    /// first, cancels it.
    #[doc(hidden)]
    pub async fn watch<T>(&self, generating: impl Future<Output = T>, signal: impl Future) -> T {
        let (mut generating, mut signal) = (pin!(generating), pin!(signal));
        poll_fn(|context| {
            if self.poll_cancelled(context).is_pending() && signal.as_mut().poll(context).is_ready() {
                self.cancel();
            }
            generating.as_mut().poll(context)
        })
        .await
    }
}

/// For the public handle.
#[cfg(not(target_arch = "wasm32"))]
impl CancelToken {
    /// Waits until the token is cancelled. One task at a time may wait.
    pub(crate) async fn cancelled(&self) {
        poll_fn(|context| self.poll_cancelled(context)).await;
    }

    /// Fails if the token is cancelled.
    ///
    /// # Errors
    /// [`Error::Aborted`].
    pub(crate) fn check(&self) -> Result<()> {
        if self.is_cancelled() { Err(Self::aborted()) } else { Ok(()) }
    }

    fn aborted() -> Error {
        Error::Aborted { reason: "loading was cancelled".into() }
    }

    /// Awaits loading, and drops it if the token is cancelled first.
    ///
    /// # Errors
    /// [`Error::Aborted`], and errors of loading.
    pub(crate) async fn unless_cancelled<T>(&self, loading: impl Future<Output = Result<T>>) -> Result<T> {
        let mut loading = pin!(loading);
        poll_fn(|context| match loading.as_mut().poll(context) {
            Poll::Pending => self.poll_cancelled(context).map(|()| Err(Self::aborted())),
            Poll::Ready(Ok(_)) if self.is_cancelled() => Poll::Ready(Err(Self::aborted())),
            loaded => loaded,
        })
        .await
    }
}
