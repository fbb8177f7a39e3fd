//! A step of the plan with its buffers: selects kernel variant and grid by the number of rows.

use super::memory::{BLOCK, FEW_ROWS, tiles};
use super::variants::Variants;
use crate::gpu::{Arithmetic, Buffer, Call, Epilogues, Gpu, Kernel, KvDtype, Recorder, Slice, split_grid};
use crate::model::Experts;
use crate::weights::Format;
use std::ops::{Range, RangeInclusive};

/// Kernels that a node selects from.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum KernelChoice {
    Always(Kernel),
    /// Selected by the number of rows.
    Matmul(Format, Arithmetic, Epilogues),
    /// Selected by the number of query vectors, of this many elements.
    Attention(KvDtype, u32),
}

impl KernelChoice {
    /// Returns all kernels that may run.
    fn kernels(self, gpu: &Gpu) -> Vec<Kernel> {
        match self {
            Self::Always(kernel) => vec![kernel],
            Self::Matmul(format, arithmetic, epilogues) => {
                let counts = Kernel::ROWS.into_iter().map(Some).chain([None]);
                counts.map(|rows| Kernel::matmul(format, arithmetic, rows, epilogues, gpu.is_processor())).collect()
            }
            Self::Attention(kv, head_dim) => Kernel::attentions(kv, head_dim, gpu.is_processor()),
        }
    }
}

/// Number of workgroups of a node.
#[derive(Clone, Copy)]
pub(super) enum WorkGrid {
    /// This many per row.
    PerRow(u32),
    /// This many for each of several rows per row of the pass.
    PerRows(u32, u32),
    /// One per row, rows in x.
    Rows,
    /// This many for all rows.
    All(u32),
    /// For this many outputs, by the tile of the selected kernel.
    Outputs(u32),
    /// `Outputs` of each expert.
    Experts(u32, Experts),
    /// One per KV head, part of the positions, and batch of query vectors of the selected kernel.
    Parts(AttentionSpan),
    /// One per row and 64 vec4s of its heads; none if there is only one part.
    Joined(AttentionSpan),
}

/// Sizes that determine the grids of an attention layer.
#[derive(Clone, Copy)]
pub(super) struct AttentionSpan {
    pub kv_heads: u32,
    /// Query heads per KV head.
    pub group: u32,
    pub head_dim: u32,
    /// Positions that a row sees.
    pub window: u32,
}

impl AttentionSpan {
    /// Returns the number of workgroups that share the positions: one per block for few rows, else 1.
    fn parts(self, rows: u32, positions: &Positions) -> u32 {
        if rows > FEW_ROWS as u32 { 1 } else { blocks(rows, positions, self.window) }
    }
}

/// Threads of the kernel that joins the blocks.
const JOINING: u32 = 64;

/// A step of the plan with its buffers, bound for every kernel variant that it may run.
pub(super) struct Node {
    choice: KernelChoice,
    bindings: Vec<(u32, Slice)>,
    calls: Vec<Call>,
    grid: WorkGrid,
    /// True if the node takes part in comparisons of kernel variants.
    pub is_probe: bool,
}

/// A pass to record: `rows` rows, the first at one of `positions`.
#[derive(Clone, Copy)]
pub(super) struct GpuPass<'a> {
    pub rows: u32,
    pub positions: &'a Positions,
    pub variants: Variants,
    /// Most outputs of a matrix to compute.
    pub outs: u32,
}

impl Node {
    pub fn new(gpu: &Gpu, choice: KernelChoice, grid: WorkGrid, bindings: Vec<(u32, Slice)>) -> Self {
        let mut node = Self { choice, bindings, calls: Vec::new(), grid, is_probe: false };
        node.bind(gpu);
        node
    }

    fn bind(&mut self, gpu: &Gpu) {
        let kernels = self.choice.kernels(gpu);
        let group = gpu.group(kernels[0], &self.bindings);
        self.calls = kernels.into_iter().map(|kernel| group.call(kernel)).collect();
    }

    /// Replaces a buffer in the bindings.
    pub fn replace(&mut self, gpu: &Gpu, old: &Buffer, new: &Buffer) {
        let mut found = false;
        for (_, slice) in self.bindings.iter_mut().filter(|(_, slice)| slice.is_of(old)) {
            *slice = new.whole();
            found = true;
        }
        if found {
            self.bind(gpu);
        }
    }

    /// Returns the kernels to select from.
    pub fn choice(&self) -> KernelChoice {
        self.choice
    }

    /// Returns the attention window if the grid depends on the position.
    pub fn window(&self) -> Option<u32> {
        match self.grid {
            WorkGrid::Parts(span) => Some(span.window),
            _ => None,
        }
    }

