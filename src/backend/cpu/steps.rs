//! The steps of a plan on the CPU.

use super::attention::{LayerHeads, bounded};
use super::delta::DeltaWeights;
use super::experts;
use super::kept::KeptRows;
use super::layer::{LayerState, norm_heads, take_heads};
use super::pass::CpuPass;
use super::pointwise::{activation, gate, gate_heads, gate_normed, norm_layer, norm_parts, norm_rms};
use super::rows::Rows;
use super::threads::DistributedMatrix;
use crate::model::{
    AttentionGate, HiddenRows, Input, MatrixId, Mixer, ModelSpec, NormKind, Op, Output, QkNorm, Table, VectorId,
};
use crate::options::Arithmetic;
use std::sync::Arc;

/// Matrices of a plan, each by expert.
pub type Matrices = Vec<Arc<Vec<DistributedMatrix>>>;

/// Weights of a model in memory, and what its layers keep.
pub(super) struct CpuMemory {
    /// A drafter shares some with its target, and instances on one machine all.
    pub matrices: Matrices,
    pub vectors: Vec<Vec<f32>>,
    /// Rotary tables [positions, rotary_dim / 2, 2] of (cos, sin).
    pub tables: Vec<Vec<f32>>,
    /// Attention of each layer; empty if it has none.
    pub heads: Vec<LayerHeads>,
    /// State of each layer.
    pub layers: Vec<LayerState>,
    /// Hidden states that the target keeps and its drafter reads; `None`: no other model reads them.
    pub kept: Option<KeptRows>,
    pub arithmetic: Arithmetic,
}

