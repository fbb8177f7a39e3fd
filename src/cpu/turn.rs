//! Letting others on the same thread do their work: in a page, who hands tokens on, and who hears of an abort.

/// Natively nobody else is on the thread.
#[cfg(not(target_arch = "wasm32"))]
pub struct Turn;

#[cfg(not(target_arch = "wasm32"))]
impl Turn {
    /// Of the thread that it is called on.
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

    /// How long messages may wait. Each pause may last 4 ms, because browsers delay timers that follow each other.
    const LONGEST: Duration = Duration::from_millis(100);

    /// Since when no message was let in.
    pub struct Turn(Instant);

    impl Turn {
        /// Of the thread that it is called on.
        pub fn new() -> Self {
            Self(Instant::now())
        }

        /// Lets those go first who are ready; now and then, messages too.
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
