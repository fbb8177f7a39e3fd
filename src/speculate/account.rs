//! What speculation won and lost against plain decoding in a text, and what it may still lose.

use super::Origin;

/// A text may take so much longer than by plain decoding, of its first tokens (of some of them in advance) ...
const LOSS: f64 = 0.02;
const ADVANCE: f64 = 64.0;
const FIRST: f64 = 128.0;
/// ... and of its later ones.
const LATER_LOSS: f64 = 0.008;
/// Of a text as long as it may become, what the draft model may take to read what it missed.
const READING: f64 = 0.004;
/// Of what a text may lose, what one drafter may where there are others.
const SHARE: f64 = 0.75;
/// What a round leaves of the weight of earlier ones in the pace.
const PACE_KEPT: f64 = 0.95;

/// The account of one text, in target forwards.
#[derive(Debug, Clone, Default)]
pub(super) struct Account {
    drafters: usize,
    /// What earlier texts won, for reading.
    savings: f64,
    emitted: f64,
    spent: f64,
    /// Won, or lost if negative, by who drafted.
    won: [f64; 3],
    reading: f64,
    /// Tokens and cost of the last rounds, the older the less.
    pace: (f64, f64),
}

impl Account {
    /// The account of the next text, with so many drafters.
    pub fn next(&self, drafters: usize) -> Self {
        let earned = LATER_LOSS * self.emitted + self.won.iter().sum::<f64>() - self.reading;
        Self { drafters, savings: (self.savings + earned).clamp(0.0, ADVANCE), ..Self::default() }
    }

    /// A round without draft tokens, which may have waited for those of a drafter.
    pub fn enter_plain(&mut self, drafter: Origin, waiting: f64) {
        self.enter_round(drafter, 1, 1.0 + waiting);
    }

    /// A round of a drafter emitted tokens.
    pub fn enter_round(&mut self, drafter: Origin, emitted: usize, cost: f64) {
        self.enter(emitted as f64, cost);
        self.won[index(drafter)] += emitted as f64 - cost;
    }

    fn enter(&mut self, emitted: f64, cost: f64) {
        self.emitted += emitted;
        self.spent += cost;
        self.pace = (PACE_KEPT * self.pace.0 + emitted, PACE_KEPT * self.pace.1 + cost);
    }

    /// The draft model read what it had missed. Returns what there are no funds for.
    pub fn enter_reading(&mut self, cost: f64, room: usize) -> f64 {
        let paid = cost.min(self.reading_funds(room));
        self.reading += paid;
        cost - paid
    }

    /// Tokens per target forward of the last rounds; at least 1.
    pub fn pace(&self) -> f64 {
        f64::max((self.pace.0 + 1.0) / (self.pace.1 + 1.0), 1.0)
    }

    /// What a round of a drafter may lose: the rest of its share of the allowance, and of what it won itself, so that a
    /// useless one takes nothing from the others. A drafter of which no round was measured may take all that there is.
    pub fn funds(&self, drafter: Origin, measured: bool) -> f64 {
        let allowance = LOSS * self.spent.clamp(ADVANCE, FIRST) + LATER_LOSS * f64::max(self.spent - FIRST, 0.0);
        let all = allowance + self.won.iter().sum::<f64>();
        let share = if self.drafters > 1 { SHARE } else { 1.0 };
        if measured { all.min(share * allowance + self.won[index(drafter)]) } else { all }
    }

    /// What the draft model may take, besides, to read what it missed, when `room` tokens are still wanted.
    pub fn reading_funds(&self, room: usize) -> f64 {
        let whole = (self.emitted + room as f64) * (self.spent + 1.0) / (self.emitted + 1.0);
        f64::max(READING * f64::max(whole - ADVANCE, 0.0) + self.savings - self.reading, 0.0)
    }
}

fn index(drafter: Origin) -> usize {
    match drafter {
        Origin::Prediction => 0,
        Origin::Lookup => 1,
        Origin::DraftModel | Origin::Target => 2,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_drafter_loses_stays_its_own() {
        let mut account = Account::default().next(2);
        let all = LOSS * ADVANCE;
        assert_eq!(account.funds(Origin::Lookup, false), all);
        account.enter_round(Origin::DraftModel, 1, 1.0 + all * SHARE);
        assert!(account.funds(Origin::DraftModel, true) < 1e-9);
        assert!((account.funds(Origin::Lookup, true) - all * (1.0 - SHARE)).abs() < 1e-9);
        account.enter_round(Origin::Lookup, 9, 1.0);
        assert!(account.funds(Origin::Lookup, true) > 8.0);
        assert!(account.funds(Origin::DraftModel, true) < 1e-9);
    }

    #[test]
    fn reading_is_paid_by_long_texts_and_by_earlier_ones() {
        let account = Account::default().next(1);
        assert_eq!(account.reading_funds(64), 0.0);
        assert_eq!(account.reading_funds(1064), READING * 1000.0);
        let mut winner = account.clone();
        winner.enter_round(Origin::Lookup, 9, 1.0);
        let mut next = winner.next(1);
        assert!(next.reading_funds(64) > 8.0);
        assert!(next.enter_reading(20.0, 64) > 11.0);
        assert_eq!(next.reading_funds(64), 0.0);
    }
}
