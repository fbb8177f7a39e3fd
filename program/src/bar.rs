//! Progress bar on stderr, if that is a terminal, for slow operations.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::time::{Duration, Instant};

/// Time before the bar is shown.
const PATIENCE: Duration = Duration::from_millis(400);

/// A progress bar, which is erased at the end.
pub(super) struct Bar {
    bar: ProgressBar,
    began: Instant,
}

impl Bar {
    /// Creates a bar for loading models.
    pub fn loading() -> Self {
        Self::new("loading {bar:30} {bytes} of {total_bytes}, {eta} left")
    }

    /// Creates a bar from a template of indicatif.
    pub fn new(template: &str) -> Self {
        let bar = ProgressBar::hidden();
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        Self { bar, began: Instant::now() }
    }

    /// Shows the progress.
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
