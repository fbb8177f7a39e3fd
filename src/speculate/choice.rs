//! What an adaptive drafter chose, and why, in words.

use super::Origin;
use serde::Serialize;

/// The state of an adaptive drafter, for the statistics.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Speculating {
    /// Who drafted in the latest round; none: plain decoding.
    pub drafter: Option<Origin>,
    /// Draft tokens of that round; 0: plain decoding.
    pub lookahead: usize,
    /// Tokens per second that this choice is expected to give; 0 before anything was measured.
    pub expected_tokens_per_second: f64,
    /// Tokens per second of plain decoding, as measured; 0 before that.
    pub plain_tokens_per_second: f64,
    /// Why, in words.
    pub reason: String,
    /// Rounds of this text by who drafted.
    pub rounds: RoundsBy,
}

/// Rounds by who drafted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct RoundsBy {
    /// Nobody: plain decoding.
    pub plain: usize,
    /// The expected text.
    pub prediction: usize,
    /// The prompt lookup.
    pub lookup: usize,
    /// The draft model.
    pub draft_model: usize,
    /// The form of the text, which left no choice.
    pub grammar: usize,
}

impl RoundsBy {
    /// Counts a round.
    pub(super) fn count(&mut self, drafter: Origin, lookahead: usize) {
        *match drafter {
            _ if lookahead == 0 => &mut self.plain,
            Origin::Prediction => &mut self.prediction,
            Origin::Lookup => &mut self.lookup,
            Origin::Grammar => &mut self.grammar,
            Origin::DraftModel | Origin::Target => &mut self.draft_model,
        } += 1;
    }
}

/// A drafter at its best lookahead.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Candidate {
    pub drafter: Origin,
    pub lookahead: usize,
    /// Expected tokens of a round, the target's own included.
    pub tokens: f64,
    /// Expected cost of a round in target forwards.
    pub cost: f64,
}

/// What decided.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Choice {
    /// The speed of plain decoding is not known, or not any more.
    Measure,
    /// One token is wanted.
    Last,
    /// There is no proposal and no draft model.
    Nothing,
    /// The best drafter does not pay.
    Plain(Candidate),
    /// It pays less than the pace of the text, in tokens per target forward, which another drafter makes.
    Wait(Candidate, f64),
    /// Trying it may cost too much, in target forwards.
    TooDear(Candidate, f64),
    /// It pays.
    Draft(Candidate),
}

impl Candidate {
    /// Times the plain speed.
    pub fn speed(&self) -> f64 {
        self.tokens / self.cost
    }

    /// Tokens more than a plain round, in a text that makes `rate` tokens per target forward.
    pub fn gain(&self, rate: f64) -> f64 {
        self.tokens - 1.0 - rate * (self.cost - 1.0)
    }

    fn name(&self) -> &'static str {
        match self.drafter {
            Origin::DraftModel => "draft model",
            Origin::Lookup => "lookup",
            Origin::Prediction => "prediction",
            Origin::Grammar => "grammar",
            Origin::Target => "target",
        }
    }

    fn accepted(&self) -> String {
        format!("{:.0} %", 100.0 * (self.tokens - 1.0) / self.lookahead as f64)
    }

    /// Of a draft token, in target forwards.
    fn token_cost(&self) -> f64 {
        (self.cost - 1.0) / self.lookahead as f64
    }
}

impl Choice {
    /// Who drafts, if anybody does.
    pub fn candidate(&self) -> Option<Candidate> {
        match self {
            Self::Draft(candidate) => Some(*candidate),
            _ => None,
        }
    }

    /// Who drafts, and how many tokens.
    pub fn drafts(&self) -> Option<(Origin, usize)> {
        self.candidate().map(|one| (one.drafter, one.lookahead))
    }

    /// The reason in words.
    pub fn reason(&self) -> String {
        match self {
            Self::Measure => "plain decoding: its speed is being measured".into(),
            Self::Last => "plain decoding: one token is wanted".into(),
            Self::Nothing => "plain decoding: nothing is proposed".into(),
            Self::Plain(best) => format!(
                "plain decoding: a token of the {} costs {:.2} of a target forward, verification included, and {} of \
                 its tokens are expected to be accepted; the best lookahead, {}, would give {:.2} of the plain speed",
                best.name(),
                best.token_cost(),
                best.accepted(),
                best.lookahead,
                best.speed(),
            ),
            Self::Wait(best, pace) => format!(
                "plain decoding until there is a better proposal: the text goes on at {pace:.2} times the plain speed, \
                 and the {} gives {:.2}",
                best.name(),
                best.speed(),
            ),
            Self::TooDear(best, price) => format!(
                "plain decoding: a trial of the {} could cost {price:.1} target forwards, more than trials may cost \
                 at this length of the text",
                best.name(),
            ),
            Self::Draft(best) => format!(
                "{}, {} ahead: {} of its tokens are expected to be accepted and a round costs {:.2} target \
                 forwards, which gives {:.2} times the plain speed",
                best.name(),
                best.lookahead,
                best.accepted(),
                best.cost,
                best.speed(),
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_name_what_was_measured() {
        let slow = Candidate { drafter: Origin::DraftModel, lookahead: 2, tokens: 1.82, cost: 2.24 };
        assert_eq!(
            Choice::Plain(slow).reason(),
            "plain decoding: a token of the draft model costs 0.62 of a target forward, verification included, and \
             41 % of its tokens are expected to be accepted; the best lookahead, 2, would give 0.81 of the plain speed"
        );
        let fast = Candidate { drafter: Origin::Lookup, lookahead: 10, tokens: 8.5, cost: 1.7 };
        assert_eq!(
            Choice::Draft(fast).reason(),
            "lookup, 10 ahead: 75 % of its tokens are expected to be accepted and a round costs 1.70 target forwards, \
             which gives 5.00 times the plain speed"
        );
    }
}
