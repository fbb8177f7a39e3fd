//! A bar on stderr, where that is a terminal, for what takes its time.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::time::{Duration, Instant};

/// What is over sooner shows no bar.
const PATIENCE: Duration = Duration::from_millis(400);

/// How far something is. It is wiped away at the end.
pub(super) struct Bar {
    bar: ProgressBar,
    began: Instant,
}

impl Bar {
    /// Of models on their way to the device.
    pub fn loading() -> Self {
        Self::new("loading {bar:30} {bytes} of {total_bytes}, {eta} left")
    }

    /// In a template of indicatif.
    pub fn new(template: &str) -> Self {
        let bar = ProgressBar::hidden();
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        Self { bar, began: Instant::now() }
    }

    /// So much is done.
    pub fn show(&self, done: u64, of: u64) {
        if self.bar.is_hidden() && self.began.elapsed() > PATIENCE {
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
        }
        self.bar.set_length(of);
        self.bar.set_position(done);
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
