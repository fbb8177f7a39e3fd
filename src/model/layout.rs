//! How rows of checkpoint tensors become rows on the GPU.

/// How rows of checkpoint tensors become the rows of one matrix.
#[derive(Debug, Clone, PartialEq)]
pub struct Layout {
    /// Tensors, stacked.
    pub parts: Vec<Part>,
    /// The order of the stacked rows on the GPU.
    pub order: RowOrder,
    /// Each tensor lies transposed in the checkpoint: its columns are the rows.
    pub transposed: bool,
}

/// Some rows of one tensor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// Its name in the checkpoint.
    pub tensor: String,
    /// Rows that the whole tensor has.
    pub tensor_rows: usize,
    /// First row taken.
    pub first_row: usize,
    /// Rows taken.
    pub rows: usize,
}

/// An order of rows that puts next to each other what an epilogue needs together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowOrder {
    /// As stacked.
    Stacked,
    /// The first `heads` heads: elements that rotate together become neighbours. Scores do not change, since q and k
    /// are reordered alike.
    RotaryPairs {
        /// Heads that rotate.
        heads: usize,
        /// Rows per head.
        head_dim: usize,
        /// Leading rows of a head that rotate; 0 where they are in this order already.
        rotary: usize,
    },
    /// The two halves alternate: gate 0, up 0, gate 1, up 1, ...
    Alternate,
}

impl Part {
    /// A whole tensor.
    pub(super) fn whole(tensor: String, rows: usize) -> Self {
        Self { tensor, tensor_rows: rows, first_row: 0, rows }
    }
}

impl Layout {
    /// Part index and row of that part's tensor for a row on the GPU. None past the end.
    pub fn source(&self, row: usize) -> Option<(usize, usize)> {
        let total: usize = self.parts.iter().map(|part| part.rows).sum();
        let mut stacked = match self.order {
            RowOrder::Stacked => row,
            RowOrder::RotaryPairs { heads, head_dim, rotary } => {
                let i = row % head_dim;
                if row < heads * head_dim && i < rotary { row - i + i / 2 + i % 2 * (rotary / 2) } else { row }
            }
            RowOrder::Alternate => row % 2 * (total / 2) + row / 2,
        };
        for (index, part) in self.parts.iter().enumerate() {
            if stacked < part.rows {
                return Some((index, part.first_row + stacked));
            }
            stacked -= part.rows;
        }
        None
    }
}
