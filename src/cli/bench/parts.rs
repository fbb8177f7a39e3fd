//! The parts of a bench: told before anything begins, shown while they are measured, each ended by its share of the time.

use indicatif::{ProgressBar, ProgressStyle};
use std::cell::Cell;
use std::io::{self, Write};
use std::time::{Duration, Instant};

/// What is measured of every model, in this order, and how much of the time it gets.
const OF_ENGINE: [(&str, u32); 4] = [("probe", 4), ("prefill", 8), ("verify", 12), ("decode", 4)];
/// What is measured of a model that can write.
const OF_SESSION: [(&str, u32); 3] = [("overlap", 24), ("tasks", 48), ("loss", 25)];

/// The parts, one after the other.
pub(super) struct Parts {
    shares: Vec<(&'static str, Duration)>,
    bar: ProgressBar,
    /// Those that the time ended.
    pub cut: Vec<&'static str>,
}

impl Parts {
    /// Says on stderr what will be measured, and how long at most.
    pub fn announce(time_limit: Duration, writes: bool) -> Self {
        let parts = OF_ENGINE.iter().chain(if writes { &OF_SESSION[..] } else { &[] });
        let all: u32 = parts.clone().map(|(_, part)| part).sum();
        let shares: Vec<_> = parts.map(|(name, part)| (*name, time_limit * *part / all)).collect();
        let list: Vec<_> = shares.iter().map(|(name, share)| format!("{name} {:.0} s", share.as_secs_f64())).collect();
        tell(&format!("once loaded, at most {} s (--time-limit): {}", time_limit.as_secs(), list.join(", ")));
        let bar = ProgressBar::new_spinner();
        if let Ok(style) = ProgressStyle::with_template("{spinner} {msg}, {elapsed} so far") {
            bar.set_style(style);
        }
        Self { shares, bar, cut: Vec::new() }
    }

    /// Begins a part.
    pub fn begin(&self, name: &'static str) -> Limit {
        let most = self.shares.iter().find(|part| part.0 == name).map_or(Duration::ZERO, |part| part.1);
        let doing = format!("{name}, at most {:.0} s", most.as_secs_f64());
        // Not on a terminal.
        if self.bar.is_hidden() {
            tell(&doing);
        }
        self.bar.reset_elapsed();
        self.bar.set_message(doing);
        self.bar.enable_steady_tick(Duration::from_millis(100));
        Limit { name, began: Instant::now(), most, cut: Cell::new(false) }
    }

    /// Ends it.
    pub fn end(&mut self, part: Limit) {
        if part.cut.get() {
            self.cut.push(part.name);
        }
    }
}

impl Drop for Parts {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// A line on stderr.
fn tell(text: &str) {
    // No one is left to tell when this fails.
    let _ = writeln!(io::stderr(), "{text}");
}

/// How long a part may take.
pub(super) struct Limit {
    name: &'static str,
    began: Instant,
    most: Duration,
    cut: Cell<bool>,
}

impl Limit {
    /// Whether the time is up. Who asks ends the part then.
    pub fn over(&self) -> bool {
        !self.leaves(Duration::ZERO)
    }

    /// Whether there is time for what takes so long. Who asks ends the part if not.
    pub fn leaves(&self, time: Duration) -> bool {
        let leaves = self.began.elapsed() + time < self.most;
        if !leaves {
            self.cut.set(true);
        }
        leaves
    }
}
