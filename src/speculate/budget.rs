//! Budget of the adaptive schedule: how much slower than plain decoding a text may become.

/// Target forwards that the drafts of a text may lose.
const ALLOWANCE: f64 = 1.2;
/// Additional share of a text's time that drafts may lose. Reading by the draft model and timing plain decoding may lose as much each.
const SHARE: f64 = 0.005;
/// Share of a text's tokens that may be lost by interrupting a server.
const INTERRUPTING: f64 = 0.05;
/// Most target forwards that a text can save up.
pub(super) const MAX_SAVED: f64 = 12.0;

/// Target forwards that a text may still lose against plain decoding.
///
/// Invariants, if `gain` and `loss` are those of the rounds so far (tokens - cost, and cost - tokens):
///
/// 1. `drafts <= 1.2 + interruptions + gain - loss + 0.5 % of the cost so far`, with `interruptions <= 5 %` of the tokens wanted.
/// 2. A round drafts only if `cost - 1 <= drafts`, plus the credit of a drafter that the text confirmed. So if costs are accurate, the sum of
///    losses exceeds the right side of 1 by that credit at most.
/// 3. After each round `drafts <= 12`: an early gain does not pay for any number of later losses.
/// 4. `0 <= reading`: reading takes from `drafts` only what `reading` lacks. At the beginning of a text `reading <= 12 + 0.5 %` of its tokens.
/// 5. Both are finite.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Budget {
    /// For drafts that are rejected.
    pub drafts: f64,
    /// For reading by the draft model.
    reading: f64,
    /// Rounds since plain decoding was last timed. Each allows to lose [`SHARE`] of a target forward by timing it again.
    since_plain: usize,
}

impl Budget {
    /// Begins a text. What earlier texts did not use may be spent on reading.
    pub fn begin(&mut self) {
        self.reading = (self.reading + self.drafts).clamp(0.0, MAX_SAVED);
        self.drafts = ALLOWANCE;
        // The speed of plain decoding depends on the position. So it is timed before any draft that gains less than a factor of 2.
        self.since_plain += (0.5 / SHARE) as usize;
        self.check();
    }

    /// Adds the shares of a text of `room` tokens. `interruption`: cost of a round trip to the server; 0 without one.
    pub fn plan(&mut self, room: usize, interruption: f64) {
        self.reading += SHARE * room as f64;
        self.drafts += f64::min(2.0 * interruption, INTERRUPTING * room as f64);
        self.check();
    }

    /// Returns true if the draft model may read missed tokens at this cost, before a round that may lose `loss`.
    pub fn allows_reading(&self, reading: f64, loss: f64) -> bool {
        reading <= self.drafts - loss + self.reading
    }

    /// Returns true if plain decoding may be timed again: the less a draft of this speed gains over it, the sooner.
    pub fn allows_timing(&self, speed: f64) -> bool {
        self.since_plain as f64 * SHARE > f64::max(1.0 - 1.0 / speed, 3.0 * SHARE)
    }

    /// Subtracts the cost of interrupting a server.
    pub fn interrupt(&mut self, cost: f64) {
        self.drafts -= cost;
        self.check();
    }

    /// Adds a round that won `won` target forwards (negative: lost), at this cost. `timed_plain`: it timed plain decoding.
    pub fn settle(&mut self, won: f64, cost: f64, timed_plain: bool) {
        self.drafts = f64::min(self.drafts + won + SHARE * cost, MAX_SAVED);
        self.since_plain = if timed_plain { 0 } else { self.since_plain + 1 };
        self.check();
    }

    /// Subtracts the cost of reading by the draft model.
    pub fn charge_reading(&mut self, cost: f64) {
        let saved = cost.min(self.reading);
        self.reading -= saved;
        self.drafts -= cost - saved;
        self.check();
    }

    fn check(&self) {
        debug_assert!(self.is_valid(), "{self:?}");
    }

    /// Returns true if invariants 4 and 5 hold.
    fn is_valid(&self) -> bool {
        self.drafts.is_finite() && self.reading.is_finite() && self.reading >= 0.0
    }
}

#[cfg(test)]
mod tests;
