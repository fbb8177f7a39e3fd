//! Mapping from rows of checkpoint tensors to rows on the GPU.

use crate::weights::Tensor;
use std::ops::Range;

/// Rows of checkpoint tensors that form one matrix.
#[derive(Debug, Clone, PartialEq)]
pub struct Layout {
    /// Stacked tensors.
    pub parts: Vec<Part>,
    /// Order of the stacked rows on the GPU.
    pub order: RowOrder,
    /// `true`: tensors of floats are transposed in the checkpoint, so that their columns are the rows; if they stack experts, those of each.
    pub transposed: bool,
}

/// Range of rows of one tensor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// Name in the checkpoint.
    pub tensor: String,
    /// Rows of the whole tensor.
    pub tensor_rows: usize,
    /// Experts whose rows the tensor stacks, as its first of three dimensions; 1: it has two.
    pub experts: usize,
    /// First row used.
    pub first_row: usize,
    /// Number of rows used.
    pub rows: usize,
}

/// Order of rows that makes rows adjacent if an epilogue needs them together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowOrder {
    /// Stacking order.
    Stacked,
    /// In the first `heads` heads, elements that rotate together become adjacent. Scores do not change, since q and k are reordered in the
    /// same way.
    RotaryPairs {
        /// Heads that rotate.
        heads: usize,
        /// Rows per head.
        head_dim: usize,
        /// Leading rows of a head that rotate; 0 if they are in this order already.
        rotary: usize,
    },
    /// Both halves alternate: gate 0, up 0, gate 1, up 1, ...
    Alternate,
}

impl Part {
    /// Selects a whole tensor.
    pub(super) fn whole(tensor: String, rows: usize) -> Self {
        Self { tensor, tensor_rows: rows, experts: 1, first_row: 0, rows }
    }
}

impl Layout {
    /// Returns true if the rows are columns of this tensor. A quantised tensor is never transposed: a block holds inputs of one output.
    pub fn is_transposed(&self, tensor: &Tensor) -> bool {
        self.transposed && tensor.dtype.block().elements == 1
    }

    /// Returns the part index and the row in that part's tensor for each of some rows on the GPU; `None` past the end.
    pub fn sources(&self, rows: Range<usize>) -> impl Iterator<Item = Option<(usize, usize)>> {
        let mut end = 0;
        let ends: Vec<usize> = self
            .parts
            .iter()
            .map(|part| {
                end += part.rows;
                end
            })
            .collect();
        rows.map(move |row| {
            let stacked = self.stacked(row, end);
            let index = ends.partition_point(|end| *end <= stacked);
            let part = self.parts.get(index)?;
            Some((index, part.first_row + stacked - (ends[index] - part.rows)))
        })
    }

    /// Returns the index of a row on the GPU among all `total` rows as they are stacked.
    fn stacked(&self, row: usize, total: usize) -> usize {
        match self.order {
            RowOrder::Stacked => row,
            RowOrder::RotaryPairs { heads, head_dim, rotary } => {
                let i = row % head_dim;
                if row < heads * head_dim && i < rotary { row - i + i / 2 + i % 2 * (rotary / 2) } else { row }
            }
            RowOrder::Alternate => row % 2 * (total / 2) + row / 2,
        }
    }
}
