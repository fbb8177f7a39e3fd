//! Layout of the recurrent state that layers keep for later rows.

use super::spec::DeltaSpec;
use std::ops::Range;

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

/// States of a delta net: slots with the state after some position, then the inputs of the latest positions as a ring. A later row starts
/// from a state and repeats the recurrence with the inputs after it. So a rejected draft needs no copy of a state.
///
/// A slot has a part for each head of v and [`DeltaHistory::COLUMNS`] columns of its state. A part is the inputs of the convolution before
/// the position [taps - 1, channels], then the columns [key_dim, COLUMNS]. Channels are q and k of the head, then the columns of v.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeltaHistory {
    /// Sizes of the delta net.
    pub spec: DeltaSpec,
}

impl DeltaHistory {
    /// Columns of a state that are computed together; as in `shaders/lib/delta_inputs.wgsl`.
    pub const COLUMNS: usize = 64;
    /// Number of states that rounds save in turn: two rounds are in the queue while the tokens of a third are passed to the caller.
    pub const ROUND_SLOTS: usize = 3;
    /// Number of states; chunks of a prompt save the others.
    pub const SLOTS: usize = Self::ROUND_SLOTS + 2;
    /// Latest positions from which inputs can be repeated whatever rows are dropped: a round, and what a draft model reads before it.
    pub const REACH: usize = 64;
    /// Positions in the ring.
    pub const RING: usize = Self::REACH + AHEAD;

    /// Returns the parts of each head's state.
    pub fn blocks(&self) -> usize {
        self.spec.value_dim.div_ceil(Self::COLUMNS)
    }

    /// Returns the channels of a part.
    pub fn channels(&self) -> usize {
        2 * self.spec.key_dim + Self::COLUMNS
    }

    /// Returns the numbers of a part.
    pub fn part_len(&self) -> usize {
        (self.spec.taps - 1) * self.channels() + self.spec.key_dim * Self::COLUMNS
    }

    /// Returns the numbers of a slot.
    pub fn slot_len(&self) -> usize {
        self.spec.value_heads * self.blocks() * self.part_len()
    }

    /// Returns the first number of a position's inputs.
    pub fn in_ring(&self, position: usize) -> usize {
        Self::SLOTS * self.slot_len() + position % Self::RING * self.spec.input_width()
    }

    /// Returns the numbers that a copy of a text of `len` tokens has: the first slot, with the state before the last token, and the inputs of
    /// this token.
    pub fn copied(&self, len: usize) -> [Range<usize>; 2] {
        let inputs = self.in_ring(len.saturating_sub(1));
        [0..self.slot_len(), inputs..inputs + self.spec.input_width()]
    }

    /// Returns the numbers of all slots and of the ring.
    pub fn numbers(&self) -> usize {
        Self::SLOTS * self.slot_len() + Self::RING * self.spec.input_width()
    }
}
