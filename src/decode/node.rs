//! A step of the plan with its buffers: which kernel it runs for how many rows, and how many workgroups.

use super::invariance::Variants;
use super::memory::{BLOCK, FEW_ROWS, MATMUL_ROWS};
use crate::gpu::{Buffer, Call, Epilogue, Gpu, Kernel, Recorder, Slice, split_grid};
use crate::weights::Format;
use std::ops::RangeInclusive;

/// Which kernel a node runs, for how many rows.
#[derive(Clone, Copy)]
pub(super) enum Choice {
    Always(Kernel),
    Matmul(Format, Epilogue),
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

/// A step of the plan with its buffers, bound to every kernel variant that it may run: a round creates nothing.
pub(super) struct Node {
    choice: Choice,
    bindings: Vec<(u32, Slice)>,
    calls: Calls,
    grid: Grid,
}

enum Calls {
    Always(Call),
    Matmul {
        /// By most rows of a workgroup.
        rows: Vec<(u32, Call)>,
        tile: Call,
    },
    FewRows(Call),
    ManyRows(Call),
}

impl Calls {
    fn bind(gpu: &Gpu, choice: Choice, bindings: &[(u32, Slice)]) -> Self {
        let call = |kernel| gpu.call(kernel, bindings);
        match choice {
            Choice::Always(kernel) => Self::Always(call(kernel)),
            Choice::FewRows(kernel) => Self::FewRows(call(kernel)),
            Choice::ManyRows(kernel) => Self::ManyRows(call(kernel)),
            Choice::Matmul(format, epilogue) => Self::Matmul {
                rows: Kernel::rows(format)
                    .iter()
                    .map(|&rows| (rows, call(Kernel::MatmulRows(format, rows, epilogue))))
                    .collect(),
                tile: call(Kernel::MatmulTile(format, epilogue)),
            },
        }
    }
}

impl Node {
    pub fn new(gpu: &Gpu, choice: Choice, grid: Grid, bindings: Vec<(u32, Slice)>) -> Self {
        let calls = Calls::bind(gpu, choice, &bindings);
        Self { choice, bindings, calls, grid }
    }

    /// Takes another buffer in place of one.
    pub fn replace(&mut self, gpu: &Gpu, old: &Buffer, new: &Buffer) {
        let mut found = false;
        for (_, slice) in self.bindings.iter_mut().filter(|(_, slice)| slice.is_of(old)) {
            *slice = new.whole();
            found = true;
        }
        if found {
            self.calls = Calls::bind(gpu, self.choice, &self.bindings);
        }
    }

    /// The attention window, where the grid depends on the position.
    pub fn window(&self) -> Option<u32> {
        match self.grid {
            Grid::Blocks { window, .. } => Some(window),
            _ => None,
        }
    }

    /// Records it for `rows` rows from one of `positions` on: at most 16 rows where tiles are not in use.
    pub fn record(&self, recorder: &mut Recorder<'_>, rows: u32, positions: &Positions, variants: Variants) {
        let few = rows <= FEW_ROWS as u32;
        let (call, row_tile, out_tile) = match &self.calls {
            Calls::Always(call) => (call, 1, 1),
            Calls::FewRows(call) if few => (call, 1, 1),
            Calls::ManyRows(call) if !few => (call, 1, 1),
            Calls::FewRows(_) | Calls::ManyRows(_) => return,
            Calls::Matmul { rows: calls, tile } => {
                let fits = |(most, _): &&(u32, Call)| *most >= rows && variants != Variants::One;
                match calls.iter().find(fits).or(calls.last()) {
                    Some((most, call)) if rows <= MATMUL_ROWS as u32 => (call, *most, Kernel::OUTS),
                    _ => (tile, Kernel::TILE[0], Kernel::TILE[1]),
                }
            }
        };
        let grid = match self.grid {
            Grid::PerRow(x) => [x, rows, 1],
            Grid::Rows => [rows, 1, 1],
            Grid::Outputs(outs) => split_grid(rows.div_ceil(row_tile), outs.div_ceil(out_tile)),
            Grid::Blocks { kv_heads, window } => [kv_heads, blocks(rows, positions, window), 1],
            Grid::Vectors { kv_heads, group } => [kv_heads, (rows * group).div_ceil(8), 1],
        };
        recorder.dispatch(call, grid);
    }
}

/// Where a pass may begin: where the CPU knows it, at one position.
pub(super) type Positions = RangeInclusive<usize>;

/// Most blocks of positions that `rows` rows see.
pub(super) fn blocks(rows: u32, positions: &Positions, window: u32) -> u32 {
    let seen = |position: u32| {
        let first = (position + 1 - window.min(position + 1)) / BLOCK as u32;
        (position + rows - 1) / BLOCK as u32 + 1 - first
    };
    positions.clone().map(|position| seen(position as u32)).max().unwrap_or(0)
}
