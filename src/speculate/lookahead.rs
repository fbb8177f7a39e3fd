//! How many draft tokens a round asks for: the schedules of transformers.

use crate::options::Schedule;
use crate::target::MAX_DRAFT;

/// The state of a schedule.
#[derive(Debug, Clone, PartialEq)]
pub struct Lookahead {
    schedule: Schedule,
    start: usize,
    now: usize,
}

impl Lookahead {
    /// A schedule that begins with `start` draft tokens.
    pub fn new(schedule: Schedule, start: usize) -> Self {
        Self { schedule, start, now: start }
    }

    /// Whether it is this schedule with this start.
    pub fn is(&self, schedule: Schedule, start: usize) -> bool {
        self.schedule == schedule && self.start == start
    }

    /// Whether all rounds ask for as many.
    pub fn is_constant(&self) -> bool {
        self.schedule == Schedule::Constant
    }

    /// A new call begins.
    pub fn begin(&mut self) {
        if self.schedule == Schedule::HeuristicTransient {
            self.now = self.start;
        }
    }

    /// Draft tokens to ask for.
    pub fn tokens(&self) -> usize {
        self.now
    }

    /// A round had `drafted` draft tokens, `accepted` of them were accepted. A round without a draft changes nothing.
    pub fn learn(&mut self, drafted: usize, accepted: usize) {
        if !self.is_constant() && drafted > 0 {
            // A round verifies no more than that.
            let now = self.now.min(MAX_DRAFT);
            self.now = if accepted == drafted { MAX_DRAFT.min(now + 2) } else { now.saturating_sub(1).max(1) };
        }
    }
}
