//! Yielding to other tasks on the same thread, such as those that cancel a pass; in a page also to messages.

use crate::target::yield_now;
use std::time::Duration;
use web_time::Instant;

/// Time at which other tasks last ran.
pub struct Turn {
    last: Instant,
    /// Longest time that they wait.
    longest: Duration,
}

impl Turn {
    /// Creates the thread's turn.
    pub fn new(longest: Duration) -> Self {
        Self { last: Instant::now(), longest }
    }

    /// Returns true if other tasks have waited for the longest time.
    pub fn is_due(&self) -> bool {
        self.last.elapsed() >= self.longest
    }

    /// Lets tasks run first that are ready, such as one that passes on tokens; in a page messages too if they have waited for the longest
    /// time.
    pub async fn give(&mut self) {
        if self.is_due() {
            #[cfg(target_arch = "wasm32")]
            gloo_timers::future::TimeoutFuture::new(0).await;
            self.last = Instant::now();
        }
        yield_now().await;
    }
}
