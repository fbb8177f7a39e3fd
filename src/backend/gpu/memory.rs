//! GPU memory of a model: the total before anything is allocated, and the size of each buffer.

use crate::error::{Error, Result};
use crate::gpu::{DeviceInfo, Kernel};
use crate::model::{AttentionSpec, Blueprint, Experts, MatrixPlan, Memory, Op, Output, Section};
use crate::target::MAX_DRAFT;

/// Positions per block of the KV cache; as in `shaders/lib/heads.wgsl`.
pub(super) const BLOCK: usize = 256;
/// Initial positions of the KV cache; it doubles when a text needs more.
pub(super) const FIRST_POSITIONS: usize = 1024;
/// Most rows for which matrices are read once per 16 rows, and blocks of positions are computed in parallel.
pub(super) const FEW_ROWS: usize = 32;

/// Returns the elements per row of an activation: whole chunks of every dtype, zero past the width.
pub(super) fn stride(width: usize) -> usize {
    width.next_multiple_of(32)
}

/// Returns the elements per row of logits: 16 bytes are read at a time.
pub(super) fn logits_stride(vocab: usize) -> usize {
    vocab.next_multiple_of(4)
}

/// Returns the elements per row with an incomplete norm: the row, then a sum of squares for each 16 elements.
pub(super) fn gained_stride(width: usize) -> usize {
    stride(width) + width.div_ceil(16).next_multiple_of(4)
}

/// Returns the positions of the KV cache that hold `positions`.
pub(super) fn whole_blocks(positions: usize) -> usize {
    positions.next_multiple_of(BLOCK)
}

fn matrix_bytes(matrix: &MatrixPlan, sections: &[Section]) -> u64 {
    sections.iter().map(|section| section.bytes(matrix.cols)).sum()
}

/// Sizes of the buffers of a forward pass, in bytes.
pub(super) struct Sizes {
    /// Residual stream and normed rows, each [chunk, hidden].
    pub hidden: u64,
    /// Sums of an MLP and the experts of its layer [chunk, hidden].
    pub branches: u64,
    /// Hidden states of the latest positions that a target keeps for a drafter [positions, layers hidden].
    pub kept: u64,
    /// An embedding and a hidden state, or hidden states, side by side [chunk, joined].
    pub joined: u64,
    /// Markov rows [rank]; one is used at a time.
    pub markov: u64,
    /// Rows with an incomplete norm [chunk, hidden and sums].
    pub gained: u64,
    /// Queries [chunk, q].
    pub query: u64,
    /// Outputs of mixers [chunk, widest].
    pub mixed: u64,
    /// Fused projections that are not consumed by a matmul's epilogue [chunk, widest].
    pub projected: u64,
    /// MLP rows [chunk, intermediate], or of experts [chunk, experts used, intermediate].
    pub mlp: u64,
    /// Experts of each row [chunk, experts used, 2].
    pub choices: u64,
    /// Tiles of rows of experts, each with its expert and its rows.
    pub tiles: u64,
    /// Results of experts [chunk, experts used, hidden].
    pub of_experts: u64,
    /// Inputs of all layers [chunk, layers, layer input].
    pub layer_inputs: u64,
    /// Rows as 8-bit codes [chunk, 3 units per 32 elements], each followed by the norm's sums.
    pub quantised: u64,
    /// Logits [MAX_DRAFT + 1, vocab], each row padded to 16 bytes.
    pub logits: u64,
    /// Each rotary table [positions, rotary_dim / 2, 2].
    pub tables: Vec<u64>,
    /// All vectors.
    pub vectors: u64,
}

/// Sizes of the buffers that grow with the text, in bytes.
pub(super) struct CacheSizes {
    /// State of each layer.
    pub layers: Vec<u64>,
    /// Values of attention blocks [blocks, rows, heads, head_dim].
    pub partial: u64,
    /// Maxima and sums of attention blocks [blocks, rows, heads, 2].
    pub norms: u64,
}

