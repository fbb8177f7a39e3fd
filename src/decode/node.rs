//! A step of the plan with its buffers: which kernel it runs for how many rows, and how many workgroups.

use super::memory::{BLOCK, FEW_ROWS};
use crate::gpu::{Call, Epilogue, Gpu, Kernel, Recorder, Slice, split_grid};
use crate::weights::Dtype;
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

/// Which kernel a node runs, for how many rows.
#[derive(Clone, Copy)]
pub(super) enum Choice {
    Always(Kernel),
    Matmul(Dtype, Epilogue),
    FewRows(Kernel),
    ManyRows(Kernel),
}

/// How many workgroups a node needs.
#[derive(Clone, Copy)]
pub(super) enum Grid {
    /// So many per row.
    PerRow(u32),
    /// One per row, rows in x.
    Rows,
    /// So many outputs, by the tile of the chosen kernel.
    Outputs(u32),
    /// One per KV head and block that any row sees.
    Blocks { kv_heads: u32, window: u32 },
    /// One per KV head and 8 query vectors.
    Vectors { kv_heads: u32, group: u32 },
}

/// A step of the plan with its buffers. Calls are made at first use, one per kernel variant.
pub(super) struct Node {
    choice: Choice,
    grid: Grid,
    bindings: Vec<(u32, Slice)>,
    calls: RefCell<HashMap<Kernel, Rc<Call>>>,
}

impl Node {
    pub fn new(choice: Choice, grid: Grid, bindings: Vec<(u32, Slice)>) -> Self {
        Self { choice, grid, bindings, calls: RefCell::default() }
    }

    /// Records it for `rows` rows from `position` on. With one variant for all row counts, there are at most 16.
    pub fn record(&self, gpu: &Gpu, recorder: &mut Recorder<'_>, rows: u32, position: u32, one_variant: bool) {
        let few = rows <= FEW_ROWS as u32;
        let least = if one_variant { FEW_ROWS as u32 } else { rows };
        let variant = Kernel::ROWS.into_iter().find(|variant| *variant >= least);
        let (kernel, row_tile, out_tile) = match self.choice {
            Choice::Always(kernel) => (kernel, 1, 1),
            Choice::FewRows(kernel) if few => (kernel, 1, 1),
            Choice::ManyRows(kernel) if !few => (kernel, 1, 1),
            Choice::FewRows(_) | Choice::ManyRows(_) => return,
            Choice::Matmul(dtype, epilogue) => match variant {
                Some(variant) => (Kernel::MatmulRows(dtype, variant, epilogue), variant, 16),
                None => (Kernel::MatmulTile(dtype, epilogue), 32, 32),
            },
        };
        let grid = match self.grid {
            Grid::PerRow(x) => [x, rows, 1],
            Grid::Rows => [rows, 1, 1],
            Grid::Outputs(outs) => split_grid(outs.div_ceil(out_tile), rows.div_ceil(row_tile)),
            Grid::Blocks { kv_heads, window } => {
                let first = (position + 1 - window.min(position + 1)) / BLOCK as u32;
                [kv_heads, (position + rows - 1) / BLOCK as u32 + 1 - first, 1]
            }
            Grid::Vectors { kv_heads, group } => [kv_heads, (rows * group).div_ceil(8), 1],
        };
        let call = {
            let mut calls = self.calls.borrow_mut();
            calls.entry(kernel).or_insert_with(|| Rc::new(gpu.call(kernel, &self.bindings))).clone()
        };
        recorder.dispatch(&call, grid);
    }
}