    /// Returns true if two matmul variants run the same kernel.
    pub fn has_same_kernels(&self, variant: usize, other: usize) -> bool {
        let kernel = |variant: usize| self.calls.get(variant).map(Call::kernel);
        !matches!(self.choice, KernelChoice::Matmul(..)) || kernel(variant) == kernel(other)
    }

    /// Returns the first variant that fits the query vectors of `rows` rows, else the last, in several workgroups.
    fn fitting(&self, rows: u32, span: AttentionSpan) -> usize {
        let counts = &Kernel::VECTORS[..self.calls.len()];
        counts.iter().position(|vectors| *vectors >= rows * span.group).unwrap_or(counts.len() - 1)
    }

    /// Returns the best kernel for `rows` rows.
    pub fn best(&self, rows: usize, variants: Variants) -> Kernel {
        let best = match (self.choice, self.grid) {
            (KernelChoice::Matmul(..), _) => variants.best(rows),
            (_, WorkGrid::Parts(span)) => self.fitting(rows as u32, span),
            _ => 0,
        };
        self.calls[best].kernel()
    }

    /// Returns the best ready variant for `rows` rows; for attention, the best one or a larger one.
    fn variant(&self, gpu: &Gpu, rows: u32, variants: Variants) -> usize {
        match (self.choice, self.grid) {
            (KernelChoice::Matmul(..), _) => variants.choose(rows as usize),
            (_, WorkGrid::Parts(span)) => {
                let fitting = self.fitting(rows, span);
                let is_ready = |variant: &usize| gpu.is_compiled(self.calls[*variant].kernel());
                (fitting..self.calls.len()).find(is_ready).unwrap_or(fitting)
            }
            _ => 0,
        }
    }

    /// Returns true if the kernel can save recurrent state without reading a row.
    pub fn saves_state(&self) -> bool {
        matches!(self.choice, KernelChoice::Always(Kernel::DeltaNet(_)))
    }

    /// Records the kernel call.
    pub fn record(&self, recorder: &mut Recorder<'_>, pass: GpuPass<'_>) {
        let GpuPass { rows, positions, variants, outs: wanted } = pass;
        let variant = self.variant(recorder.gpu(), rows, variants);
        let grid = match self.grid {
            WorkGrid::PerRow(x) => [x, rows, 1],
            WorkGrid::PerRows(x, each) => [x, rows * each, 1],
            WorkGrid::Rows => [rows, 1, 1],
            WorkGrid::All(x) => [x, 1, 1],
            WorkGrid::Outputs(outs) => {
                let [row_tile, out_tile] = self.calls[variant].kernel().tile().unwrap_or([1, 1]);
                split_grid(rows.div_ceil(row_tile), outs.min(wanted).div_ceil(out_tile))
            }
            WorkGrid::Experts(outs, experts) => {
                let [row_tile, out_tile] = self.calls[variant].kernel().tile().unwrap_or([1, 1]);
                let parts = rows.min(Kernel::TILE).div_ceil(row_tile);
                split_grid(tiles(rows as usize, &experts) as u32 * parts, outs.div_ceil(out_tile))
            }
            WorkGrid::Parts(span) => {
                let vectors = (rows * span.group).div_ceil(Kernel::VECTORS[variant]);
                [span.kv_heads, span.parts(rows, positions), vectors]
            }
            WorkGrid::Joined(span) if span.parts(rows, positions) == 1 => return,
            WorkGrid::Joined(span) => [(span.kv_heads * span.group * span.head_dim / 4).div_ceil(JOINING), rows, 1],
        };
        recorder.dispatch(&self.calls[variant], grid);
    }
}

/// Possible start positions of a pass; a single one if the CPU knows it.
pub(super) type Positions = RangeInclusive<usize>;

/// Returns the maximum number of position blocks that `rows` rows see.
pub(super) fn blocks(rows: u32, positions: &Positions, window: u32) -> u32 {
    let seen = |position: u32| {
        let first = (position + 1 - window.min(position + 1)) / BLOCK as u32;
        (position + rows - 1) / BLOCK as u32 + 1 - first
    };
    positions.clone().map(|position| seen(position as u32)).max().unwrap_or(0)
}

/// Marks the embedding and the first layers that together use every kernel. `ops`: the nodes of each step of the plan's body.
pub(super) fn choose_probes(ops: &mut [Vec<Node>], layers: &[Range<usize>]) {
    let mut known = Vec::new();
    let embeds = 0..layers.first().map_or(0, |layer| layer.start);
    for layer in [&embeds].into_iter().chain(layers) {
        let layer = &mut ops[layer.clone()];
        let choices: Vec<_> = layer.iter().flatten().map(Node::choice).collect();
        if !choices.iter().all(|choice| known.contains(choice)) {
            known.extend(choices);
            layer.iter_mut().flatten().for_each(|node| node.is_probe = true);
        }
    }
}