impl CacheSizes {
    /// Returns the sizes for `positions`.
    pub fn new(blueprint: &Blueprint, positions: usize) -> Self {
        let blocks = whole_blocks(positions) / BLOCK;
        let spec = &blueprint.spec;
        let of_rows = |numbers: &dyn Fn(&AttentionSpec) -> usize| {
            let largest = spec.largest(|layer| layer.attention().map_or(0, numbers));
            4 * (blocks * FEW_ROWS * largest) as u64
        };
        Self {
            layers: blueprint.layer_bytes(positions, whole_blocks(positions)).collect(),
            partial: of_rows(&AttentionSpec::q_width),
            norms: of_rows(&|attention| 2 * attention.heads),
        }
    }
}

/// Returns the bytes of a sampler's two lists of remaining tokens: by segment, and compacted.
pub(super) fn remaining_tokens(vocab: usize) -> [u64; 2] {
    [vocab.next_multiple_of(Kernel::SEGMENT), logits_stride(vocab)].map(|row| 4 * ((MAX_DRAFT + 1) * row) as u64)
}

/// Returns the bytes of a bit and of a number for each token.
pub(super) fn seen_tokens(vocab: usize) -> [u64; 2] {
    [vocab.div_ceil(32), vocab].map(|words| 4 * words as u64)
}

/// Returns the bytes of the buffers of a round that grow with the vocabulary.
pub fn sampler_bytes(vocab: usize) -> u64 {
    remaining_tokens(vocab).iter().chain(&seen_tokens(vocab)).sum()
}

/// Returns the most tiles that the rows of all experts may fill in a pass of `rows` rows.
pub(super) fn tiles(rows: usize, experts: &Experts) -> usize {
    let tile = Kernel::TILE as usize;
    let choices = rows * experts.chosen;
    // Each expert with rows may have a tile that is not full.
    let of_chosen = (choices + (tile - 1) * experts.count.min(choices)) / tile;
    of_chosen + experts.shared * rows.div_ceil(tile)
}

impl Sizes {
    pub fn new(blueprint: &Blueprint) -> Self {
        let Blueprint { spec, plan, capacity, .. } = blueprint;
        let rows = capacity.prefill_chunk.max(MAX_DRAFT + 1);
        let floats = |rows: usize, width: usize| rows as u64 * width as u64 * 4;
        let q = spec.largest(|layer| layer.attention().map_or(0, AttentionSpec::q_width));
        let mixed = spec.largest(|layer| layer.mixed_width(spec.hidden_size));
        let mlp = spec.largest(|layer| layer.intermediate_size).max(spec.layer_input_size);
        // A drafter reads those of its target.
        let kept = if spec.needs_target() { 0 } else { blueprint.kept_positions() };
        let joined = spec.joined_width();
        let widest = spec.hidden_size.max(mixed).max(mlp).max(joined);
        let sums = gained_stride(spec.hidden_size) - stride(spec.hidden_size);
        let codes = |width: usize| width.div_ceil(32) * 12 + sums;
        let used = spec.experts.map_or(0, |experts| experts.used());
        let of_experts = spec.largest(|layer| layer.expert_size);
        let tiles = spec.experts.map_or(0, |experts| tiles(rows, &experts));
        let projected = plan.body.iter().chain(&plan.head).map(|op| match op {
            Op::Matmul { matrix, output: Output::Projected, .. } => plan.matrices[matrix.0].rows,
            _ => 0,
        });
        Self {
            hidden: floats(rows, stride(spec.hidden_size)),
            branches: match spec.experts {
                Some(Experts { with_mlp: true, .. }) => floats(rows, stride(spec.hidden_size)),
                _ => 0,
            },
            kept: floats(kept, stride(spec.kept_width())),
            joined: floats(rows, stride(joined)),
            markov: floats(1, stride(spec.markov_rank())),
            gained: floats(rows, gained_stride(spec.hidden_size)),
            query: floats(rows, stride(q)),
            mixed: floats(rows, stride(mixed)),
            projected: floats(rows, projected.max().unwrap_or(0)),
            mlp: floats(rows, stride(mlp)).max(floats(rows * used, stride(of_experts))),
            choices: floats(rows * used, 2),
            tiles: floats(1, 1) + floats(tiles, 2 + Kernel::TILE as usize),
            of_experts: floats(rows * used, stride(spec.hidden_size)),
            layer_inputs: floats(rows, spec.layers.len() * spec.layer_input_size),
            quantised: match blueprint.may_quantise() {
                true => floats(rows, codes(widest)).max(floats(rows * used, codes(of_experts))),
                false => 0,
            },
            logits: floats(MAX_DRAFT + 1, logits_stride(spec.vocab_size)),
            tables: spec
                .ropes
                .iter()
                .map(|rope| floats(rope.tables() * capacity.max_context, rope.rotary_dim))
                .collect(),
            vectors: plan.vectors.iter().map(|vector| floats(1, stride(vector.len)).next_multiple_of(256)).sum(),
        }
    }
}

