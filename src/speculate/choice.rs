//! Choices of the adaptive drafter, and their reasons in words.

use super::Origin;
use serde::Serialize;

/// State of an adaptive drafter, for the statistics.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Speculating {
    /// Drafter of the latest round; `None`: plain decoding.
    pub drafter: Option<Origin>,
    /// Draft tokens of that round; 0: plain decoding.
    pub lookahead: usize,
    /// Expected tokens per second of this choice; 0 before the first measurement.
    pub expected_tokens_per_second: f64,
    /// Measured tokens per second of plain decoding; 0 before the first measurement.
    pub plain_tokens_per_second: f64,
    /// Reason in words.
    pub reason: String,
    /// Rounds of this text by drafter.
    pub rounds: RoundsBy,
}

/// Number of rounds by drafter.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct RoundsBy {
    /// Plain decoding.
    pub plain: usize,
    /// The expected text.
    pub prediction: usize,
    /// Prompt lookup.
    pub lookup: usize,
    /// Suffix lookup, also in earlier texts.
    pub suffix: usize,
    /// The drafter on the device.
    pub draft_model: usize,
    /// The grammar, which forced the tokens.
    pub grammar: usize,
}

impl RoundsBy {
    pub(super) fn count(&mut self, drafter: Origin, lookahead: usize) {
        *match drafter {
            _ if lookahead == 0 => &mut self.plain,
            Origin::Prediction => &mut self.prediction,
            Origin::Lookup => &mut self.lookup,
            Origin::Suffix => &mut self.suffix,
            Origin::Grammar => &mut self.grammar,
            _ => &mut self.draft_model,
        } += 1;
    }
}

/// A drafter with its best lookahead.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Candidate {
    pub drafter: Origin,
    pub lookahead: usize,
    /// Expected tokens of a round, including the target's own.
    pub tokens: f64,
    /// Expected cost of a round in target forwards.
    pub cost: f64,
}

/// Choice for a round, with its cause.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Choice {
    /// Plain decoding: its speed is unknown or outdated.
    Measure,
    /// Plain decoding: only one token is wanted.
    Last,
    /// Plain decoding: no proposal and no draft model.
    Nothing,
    /// Plain decoding: the best drafter does not pay.
    Plain(Candidate),
    /// Plain decoding: slower than the text's pace (tokens per target forward), which another drafter achieves.
    Wait(Candidate, f64),
    /// Plain decoding: a trial may cost too much (in target forwards).
    TooExpensive(Candidate, f64),
    /// Drafting: it pays.
    Draft(Candidate),
}

impl Candidate {
    /// Returns the expected speed, relative to plain decoding.
    pub fn speed(&self) -> f64 {
        self.tokens / self.cost
    }

    /// Returns the tokens gained over plain rounds of the same duration, in a text with `rate` tokens per target forward.
    pub fn gain(&self, rate: f64) -> f64 {
        self.tokens - 1.0 - rate * (self.cost - 1.0)
    }

    /// Returns the target forwards lost if all draft tokens are rejected.
    pub fn loss(&self) -> f64 {
        self.cost - 1.0
    }

    fn accepted(&self) -> String {
        format!("{:.0} %", 100.0 * (self.tokens - 1.0) / self.lookahead as f64)
    }

    fn token_cost(&self) -> f64 {
        (self.cost - 1.0) / self.lookahead as f64
    }
}

impl Choice {
    /// Returns the candidate; `None`: plain decoding.
    pub fn candidate(&self) -> Option<Candidate> {
        match self {
            Self::Draft(candidate) => Some(*candidate),
            _ => None,
        }
    }

    /// Returns drafter and lookahead; `None`: plain decoding.
    pub fn drafts(&self) -> Option<(Origin, usize)> {
        self.candidate().map(|one| (one.drafter, one.lookahead))
    }

    /// Returns the reason in words. `on_device`: the drafter on the device.
    pub fn reason(&self, on_device: Origin) -> String {
        let name = |one: &Candidate| one.drafter.or_on_device(on_device).name();
        match self {
            Self::Measure => "plain decoding: its speed is being measured".into(),
            Self::Last => "plain decoding: one token is wanted".into(),
            Self::Nothing => "plain decoding: nothing is proposed".into(),
            Self::Plain(best) => format!(
                "plain decoding: a token of the {} costs {:.2} of a target forward, verification included, and {} of \
                 its tokens are expected to be accepted; the best lookahead, {}, would give {:.2} of the plain speed",
                name(best),
                best.token_cost(),
                best.accepted(),
                best.lookahead,
                best.speed(),
            ),
            Self::Wait(best, pace) => format!(
                "plain decoding until there is a better proposal: the text goes on at {pace:.2} times the plain speed, \
                 and the {} gives {:.2}",
                name(best),
                best.speed(),
            ),
            Self::TooExpensive(best, price) => format!(
                "plain decoding: a trial of the {} could cost {price:.1} target forwards, more than trials may cost \
                 at this length of the text",
                name(best),
            ),
            Self::Draft(best) => format!(
                "{}, {} ahead: {} of its tokens are expected to be accepted and a round costs {:.2} target \
                 forwards, which gives {:.2} times the plain speed",
                name(best),
                best.lookahead,
                best.accepted(),
                best.cost,
                best.speed(),
            ),
        }
    }
}

#[cfg(test)]
mod tests;