impl CpuMemory {
    /// Computes a step of the plan for rows that read `tokens` from `position` on.
    pub fn run_op(&mut self, op: &Op, spec: &ModelSpec, tokens: &[u32], position: usize, pass: &mut CpuPass) {
        let Self { matrices, vectors, tables, heads, layers, arithmetic, .. } = self;
        let vector = |id: VectorId| &vectors[id.0][..];
        let attention = |layer: usize| spec.layers[layer].attention();
        let source = |layer| attention(layer).and_then(|attention| attention.kv_layer).unwrap_or(layer);
        let table = |layer| {
            let rope = attention(layer).and_then(|attention| attention.rope);
            rope.map_or(&[][..], |rope| &tables[rope])
        };
        match *op {
            Op::Embed { table: MatrixId(matrix), of } => {
                let (scale, factor) = (spec.table_scale(of), of.factor());
                let rows = match of {
                    Table::Tokens if spec.embedding_norm => {
                        pass.normed = Rows::new(tokens.len(), spec.hidden_size);
                        &mut pass.normed
                    }
                    Table::Tokens | Table::Positions => &mut pass.residual,
                    Table::LayerInputs => &mut pass.layer_inputs,
                    Table::Joined => {
                        pass.joined[0] = Rows::new(tokens.len(), spec.kept_width());
                        &mut pass.joined[0]
                    }
                    Table::Markov => {
                        pass.markov = Rows::new(tokens.len(), spec.markov_rank());
                        &mut pass.markov
                    }
                };
                for (row, token) in tokens.iter().enumerate() {
                    let id = if of == Table::Positions { position + row } else { *token as usize };
                    let values = matrices[matrix][0].row(id);
                    let sums = rows.row_mut(row).iter_mut().zip(values);
                    sums.for_each(|(x, value)| *x = (*x + value * scale) * factor);
                }
            }
            Op::Norm { from, to, gain, bias, .. } => {
                let x = &*pass.hidden_rows(from);
                *pass.hidden_rows(to) = match (spec.norm, bias) {
                    (NormKind::Layer, Some(bias)) => norm_layer(x, vector(gain), vector(bias), spec.norm_eps),
                    _ => norm_rms(x, vector(gain), spec.norm_eps as f32),
                };
            }
            Op::Confide { weights, bias } => {
                let inputs = pass.normed.row(0).iter().chain(pass.markov.row(0));
                let logit: f32 = inputs.zip(vector(weights)).map(|(x, weight)| x * weight).sum();
                pass.confidence = Some(1.0 / (1.0 + libm::expf(-logit - vector(bias)[0])));
            }
            Op::KeepHidden { part } => {
                for row in 0..pass.residual.len() {
                    let from = pass.residual.row(row);
                    pass.kept.row_mut(row)[part * from.len()..][..from.len()].copy_from_slice(from);
                }
            }
            Op::TakeHidden if spec.shares_kv() => pass.joined[1] = std::mem::take(&mut pass.kept),
            Op::TakeHidden => pass.joined = [std::mem::take(&mut pass.kept), Rows::default()],
            Op::KeepProjected => pass.kept = std::mem::take(&mut pass.projected),
            Op::AddNorm { from, to, gain, factor } => {
                let normed = norm_rms(pass.hidden_rows(from), vector(gain), spec.norm_eps as f32);
                let sum = pass.hidden_rows(to);
                sum.add(&normed, 1.0);
                if let [factor] = vector(factor)
                    && *factor != 1.0
                {
                    sum.data_mut().iter_mut().for_each(|x| *x *= factor);
                }
            }
            Op::LayerInputNorm { gain } => {
                pass.layer_inputs = std::mem::take(&mut pass.projected);
                let width = pass.layer_inputs.width;
                norm_parts(&mut pass.layer_inputs, 0..width, vector(gain), spec.layer_input_eps());
            }
            Op::Matmul { input, matrix: MatrixId(matrix), output } => {
                let both;
                let x = match input {
                    Input::Joined => {
                        let [first, second] = &pass.joined;
                        both = first.joined(second);
                        &both
                    }
                    Input::Markov => &pass.markov,
                    Input::Normed => &pass.normed,
                    Input::Residual => &pass.residual,
                    Input::Mixed => &pass.mixed,
                    Input::Mlp => &pass.mlp,
                };
                let mut y = match &matrices[matrix][..] {
                    [matrix] => matrix.times(x, *arithmetic),
                    experts => experts::times(experts, x, &pass.choices, *arithmetic),
                };
                match output {
                    Output::Experts => pass.of_experts = y,
                    Output::Projected => pass.projected = y,
                    Output::Normed => pass.normed = y,
                    Output::Start => pass.residual = y,
                    Output::MoreLogits { .. } => pass.logits.add(&y, 1.0),
                    Output::Logits { bias } => {
                        y.add_to_each(vector(bias));
                        let cap = |x| spec.logit_cap.map_or(x, |cap| bounded(x, cap));
                        if spec.logit_scale != 1.0 || spec.logit_cap.is_some() {
                            y.data_mut().iter_mut().for_each(|logit| *logit = cap(*logit * spec.logit_scale));
                        }
                        pass.logits = y;
                    }
                    Output::Residual { bias } => {
                        y.add_to_each(vector(bias));
                        pass.residual.add(&y, spec.residual_scale);
                    }
                    Output::Rotary { layer, bias } => {
                        y.add_to_each(vector(bias));
                        pass.query = take_heads(layers, &heads[layer], source(layer), y, table(layer), &[]);
                    }
                    Output::Gate { bias, activation } => {
                        match matrices[matrix].len() {
                            1 => y.add_to_each(vector(bias)),
                            _ => experts::add_bias(&mut y, &pass.choices, vector(bias)),
                        }
                        pass.mlp = gate(&y, activation);
                    }
                    Output::Activate { bias, activation: function, input_of } => {
                        y.add_to_each(vector(bias));
                        activation(function, &mut y);
                        if let Some(layer) = input_of {
                            y.multiply_each(&pass.layer_inputs, layer * y.width);
                        }
                        pass.mlp = y;
                    }
                }
            }
            Op::QkNorm { layer, gain, bias } => {
                let mut qkv = std::mem::take(&mut pass.projected);
                qkv.add_to_each(vector(bias));
                if let Some(attention) = attention(layer) {
                    norm_heads(&mut qkv, attention, spec);
                }
                let (before, after) = match spec.qk_norm {
                    Some(QkNorm::RotatedHeads) => (&[][..], vector(gain)),
                    _ => (vector(gain), &[][..]),
                };
                qkv.scale_each(before);
                pass.query = take_heads(layers, &heads[layer], source(layer), qkv, table(layer), after);
            }
            Op::Attention { layer, sinks } => {
                if let LayerState::Kv(cache) = &layers[source(layer)] {
                    pass.mixed = cache.attend(&heads[layer], &pass.query, vector(sinks));
                }
            }
            Op::Route { bias, factors } => {
                if let Some(experts) = &spec.experts {
                    pass.choices = experts::route(&pass.projected, experts, vector(bias), vector(factors));
                }
            }
            Op::Combine { to, bias } => {
                experts::add_bias(&mut pass.of_experts, &pass.choices, vector(bias));
                let used = spec.experts.map_or(1, |experts| experts.used());
                let sums = experts::combine(&pass.of_experts, &pass.choices, used);
                match to {
                    HiddenRows::Residual => pass.residual.add(&sums, spec.residual_scale),
                    to => *pass.hidden_rows(to) = sums,
                }
            }
            Op::GateHeads { layer, gain } => match (&spec.layers[layer].mixer, gain) {
                (Mixer::DeltaNet(delta), Some(gain)) => {
                    let gates = pass.projected.columns(delta.input_width(), delta.value_width());
                    let groups = (!delta.replaces).then_some(delta.key_heads);
                    gate_normed(&mut pass.mixed, gates, vector(gain), groups, spec.norm_eps as f32);
                }
                (Mixer::Attention(attention), _) => {
                    let each = spec.attention_gate == Some(AttentionGate::Elements);
                    gate_heads(&mut pass.mixed, &pass.projected, if each { 1 } else { attention.head_dim });
                }
                _ => {}
            },
            Op::ShortConv { layer, taps } => {
                if let LayerState::History(history) = &mut layers[layer] {
                    pass.mixed = history.convolve(&pass.projected, vector(taps), position);
                }
            }
            Op::DeltaNet { layer, taps, conv_bias, rates, bias, skip } => {
                if let LayerState::Delta(states) = &mut layers[layer] {
                    let [taps, conv_bias, rates, bias, skip] = [taps, conv_bias, rates, bias, skip].map(vector);
                    let weights = DeltaWeights { taps, conv_bias, rates, bias, skip };
                    pass.mixed = states.advance(&pass.projected, &weights, position, pass.states);
                }
            }
        }
    }
}
