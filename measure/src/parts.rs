//! Parts of a bench: announced at the start and when they begin, each with its share of the time limit.

use std::cell::Cell;
use std::io::{self, Write};
use std::time::{Duration, Instant};

/// Measurements of every model in order, with their share of the time.
const OF_ENGINE: [(&str, u32); 4] = [("probe", 4), ("prefill", 8), ("verify", 12), ("decode", 4)];
/// Measurements of models that can generate, before and after those of the draft model alone.
const OF_SESSION: [(&str, u32); 2] = [("tasks", 72), ("loss", 25)];
const OF_DRAFT_MODEL: (&str, u32) = ("draft model", 8);
/// Measurement that replaces all others.
const SWEEP: (&str, u32) = ("temperatures", 1);

/// Subject of the measurements.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum PartList {
    /// A model that cannot generate.
    Shape,
    /// A model that generates alone.
    Model,
    /// A model with a draft model.
    Pair,
    /// The gain by temperature.
    Sweep,
}

/// The parts and their time limits.
pub(super) struct Parts {
    shares: Vec<(&'static str, Duration)>,
}

impl Parts {
    /// Prints to stderr the parts and their time limits.
    pub fn announce(time_limit: Duration, list: PartList) -> Self {
        let [tasks, loss] = OF_SESSION;
        let parts = match list {
            PartList::Shape => OF_ENGINE.to_vec(),
            PartList::Model => [&OF_ENGINE[..], &OF_SESSION].concat(),
            PartList::Pair => [&OF_ENGINE[..], &[tasks, OF_DRAFT_MODEL, loss]].concat(),
            PartList::Sweep => vec![SWEEP],
        };
        let all: u32 = parts.iter().map(|(_, part)| part).sum();
        let shares: Vec<_> = parts.into_iter().map(|(name, part)| (name, time_limit * part / all)).collect();
        let list: Vec<_> = shares.iter().map(|(name, share)| format!("{name} {:.0} s", share.as_secs_f64())).collect();
        tell(&format!("once loaded, at most {} s (--time-limit): {}", time_limit.as_secs(), list.join(", ")));
        Self { shares }
    }

    /// Begins a part.
    pub fn begin(&self, name: &'static str) -> Limit {
        let most = self.shares.iter().find(|part| part.0 == name).map_or(Duration::ZERO, |part| part.1);
        tell(&format!("{name}, at most {:.0} s", most.as_secs_f64()));
        Limit { name, began: Instant::now(), most, cut: Cell::new(false) }
    }
}

/// Prints a line to stderr.
fn tell(text: &str) {
    // Nothing can be reported if this fails.
    let _ = writeln!(io::stderr(), "{text}");
}

/// Time limit of a part.
pub(super) struct Limit {
    name: &'static str,
    began: Instant,
    most: Duration,
    cut: Cell<bool>,
}

impl Limit {
    /// Returns true if the time is over; then the caller ends the part.
    pub fn over(&self) -> bool {
        !self.leaves(Duration::ZERO)
    }

    /// Returns true if `time` is left; otherwise the caller ends the part.
    pub fn leaves(&self, time: Duration) -> bool {
        let leaves = self.began.elapsed() + time < self.most;
        if !leaves {
            self.cut.set(true);
        }
        leaves
    }

    /// Ends the part. Adds its name to `cut` if it reached its time limit.
    pub fn end(self, cut: &mut Vec<&'static str>) {
        if self.cut.get() {
            cut.push(self.name);
        }
    }
}
