//! Uniform blocks that kernels read: copies of WGSL structs, compared with them by a test.

use crate::target::StatePass;
use bytemuck::{Pod, Zeroable};

/// Position and rows of a forward pass; `Step` in `shaders/lib/step.wgsl`.
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub struct Step {
    /// KV positions filled before this pass.
    pub position: u32,
    /// Rows in this pass.
    pub rows: u32,
    /// Index of the first row's token id in the round buffer.
    pub token: u32,
    /// First row that needs logits.
    pub logit_row: u32,
    /// Index of the first sampled id in the round buffer.
    pub out: u32,
    /// Draft tokens between the pending token and the first row that needs logits; row of these logits.
    pub draft_row: u32,
    /// Slot of the recurrent state that the pass starts from.
    pub slot: u32,
    /// Tokens before this state.
    pub base: u32,
    /// Slot of the state to save.
    pub save_slot: u32,
    /// Tokens before the state to save; [`UNSAVED`]: none is saved.
    pub save_at: u32,
    /// Last rows, which read the mask token.
    pub masks: u32,
    /// Tokens before the pending one that a draft reads again if its round is submitted ahead.
    pub missed: u32,
    /// Rows from the pending token's on that guess nothing.
    pub skipped: u32,
    /// Positions between a row and the token that it reads: 0, or 1 for an MTP layer.
    pub lead: u32,
}

/// Flags of [`SampleDims::advance`] in `shaders/lib/sampling.wgsl`.
pub(super) const ADVANCES: u32 = 1;
pub(super) const DECIDES: u32 = 2;
pub(super) const STAYS: u32 = 4;

/// `NO_MASK` in `shaders/embed.wgsl`.
pub(super) const NO_MASK: u32 = u32::MAX;

/// `UNSAVED` in `shaders/lib/step.wgsl`.
pub const UNSAVED: u32 = u32::MAX;

impl Step {
    /// Returns the step with other states.
    pub fn with_states(self, states: StatePass) -> Self {
        let StatePass { slot, base, save_slot, save_at } = states;
        let save_at = save_at.map_or(UNSAVED, |at| at as u32);
        Self { slot: slot as u32, base: base as u32, save_slot: save_slot as u32, save_at, ..self }
    }
}

/// `MatmulDims` in `shaders/lib/matmul.wgsl`.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub(super) struct MatmulDims {
    pub chunks: u32,
    pub scales: u32,
    pub stride: u32,
    pub outs: u32,
    pub first_out: u32,
    pub x_stride: u32,
    pub y_stride: u32,
    pub head: u32,
    pub epilogue: u32,
    pub norm_width: u32,
    pub sums: u32,
    pub leaves: u32,
    pub eps: f32,
    pub one: f32,
    pub scale: f32,
    pub cap: f32,
    pub factors: u32,
    pub first_factor: u32,
    pub first_expert: u32,
    pub experts: u32,
    pub sharing: u32,
    pub bias_stride: u32,
}

/// `QuantiseDims` in `shaders/quantise.wgsl`.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub(super) struct QuantiseDims {
    pub blocks: u32,
    pub behind: u32,
    pub x_stride: u32,
    pub y_stride: u32,
    pub head: u32,
}

/// `HeadDims` in `shaders/lib/heads.wgsl`.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub(super) struct HeadDims {
    pub heads: u32,
    pub kv_heads: u32,
    pub head_dim: u32,
    pub rotary: u32,
    pub q_stride: u32,
    pub window: u32,
    pub q_table: u32,
    pub scale: f32,
    pub cap: f32,
    pub whole: u32,
    pub ahead: u32,
    pub one: f32,
}

/// `QkNormDims` in `shaders/qk_norm.wgsl`.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub(super) struct QkNormDims {
    pub eps: f32,
    pub across: u32,
    pub after: u32,
    pub values: u32,
}

/// `ConvDims` in `shaders/short_conv.wgsl`.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub(super) struct ConvDims {
    pub width: u32,
    pub taps: u32,
    pub ring: u32,
    pub stride: u32,
}

/// `DeltaDims` in `shaders/lib/delta_inputs.wgsl`.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub(super) struct DeltaDims {
    pub key_heads: u32,
    pub value_heads: u32,
    pub value_dim: u32,
    pub taps: u32,
    pub ring: u32,
    pub first_input: u32,
    pub width: u32,
    pub stride: u32,
    pub replaces: u32,
    pub tiled: u32,
}

/// `GateDims` in `shaders/gate_heads.wgsl`.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub(super) struct GateDims {
    pub head_dim: u32,
    pub stride: u32,
    pub gates: u32,
    pub first_gate: u32,
    pub each: u32,
    pub normed: u32,
    pub gain_stride: u32,
    pub eps: f32,
    pub one: f32,
}

/// `RouteDims` in `shaders/route.wgsl`.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub(super) struct RouteDims {
    pub experts: u32,
    pub chosen: u32,
    pub always: u32,
    pub sigmoid: u32,
    pub normalised: u32,
    pub one: f32,
}

/// `GroupDims` in `shaders/group.wgsl`.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub(super) struct GroupDims {
    pub experts: u32,
    pub used: u32,
}

/// `CombineDims` in `shaders/combine.wgsl`.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub(super) struct CombineDims {
    pub used: u32,
    pub width: u32,
    pub stride: u32,
    pub bias_stride: u32,
    pub adds: u32,
    pub scale: f32,
}

/// `EmbedDims` in `shaders/embed.wgsl`.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub(super) struct EmbedDims {
    pub chunks: u32,
    pub scales: u32,
    pub stride: u32,
    pub first_id: u32,
    pub ids: u32,
    pub x_stride: u32,
    pub scale: f32,
    pub factor: f32,
    pub adds: u32,
    pub positions: u32,
    pub mask: u32,
}

/// `NormDims` in `shaders/lib/norms.wgsl`.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub(super) struct NormDims {
    pub width: u32,
    pub stride: u32,
    pub y_stride: u32,
    pub y_first: u32,
    pub count: u32,
    pub head: u32,
    pub x_ring: u32,
    pub y_ring: u32,
    pub next: u32,
    pub by_draft: u32,
    pub eps: f32,
    pub one: f32,
}

/// `ConfideDims` in `shaders/confide.wgsl`.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub(super) struct ConfideDims {
    pub hidden: u32,
    pub x_stride: u32,
    pub rank: u32,
    pub one: f32,
}

/// `SampleDims` in `shaders/lib/sampling.wgsl`.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub(super) struct SampleDims {
    pub vocab: u32,
    pub stride: u32,
    pub drafts: u32,
    pub advance: u32,
    pub stream: u32,
    pub draft_stride: u32,
    pub draft_vocab: u32,
    pub logprobs: u32,
    pub lead: u32,
}

/// `SamplingBlock` in `shaders/lib/sampling.wgsl`.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub(super) struct SamplingBlock {
    pub seed_low: u32,
    pub seed_high: u32,
    pub temperature: f32,
    pub top_k: u32,
    pub top_p: f32,
    pub min_p: f32,
    pub repetition_penalty: f32,
    pub presence_penalty: f32,
    pub frequency_penalty: f32,
    pub no_repeat_ngram_size: u32,
    pub confidence: f32,
}
