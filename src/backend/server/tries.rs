//! Retry schedule of requests.

use crate::sample::threefry2x32;
use web_time::{Instant, SystemTime, UNIX_EPOCH};

/// Pauses between retries in seconds, each after all servers were tried. The last one repeats.
const PAUSES: [f64; 6] = [0.0, 0.25, 0.5, 1.0, 2.0, 4.0];

/// Malformed answers per server after which a request fails. They seldom go away by themselves, and the user waits.
pub(super) const MALFORMED: usize = 3;

/// Tries of one request.
pub(super) struct Tries {
    /// Servers to try before a pause.
    replicas: usize,
    patience: f64,
    began: Option<Instant>,
    count: usize,
    malformed: usize,
}

impl Tries {
    /// Creates it without tries.
    pub fn new(replicas: usize, patience: f64) -> Self {
        Self { replicas, patience, began: None, count: 0, malformed: 0 }
    }

    /// Counts a malformed answer. Returns true if there were too many.
    pub fn count_malformed(&mut self) -> bool {
        self.malformed += 1;
        self.malformed >= MALFORMED * self.replicas
    }

    /// Returns how to retry. `None`: at once. `Some(Ok(seconds))`: after a pause. `Some(Err(tries))`: not at all, because the pause would
    /// exceed the patience.
    pub fn next(&mut self, after: Option<f64>) -> Option<Result<f64, usize>> {
        let began = *self.began.get_or_insert_with(Instant::now);
        self.count += 1;
        if !self.count.is_multiple_of(self.replicas) {
            return None;
        }
        let pause = PAUSES[(self.count / self.replicas - 1).min(PAUSES.len() - 1)];
        // Jitter: clients that failed together should not retry together.
        let pause = after.unwrap_or(pause).max(pause) * (1.0 + chance() / 4.0);
        let ends = began.elapsed().as_secs_f64() + pause > self.patience;
        Some(if ends { Err(self.count) } else { Ok(pause) })
    }
}

/// Returns a number from 0 to 1, different on each call.
fn chance() -> f64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let [mixed, _] = threefry2x32([since.subsec_nanos(), 0], [since.as_secs() as u32, 0]);
    f64::from(mixed) / f64::from(u32::MAX)
}

#[cfg(test)]
mod tests;
