//! Cancellation of a generation.
//!
//! A generation is cancelled if its callback breaks. [`CancelToken`]s and JavaScript's promises are read by such a callback, so all of them
//! take effect when it is next called:
//!
//! | generation | called |
//! |---|---|
//! | reads a prompt | after each chunk; chunks that were read stay cached |
//! | decodes | after each token; rounds in flight are dropped |
//! | waits for a server | when its task is woken; requests in flight are aborted |

use super::Sink;
use std::future::poll_fn;
use std::ops::ControlFlow;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Poll, Waker};

/// Cancels a generation from any thread; all clones cancel the same one.
#[derive(Debug, Clone, Default)]
pub struct CancelToken(Arc<Cancelling>);

#[derive(Debug, Default)]
struct Cancelling {
    is_cancelled: AtomicBool,
    /// Task that generates; it may be waiting for a server.
    task: Mutex<Option<Waker>>,
}

impl CancelToken {
    /// Ends the text after the next token, or before the first one; at once if a server is awaited.
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
#[cfg(any(not(target_arch = "wasm32"), feature = "wasm-engine"))]
impl CancelToken {
    /// Returns what the callback of the generation returns.
    pub(crate) fn flow(&self) -> ControlFlow<()> {
        if self.is_cancelled() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    /// Awaits a generation whose callback returns [`CancelToken::flow`], such that [`CancelToken::cancel`] wakes it. If `signal` comes
    /// first, cancels it.
    pub(crate) async fn watch<T>(&self, generating: impl Future<Output = T>, signal: impl Future) -> T {
        let (mut generating, mut signal) = (pin!(generating), pin!(signal));
        poll_fn(|context| {
            if !self.is_cancelled() {
                *self.0.task.lock().unwrap_or_else(PoisonError::into_inner) = Some(context.waker().clone());
                if signal.as_mut().poll(context).is_ready() {
                    self.cancel();
                }
            }
            generating.as_mut().poll(context)
        })
        .await
    }
}

/// Awaits a result, unless the sink breaks first.
pub(crate) async fn unless_cancelled<T>(sink: &mut impl Sink, awaited: impl Future<Output = T>) -> ControlFlow<(), T> {
    let mut awaited = pin!(awaited);
    poll_fn(|context| match awaited.as_mut().poll(context) {
        Poll::Pending if sink.waiting().is_break() => Poll::Ready(ControlFlow::Break(())),
        polled => polled.map(ControlFlow::Continue),
    })
    .await
}
