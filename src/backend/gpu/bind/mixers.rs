//! Lowers the steps of mixers.

use super::{Binder, Lowered};
use crate::backend::gpu::dims::{ConvDims, DeltaDims, GateDims, HeadDims};
use crate::backend::gpu::memory::stride;
use crate::backend::gpu::node::{AttentionSpan, KernelChoice, WorkGrid};
use crate::gpu::{Buffer, Kernel, Slice, Uniforms};
use crate::model::{AttentionGate, AttentionSpec, DeltaHistory, Mixer, VectorId};

impl Binder<'_> {
    /// Lowers the gates of attention, or those of a delta net with their norm.
    pub(super) fn lower_gates(&self, layer: usize, gain: Option<VectorId>, uniforms: &mut Uniforms) -> Vec<Lowered> {
        let spec = self.spec();
        let each = spec.attention_gate == Some(AttentionGate::Elements);
        let (heads, head_dim, gates, first_gate, normed) = match &spec.layers[layer].mixer {
            Mixer::Attention(AttentionSpec { heads, head_dim, .. }) => {
                (*heads, *head_dim, if each { heads * head_dim } else { *heads }, 0, 0)
            }
            Mixer::DeltaNet(delta) => {
                let first = delta.input_width();
                let (heads, normed) = if delta.replaces { (delta.value_heads, 1) } else { (delta.key_heads, 2) };
                (heads, delta.value_width() / heads, first + delta.value_width(), first, normed)
            }
            Mixer::ShortConv { .. } => return Vec::new(),
        };
        let dims = GateDims {
            head_dim: head_dim as u32,
            stride: stride(heads * head_dim) as u32,
            gates: gates as u32,
            first_gate: first_gate as u32,
            each: u32::from(each || gain.is_some()),
            normed,
            gain_stride: if normed == 2 { head_dim as u32 } else { 0 },
            eps: spec.norm_eps as f32,
            one: 1.0,
        };
        let gain = self.vector(gain.unwrap_or(VectorId(0)));
        let (gates, x) = (self.projected.clone(), self.mixed.clone());
        vec![Lowered {
            choice: KernelChoice::Always(Kernel::GateHeads),
            grid: WorkGrid::PerRow(heads as u32),
            bindings: vec![(0, self.step.clone()), (2, gates), (3, gain), (4, x)],
            blocks: vec![(1, uniforms.add(&[dims]))],
        }]
    }

    /// Lowers a delta net, with weights and bias of its convolution, speed and bias of its decay, and the factor of v.
    pub(super) fn lower_delta_net(
        &self,
        layer: usize,
        [taps, conv_bias, rates, bias, skip]: [VectorId; 5],
        uniforms: &mut Uniforms,
    ) -> Vec<Lowered> {
        let spec = self.spec();
        let Some(&delta) = spec.layers[layer].delta_net() else { return Vec::new() };
        let history = DeltaHistory { spec: delta };
        let dims = DeltaDims {
            key_heads: delta.key_heads as u32,
            value_heads: delta.value_heads as u32,
            value_dim: delta.value_dim as u32,
            taps: delta.taps as u32,
            ring: DeltaHistory::RING as u32,
            first_input: (DeltaHistory::SLOTS * history.slot_len()) as u32,
            width: (delta.input_width() + delta.value_width()) as u32,
            stride: stride(delta.value_width()) as u32,
            replaces: u32::from(delta.replaces),
            tiled: u32::from(spec.names().delta.tiled),
        };
        vec![Lowered {
            choice: KernelChoice::Always(Kernel::DeltaNet(delta.key_dim as u32)),
            grid: WorkGrid::All((delta.value_heads * history.blocks()) as u32),
            bindings: vec![
                (0, self.step.clone()),
                (2, self.projected.clone()),
                (3, self.vector(taps)),
                (4, self.vector(rates)),
                (5, self.vector(bias)),
                (6, self.layers[layer].whole()),
                (7, self.mixed.clone()),
                (8, self.vector(conv_bias)),
                (9, self.vector(skip)),
            ],
            blocks: vec![(1, uniforms.add(&[dims]))],
        }]
    }

    /// Lowers a short convolution.
    pub(super) fn lower_short_conv(&self, layer: usize, weights: VectorId, uniforms: &mut Uniforms) -> Vec<Lowered> {
        let spec = self.spec();
        let Mixer::ShortConv { taps } = spec.layers[layer].mixer else { return Vec::new() };
        let history = self.blueprint.history(taps);
        let dims = ConvDims {
            width: history.width as u32,
            taps: taps as u32,
            ring: history.ring as u32,
            stride: stride(spec.hidden_size) as u32,
        };
        vec![Lowered {
            choice: KernelChoice::Always(Kernel::ShortConv),
            grid: WorkGrid::PerRow(dims.width.div_ceil(64)),
            bindings: vec![
                (0, self.step.clone()),
                (2, self.projected.clone()),
                (3, self.vector(weights)),
                (4, self.layers[layer].whole()),
                (5, self.mixed.clone()),
            ],
            blocks: vec![(1, uniforms.add(&[dims]))],
        }]
    }

    /// Returns two kernels; the second is skipped if one workgroup of the first has all positions.
    pub(super) fn lower_attention(&self, layer: usize, sinks: VectorId, uniforms: &mut Uniforms) -> Vec<Lowered> {
        let heads = self.heads(layer);
        let dims = uniforms.add(&[heads]);
        let lowered = |choice, grid, bindings: Vec<(u32, &Slice)>| Lowered {
            choice,
            grid,
            bindings: bindings.into_iter().map(|(binding, slice)| (binding, slice.clone())).collect(),
            blocks: vec![(1, dims)],
        };
        let HeadDims { kv_heads, head_dim, window, .. } = heads;
        let span = AttentionSpan { kv_heads, group: heads.heads / kv_heads, head_dim, window };
        let kv_layer = self.attention(layer).and_then(|attention| attention.kv_layer);
        let cache = &self.layers[kv_layer.unwrap_or(layer)].whole();
        let (step, out, sinks) = (&self.step, &self.mixed, &self.vector(sinks));
        let [partial, norms] = &[&self.partial, &self.norms].map(Buffer::whole);
        let parts = vec![(0, step), (2, &self.query), (3, cache), (4, partial), (5, norms), (6, out), (7, sinks)];
        let joined = vec![(0, step), (2, partial), (3, norms), (4, out), (5, sinks)];
        vec![
            lowered(KernelChoice::Attention(self.blueprint.capacity.kv_dtype, head_dim), WorkGrid::Parts(span), parts),
            lowered(KernelChoice::Always(Kernel::AttentionMerge), WorkGrid::Joined(span), joined),
        ]
    }
}
