//! Layout of the inputs that a short convolution keeps for later rows.

/// Positions between two checkpoints.
pub const CHECKPOINT: usize = 64;
/// Rows that may be computed after the last cached token and then dropped: two rounds in flight, and a comparison of kernels.
const AHEAD: usize = 3 * 32;

/// Inputs of a convolution by position, each of `width` numbers: a ring of the latest positions, then checkpoints. Before each multiple of
/// [`CHECKPOINT`], the checkpoint has the inputs that a text needs to continue there. So a text can be cut at any recent position, or else at
/// a checkpoint, without copying anything.
///
/// ```text
/// | ring: position % ring        | 62 63 | 126 127 | 190 191 | ...      (3 taps)
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConvHistory {
    /// Numbers per position.
    pub width: usize,
    /// Positions that a row depends on, including its own.
    pub taps: usize,
    /// Positions in the ring.
    pub ring: usize,
}

impl ConvHistory {
    /// Plans the history for forward passes of at most `rows` rows.
    pub fn new(width: usize, taps: usize, rows: usize) -> Self {
        Self { width, taps, ring: rows + taps + AHEAD }
    }

    /// Returns the latest positions that the ring holds whatever rows are dropped.
    pub fn reach(&self) -> usize {
        self.ring - AHEAD
    }

    /// Returns the numbers for texts of at most `positions`.
    pub fn len(&self, positions: usize) -> usize {
        (self.ring + positions.div_ceil(CHECKPOINT) * (self.taps - 1)) * self.width
    }

    /// Returns the first number of a position in the ring.
    pub fn in_ring(&self, position: usize) -> usize {
        position % self.ring * self.width
    }

    /// Returns the first number of a position in its checkpoint; `None`: it is in none.
    pub fn in_checkpoint(&self, position: usize) -> Option<usize> {
        let place = (position % CHECKPOINT).checked_sub(CHECKPOINT + 1 - self.taps)?;
        Some((self.ring + position / CHECKPOINT * (self.taps - 1) + place) * self.width)
    }
}
