//! Lengths to which a text can be cut if its model keeps recurrent state.

/// The lengths to which a cached text can be cut. Keys and values can be cut anywhere. Recurrent state can be cut at the latest positions, and
/// at checkpoints.
#[derive(Debug, Clone, Copy, Default)]
pub struct Rollback {
    /// Earlier positions that a row depends on through recurrent state; 0 without such state.
    before: usize,
    /// Latest positions whose state is kept.
    reach: usize,
    /// Positions between checkpoints.
    interval: usize,
    /// First position whose state is kept, apart from checkpoints.
    first: usize,
}

impl Rollback {
    /// Describes recurrent state of an empty text.
    pub fn new(before: usize, reach: usize, interval: usize) -> Self {
        Self { before, reach, interval, first: 0 }
    }

    /// Cuts a text of `from` tokens to at most `len`. Returns the length from which it can continue.
    pub fn cut(&mut self, from: usize, len: usize) -> usize {
        let len = len.min(from);
        if self.before == 0 {
            return len;
        }
        self.first = self.first.max(from.saturating_sub(self.reach));
        let is_kept = |position| position >= self.first || position % self.interval + self.before >= self.interval;
        let kept = if (len.saturating_sub(self.before)..len).all(is_kept) { len } else { len - len % self.interval };
        self.first = self.first.min(kept);
        kept
    }

    /// Records that the state of a text of `len` tokens was restored from a copy.
    pub fn restored(&mut self, len: usize) {
        self.first = len.saturating_sub(self.before);
    }
}
