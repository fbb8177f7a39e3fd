//! Lookahead of a round: the schedules of transformers.

use crate::options::Schedule;
use crate::target::MAX_DRAFT;

/// State of a schedule.
#[derive(Debug, Clone, PartialEq)]
pub struct Lookahead {
    schedule: Schedule,
    start: usize,
    now: usize,
}

impl Lookahead {
    /// Creates a schedule that begins with `start` draft tokens.
    pub fn new(schedule: Schedule, start: usize) -> Self {
        Self { schedule, start, now: start }
    }

    /// Returns true if it has this schedule and start.
    pub fn is(&self, schedule: Schedule, start: usize) -> bool {
        self.schedule == schedule && self.start == start
    }

    /// Returns true if the lookahead never changes.
    pub fn is_constant(&self) -> bool {
        self.schedule == Schedule::Constant
    }

    /// Begins a new call.
    pub fn begin(&mut self) {
        if self.schedule == Schedule::HeuristicTransient {
            self.now = self.start;
        }
    }

    /// Returns the draft tokens to request.
    pub fn tokens(&self) -> usize {
        self.now
    }

    /// Records that `accepted` of `drafted` tokens were accepted. A round without a draft changes nothing.
    pub fn learn(&mut self, drafted: usize, accepted: usize) {
        if !self.is_constant() && drafted > 0 {
            // A round verifies at most `MAX_DRAFT` tokens.
            let now = self.now.min(MAX_DRAFT);
            self.now = if accepted == drafted { MAX_DRAFT.min(now + 2) } else { now.saturating_sub(1).max(1) };
        }
    }
}