impl Blueprint {
    /// Returns the bytes on a GPU for a cache of the full context.
    pub fn memory(&self) -> Memory {
        self.memory_for(self.capacity.max_context)
    }

    /// Returns the bytes on a GPU for a cache of `positions`.
    pub fn memory_for(&self, positions: usize) -> Memory {
        let Self { plan, sections, .. } = self;
        let sizes = Sizes::new(self);
        let cache = CacheSizes::new(self, positions);
        let bytes: Vec<u64> =
            plan.matrices.iter().zip(sections).map(|(matrix, sections)| matrix_bytes(matrix, sections)).collect();
        let Sizes { hidden, gained, query, mixed, projected, mlp, layer_inputs, quantised, .. } = sizes;
        let Sizes { choices, tiles, of_experts, branches, kept, joined, markov, .. } = sizes;
        let rows = hidden * 2 + gained + query + mixed + projected + mlp + layer_inputs + quantised;
        let rows = rows + choices + tiles + of_experts + branches + kept + joined + markov;
        Memory {
            weights: plan.own_bytes(&bytes) + sizes.vectors,
            kv: cache.layers.iter().sum(),
            scratch: rows
                + sizes.logits
                + cache.partial
                + cache.norms
                + sizes.tables.iter().sum::<u64>()
                + self.sampler_bytes(),
            read_per_token: self.read_per_token(&bytes) + sizes.vectors,
        }
    }

    /// Returns the bytes of the sampler's large buffers.
    pub(crate) fn sampler_bytes(&self) -> u64 {
        if self.shares_sampler { 0 } else { sampler_bytes(self.spec.vocab_size) }
    }

    /// Returns the large buffers that must fit one binding, with their bytes; matrices are split.
    pub fn unsplit(&self) -> [(&'static str, u64); 6] {
        let sizes = Sizes::new(self);
        let cache = CacheSizes::new(self, self.capacity.max_context);
        [
            ("the KV cache of a layer", cache.layers.iter().copied().max().unwrap_or(0)),
            ("the attention blocks", cache.partial),
            ("the logits", sizes.logits),
            ("the MLP rows", sizes.mlp),
            ("the results of experts", sizes.of_experts),
            ("the inputs of layers", sizes.layer_inputs),
        ]
    }

    /// Checks these buffers against the limits of a GPU.
    pub fn check(&self, device: &DeviceInfo) -> Result<()> {
        let limit = device.max_binding_size.min(device.max_buffer_size);
        match self.unsplit().into_iter().find(|(_, need)| *need > limit) {
            Some((what, need)) => Err(Error::OutOfGpuMemory { what: what.into(), need, limit: Some(limit) }),
            None => Ok(()),
        }
    }
}
