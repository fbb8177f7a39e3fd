//! Yielding to other tasks on the same thread: in a page, to those that pass on tokens or abort.

/// Placeholder: natively there are no other tasks on the thread.
#[cfg(not(target_arch = "wasm32"))]
pub struct Turn;

#[cfg(not(target_arch = "wasm32"))]
impl Turn {
    /// Creates the thread's turn.
    pub fn new() -> Self {
        Self
    }

    /// Does nothing.
    pub async fn give(&mut self) {}
}

#[cfg(target_arch = "wasm32")]
pub use page::Turn;

#[cfg(target_arch = "wasm32")]
mod page {
    use gloo_timers::future::TimeoutFuture;
    use std::future::poll_fn;
    use std::task::Poll;
    use std::time::Duration;
    use web_time::Instant;

    /// Longest time that messages wait. A pause may last 4 ms, because browsers delay consecutive timers.
    const LONGEST: Duration = Duration::from_millis(100);

    /// Time at which messages were last let in.
    pub struct Turn(Instant);

    impl Turn {
        /// Creates the thread's turn.
        pub fn new() -> Self {
            Self(Instant::now())
        }

        /// Lets ready tasks run first and, after [`LONGEST`], messages too.
        pub async fn give(&mut self) {
            if self.0.elapsed() > LONGEST {
                TimeoutFuture::new(0).await;
                self.0 = Instant::now();
            }
            let mut is_next = false;
            poll_fn(|context| {
                if std::mem::replace(&mut is_next, true) {
                    return Poll::Ready(());
                }
                context.waker().wake_by_ref();
                Poll::Pending
            })
            .await;
        }
    }
}
