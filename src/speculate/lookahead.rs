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

#[cfg(test)]
mod tests {
    use super::*;

    fn course(schedule: Schedule, rounds: &[(usize, usize)]) -> Vec<usize> {
        let mut lookahead = Lookahead::new(schedule, 5);
        rounds
            .iter()
            .map(|&(drafted, accepted)| {
                lookahead.learn(drafted, accepted);
                lookahead.tokens()
            })
            .collect()
    }

    #[test]
    fn constant_stays() {
        assert_eq!(course(Schedule::Constant, &[(5, 5), (5, 0)]), [5, 5]);
    }

    #[test]
    fn heuristic_gains_two_and_loses_one_but_never_the_last() {
        let rounds = [(5, 5), (7, 6), (6, 0), (5, 0), (4, 0), (3, 0), (2, 0), (1, 0), (1, 1)];
        assert_eq!(course(Schedule::Heuristic, &rounds), [7, 6, 5, 4, 3, 2, 1, 1, 3]);
    }

    #[test]
    fn rounds_without_a_draft_teach_nothing_and_a_draft_has_an_upper_bound() {
        assert_eq!(course(Schedule::Heuristic, &[(0, 0); 40]), [5; 40]);
        assert_eq!(course(Schedule::Heuristic, &[(5, 5); 40]).last(), Some(&MAX_DRAFT));
        let mut lookahead = Lookahead::new(Schedule::Heuristic, 1000);
        lookahead.learn(MAX_DRAFT, 3);
        assert_eq!(lookahead.tokens(), MAX_DRAFT - 1);
    }

    #[test]
    fn only_the_transient_one_starts_again() {
        for (schedule, after) in [(Schedule::Heuristic, 7), (Schedule::HeuristicTransient, 5)] {
            let mut lookahead = Lookahead::new(schedule, 5);
            lookahead.learn(5, 5);
            lookahead.begin();
            assert_eq!(lookahead.tokens(), after);
        }
    }
}
