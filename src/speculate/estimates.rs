//! Estimates of the adaptive schedule: from measured costs and acceptance to the expected tokens and cost of a round. Pure.

use super::acceptance::{Acceptance, KEPT};
use super::choice::Candidate;
use super::costs::Costs;
use super::{DRAFTERS, Origin, Round};
use crate::target::Timings;

/// Maximum draft tokens of a round.
pub(super) const MAX_LOOKAHEAD: usize = 15;
/// Lookaheads to choose from, in addition to the longest possible one.
const LOOKAHEADS: [usize; 7] = [1, 2, 3, 5, 7, 10, MAX_LOOKAHEAD];

/// Measurements of one target with its drafters.
pub(super) struct Estimates {
    /// Costs of rounds in target forwards.
    pub costs: Costs,
    /// Acceptance by [`Origin`]; tokens of the target need no entry.
    acceptance: [Acceptance; DRAFTERS],
    /// Tokens and cost of recent rounds; older rounds weigh less.
    recent: (f64, f64),
    /// Share of the rounds without a proposal at submission for which the previous round's tokens led to one.
    late_proposals: f64,
}

impl Estimates {
    /// Starts from measured or guessed timings, without observed acceptance.
    pub fn new(timings: Timings) -> Self {
        let mut acceptance = [if timings.far { Acceptance::careful() } else { Acceptance::default() }; DRAFTERS];
        acceptance[Origin::DraftModel as usize] = Acceptance::default();
        Self { costs: Costs::new(timings), acceptance, recent: (0.0, 0.0), late_proposals: 0.0 }
    }

    /// Begins a text with these CPU drafters.
    pub fn begin(&mut self, drafters: impl Iterator<Item = Origin>) {
        self.costs.begin();
        drafters.for_each(|drafter| self.acceptance(drafter).begin());
        self.recent = (0.0, 0.0);
    }

    /// Returns the acceptance of a drafter.
    pub fn acceptance(&mut self, drafter: Origin) -> &mut Acceptance {
        &mut self.acceptance[drafter as usize]
    }

    /// Returns true if the draft model was not tried yet.
    pub fn is_untried(&self) -> bool {
        self.acceptance[Origin::DraftModel as usize].is_new()
    }

    /// Returns one candidate per lookahead up to `most`, which is 1 to [`MAX_LOOKAHEAD`]. `extra` is added to each cost.
    pub fn candidates(&self, drafter: Origin, most: usize, extra: f64) -> Vec<Candidate> {
        let accepted = self.acceptance[drafter as usize].expect();
        let lookaheads = LOOKAHEADS.into_iter().filter(|&lookahead| lookahead < most).chain([most]);
        let candidate = |lookahead| {
            let (tokens, cost) = (1.0 + accepted[lookahead - 1], self.costs.cost(drafter, lookahead) + extra);
            Candidate { drafter, lookahead, tokens, cost }
        };
        lookaheads.map(candidate).collect()
    }

    /// Returns the tokens per target forward of recent rounds; at least 1.
    pub fn pace(&self) -> f64 {
        f64::max((self.recent.0 + 1.0) / (self.recent.1 + 1.0), 1.0)
    }

    /// Returns the expected gain of waiting for each round, if a proposal that comes late gains `gain` tokens.
    pub fn gain_of_waiting(&self, gain: f64) -> f64 {
        self.late_proposals * gain
    }

    /// Records whether a proposal was found for a round that could have been submitted ahead.
    pub fn learn_late(&mut self, was_found: bool) {
        self.late_proposals = KEPT * self.late_proposals + (1.0 - KEPT) * f64::from(u8::from(was_found));
    }

    /// Records a cost that brought no token.
    pub fn learn_delay(&mut self, cost: f64) {
        self.recent.1 += cost;
    }

    /// Records a round of `drafter`. Returns its cost in target forwards, and true if it timed plain decoding.
    pub fn learn(&mut self, drafter: Origin, round: &Round) -> (f64, bool) {
        let lookahead = round.rows.saturating_sub(1);
        let expected = self.costs.cost(drafter, lookahead);
        self.costs.learn_reading(round.prefilled, expected, round.prefill_seconds + round.seconds);
        // Rounds with an unknown share of reading are not timed.
        let is_timed = round.prefilled + round.caught_up == 0;
        let cost = match lookahead {
            0 => 1.0,
            _ if is_timed => self.costs.learn(drafter, lookahead, round.seconds, round.ahead),
            _ => expected,
        };
        if is_timed && lookahead == 0 {
            self.costs.learn_plain(round.seconds, round.ahead);
        }
        let won = (round.accepted + 1) as f64 - cost;
        self.recent = (KEPT * self.recent.0 + won + cost, KEPT * self.recent.1 + cost);
        (cost, is_timed && lookahead == 0)
    }
}
