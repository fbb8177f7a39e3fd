//! A model on the CPU: interprets its plan.

use super::attention::{Cache, LayerHeads, bounded};
use super::delta::{DeltaStates, DeltaWeights};
use super::experts;
use super::kept::KeptRows;
use super::layer::{History, LayerState, norm_heads, take_heads};
use super::pass::{ACTIVATIONS, CpuPass, activations, need_room};
use super::pointwise::{activation, gate, gate_heads, gate_normed, norm_layer, norm_parts, norm_rms};
use super::processor::Processor;
use super::rows::Rows;
use super::threads::{DistributedMatrix, Full};
use crate::error::{Error, Result};
use crate::model::{
    self, AttentionGate, AttentionSpec, Blueprint, DeltaHistory, HiddenRows, HiddenStates, Input, LayerSpec, MatrixId,
    MatrixPlan, Mixer, ModelSpec, NormKind, Op, Output, QkNorm, Table, VectorId, rotary_table, stored_rows, vector,
};
use crate::options::Arithmetic;
use crate::target::{MAX_DRAFT, StatePass};
use crate::weights::{Dtype, Source, Weights};
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

/// Bytes of a matrix that are read at a time.
const PORTION: usize = 4 << 20;

/// Model in the CPU's memory. The KV cache grows with the text.
pub struct CpuModel {
    processor: Rc<Processor>,
    blueprint: Blueprint,
    memory: CpuMemory,
}

struct CpuMemory {
    /// One per matrix of the plan, or one for each of its experts. A drafter shares some with its target.
    matrices: Vec<Arc<Vec<DistributedMatrix>>>,
    vectors: Vec<Vec<f32>>,
    /// Rotary tables [positions, rotary_dim / 2, 2] of (cos, sin).
    tables: Vec<Vec<f32>>,
    /// Attention of each layer; empty if it has none.
    heads: Vec<LayerHeads>,
    /// State of each layer.
    layers: Vec<LayerState>,
    /// Hidden states that the target keeps and its drafter reads; `None`: no other model reads them.
    kept: Option<KeptRows>,
    arithmetic: Arithmetic,
}

impl CpuModel {
    /// Loads a model's weights; a drafter that reads the hidden states of `target` shares its embedding and head. `loaded` is called with the
    /// bytes of each portion.
    ///
    /// # Errors
    /// [`Error::BadWeights`], [`Error::OutOfGpuMemory`] if the model or a pass does not fit, and errors of the source.
    pub async fn load<S: Source>(
        processor: &Rc<Processor>,
        blueprint: &Blueprint,
        weights: &Weights<S>,
        target: Option<&Self>,
        loaded: &mut dyn FnMut(u64),
    ) -> Result<Self> {
        let Blueprint { spec, plan, sections, capacity, .. } = blueprint;
        let angles = spec.ropes.iter().map(|rope| rope.tables() * rope.rotary_dim * capacity.max_context).sum();
        need_room("the rotary tables", angles)?;
        let tables = spec.ropes.iter().map(|rope| rotary_table(rope, capacity.max_context)).collect();
        let row_bytes =
            |matrix: &MatrixPlan, dtype: Dtype| dtype.bytes(matrix.cols as u64).unwrap_or(0).max(1) as usize;
        let all = plan.matrices.iter().zip(sections).flat_map(|(matrix, all)| all.iter().map(move |one| (matrix, one)));
        let need =
            all.map(|(matrix, section)| section.rows.len() as u64 * row_bytes(matrix, section.dtype) as u64).sum();
        let full = |_: Full| Error::OutOfGpuMemory { what: "the weights".into(), need, limit: None };
        let mut matrices = Vec::new();
        // Reserved before anything is read: a model that does not fit is not worth a download.
        for (index, (matrix, sections)) in plan.matrices.iter().zip(sections).enumerate() {
            #[cfg(not(target_arch = "wasm32"))]
            let others = None;
            #[cfg(target_arch = "wasm32")]
            let others = processor.others.as_ref();
            // Matrices that are only looked up stay on this thread.
            let others = others.filter(|_| plan.multiplied().any(|multiplied| multiplied.0 == index));
            let shared = |target: &'_ Self| plan.shared(index, &target.blueprint.plan);
            if let Some(same) = target.and_then(|target| target.memory.matrices.get(shared(target)?)) {
                matrices.push(same.clone());
                continue;
            }
            let mut each = Vec::new();
            for expert in 0..matrix.experts {
                let mut own = DistributedMatrix::new(matrix.cols, matrix.outs(), others);
                for (dtype, rows) in experts::rows_of(expert, matrix, sections) {
                    own.reserve(dtype, rows.len()).map_err(full)?;
                }
                each.push(own);
            }
            matrices.push(Arc::new(each));
        }
        need_room(ACTIVATIONS, activations(blueprint, capacity.prefill_chunk, MAX_DRAFT + 1, capacity.max_context))?;
        for ((matrix, sections), read) in plan.matrices.iter().zip(sections).zip(&mut matrices) {
            // A shared matrix is loaded already.
            for (expert, own) in Arc::get_mut(read).into_iter().flatten().enumerate() {
                for (dtype, rows) in experts::rows_of(expert, matrix, sections) {
                    let row_bytes = row_bytes(matrix, dtype);
                    let portion = if matrix.layout.transposed { matrix.outs() } else { (PORTION / row_bytes).max(1) };
                    for first in rows.clone().step_by(portion) {
                        let rows = first..rows.end.min(first + portion);
                        let mut bytes = vec![0; rows.len() * row_bytes];
                        stored_rows(weights, matrix, dtype, rows, &mut |row, from| {
                            bytes[row * row_bytes..][..row_bytes].copy_from_slice(from);
                        })
                        .await?;
                        own.push(dtype, &bytes).map_err(full)?;
                        loaded(bytes.len() as u64);
                    }
                }
            }
        }
        let mut vectors = Vec::new();
        for plan in &plan.vectors {
            // A missing bias stays empty and is not added, instead of zeros.
            let is_missing = plan.layout.parts.is_empty() && plan.elements.from_stored(0.0) == 0.0;
            vectors.push(if is_missing { Vec::new() } else { vector(weights, plan).await? });
        }
        let heads = |attention: &AttentionSpec| {
            let rope = attention.rope.map(|rope| &spec.ropes[rope]);
            LayerHeads {
                heads: attention.heads,
                kv_heads: attention.kv_heads,
                head_dim: attention.head_dim,
                rotary: rope.map_or(0, |rope| rope.rotary_dim),
                window: attention.window.unwrap_or(usize::MAX),
                has_own_kv: attention.kv_layer.is_none(),
                ahead: usize::from(spec.shares_kv()),
                sees_pass: spec.at_once.is_some_and(|at_once| at_once.is_block),
                scale: spec.attention_scale,
                cap: spec.attention_cap,
                q_table: rope.map_or(0, |rope| (rope.tables() - 1) * capacity.max_context * rope.rotary_dim),
            }
        };
        let states = blueprint.spec.layers.iter().filter_map(LayerSpec::delta_net);
        need_room("the recurrent states", states.map(|delta| DeltaHistory { spec: *delta }.numbers()).sum())?;
        let state = |layer: &LayerSpec| match &layer.mixer {
            Mixer::Attention(attention) if attention.kv_layer.is_some() => LayerState::Shared,
            Mixer::Attention(attention) => {
                LayerState::Kv(Cache::new(attention.kv_heads, attention.head_dim, capacity.kv_dtype))
            }
            Mixer::ShortConv { taps } => LayerState::History(History::new(blueprint.history(*taps))),
            Mixer::DeltaNet(delta) => LayerState::Delta(DeltaStates::new(*delta, spec.names().delta.tiled)),
        };
        let layers = spec.layers.iter().map(state).collect();
        let heads = spec.layers.iter().map(|layer| layer.attention().map(heads).unwrap_or_default()).collect();
        let kept = match spec.hidden_states {
            HiddenStates::Unkept => None,
            HiddenStates::Kept { .. } => {
                let width = spec.kept_width();
                need_room("the hidden states", blueprint.kept_positions() * width)?;
                Some(KeptRows::new(blueprint.kept_positions(), width))
            }
            HiddenStates::Read { .. } | HiddenStates::Context { .. } | HiddenStates::Latest { .. } => {
                target.and_then(|target| target.memory.kept.clone())
            }
        };
        // Int8 was faster in measurements with AVX2 and simd128.
        let arithmetic = if blueprint.may_quantise() { Arithmetic::Int8 } else { Arithmetic::F32 };
        Ok(Self {
            processor: processor.clone(),
            blueprint: blueprint.clone(),
            memory: CpuMemory { matrices, vectors, tables, heads, layers, kept, arithmetic },
        })
    }

    /// Returns the model's device.
    pub fn processor(&self) -> &Rc<Processor> {
        &self.processor
    }

    /// Returns the model's blueprint.
    pub fn blueprint(&self) -> &Blueprint {
        &self.blueprint
    }

    /// Returns the model's spec.
    pub fn spec(&self) -> &ModelSpec {
        &self.blueprint.spec
    }

    /// Returns the arithmetic for quantised weights.
    pub fn arithmetic(&self) -> Arithmetic {
        self.memory.arithmetic
    }

    /// Returns what each layer keeps of the text.
    pub(super) fn layers(&mut self) -> &mut Vec<LayerState> {
        &mut self.memory.layers
    }

    /// Takes the first `positions` positions of the target's keys and values, if the drafter attends to them.
    pub(super) fn take_kv(&mut self, target: &mut Self, positions: usize) {
        if self.spec().shares_kv() {
            target.memory.layers.iter_mut().for_each(|layer| layer.truncate(positions));
            self.give_kv(target);
        }
    }

    /// Gives back what [`Self::take_kv`] took.
    pub(super) fn give_kv(&mut self, target: &mut Self) {
        if self.spec().shares_kv() {
            std::mem::swap(&mut self.memory.layers, &mut target.memory.layers);
        }
    }

    /// Returns the model's bytes with a full KV cache. Activations of a pass are not included; they are freed after it.
    pub fn memory(&self) -> model::Memory {
        let Blueprint { capacity, .. } = &self.blueprint;
        let floats = |all: &[Vec<f32>]| all.iter().map(|vector| 4 * vector.len() as u64).sum::<u64>();
        let bytes = |experts: &Arc<Vec<DistributedMatrix>>| experts.iter().map(DistributedMatrix::bytes).sum();
        let bytes: Vec<u64> = self.memory.matrices.iter().map(bytes).collect();
        let vectors = floats(&self.memory.vectors);
        model::Memory {
            weights: self.blueprint.plan.own_bytes(&bytes) + vectors,
            kv: self.blueprint.kv_bytes(capacity.max_context),
            scratch: floats(&self.memory.tables),
            read_per_token: self.blueprint.read_per_token(&bytes) + vectors,
        }
    }

    /// Reads `tokens` after the first `position` cached positions and drops later ones. Returns the logits after the wanted tokens
    /// [wanted, vocab].
    ///
    /// # Errors
    /// [`Error::OutOfGpuMemory`] if the positions or the rows do not fit.
    pub fn forward(
        &mut self,
        tokens: &[u32],
        position: usize,
        states: StatePass,
        wanted: Range<usize>,
    ) -> Result<Rows> {
        Ok(self.pass(tokens, position, states, wanted, usize::MAX)?.logits)
    }

    /// Does the same, and also returns the hidden states after the final norm [wanted, hidden].
    pub(super) fn forward_with_hidden(
        &mut self,
        tokens: &[u32],
        position: usize,
        states: StatePass,
        wanted: Range<usize>,
    ) -> Result<[Rows; 2]> {
        let pass = self.pass(tokens, position, states, wanted, usize::MAX)?;
        Ok([pass.logits, pass.normed])
    }

    /// Reads `tokens`, or the target's hidden states at their positions, for later passes.
    ///
    /// # Errors
    /// As [`Self::forward`].
    pub fn read_text(&mut self, tokens: &[u32], position: usize, states: StatePass) -> Result<()> {
        if self.blueprint.plan.context.is_empty() {
            return self.forward(tokens, position, states, 0..0).map(drop);
        }
        if tokens.is_empty() {
            return Ok(());
        }
        self.make_room(position, tokens.len(), 0)?;
        let Self { processor, blueprint, memory } = self;
        let Some(kept) = &memory.kept else { return Ok(()) };
        let mut pass = CpuPass { kept: kept.rows(position, tokens.len()), states, ..CpuPass::default() };
        processor.run_in_pool(|| {
            for op in &blueprint.plan.context {
                memory.run_op(op, &blueprint.spec, tokens, position, &mut pass);
            }
        });
        Ok(())
    }

    /// Drops what is cached from `position` on, and makes room for a pass.
    fn make_room(&mut self, position: usize, rows: usize, wanted: usize) -> Result<()> {
        let Self { blueprint, memory, .. } = self;
        let positions = position + rows;
        // Keys and values of the target stay.
        let own = if blueprint.spec.shares_kv() { &mut [][..] } else { &mut memory.layers };
        for layer in own {
            layer.truncate(position);
            layer.reserve(positions).map_err(|_| Error::OutOfGpuMemory {
                what: "the KV cache".into(),
                need: blueprint.kv_bytes(positions),
                limit: None,
            })?;
        }
        need_room(ACTIVATIONS, activations(blueprint, rows, wanted, positions))
    }

    /// Does the same, but returns the hidden states after the final norm [wanted, hidden].
    pub fn hidden(&mut self, tokens: &[u32], position: usize, states: StatePass, wanted: Range<usize>) -> Result<Rows> {
        Ok(self.pass(tokens, position, states, wanted, 1)?.normed)
    }

    /// Corrects the logits of a row by the token before it, with the hidden state after the final norm. Returns the drafter's confidence, if
    /// it has one.
    pub(super) fn correct(&mut self, before: u32, normed: Rows, logits: &mut Rows) -> Option<f32> {
        let Self { processor, blueprint, memory } = self;
        let mut pass = CpuPass { normed, logits: std::mem::take(logits), ..CpuPass::default() };
        processor.run_in_pool(|| {
            for op in &blueprint.plan.markov {
                memory.run_op(op, &blueprint.spec, &[before], 0, &mut pass);
            }
        });
        *logits = pass.logits;
        pass.confidence
    }

    /// Saves recurrent states for a copy of the first `positions` cached positions.
    pub fn settle(&mut self, positions: usize, states: StatePass) {
        let position = positions - 1;
        let Self { processor, blueprint, memory } = self;
        let mut pass = CpuPass { states, ..CpuPass::default() };
        processor.run_in_pool(|| {
            for op in blueprint.plan.body.iter().filter(|op| matches!(op, Op::DeltaNet { .. })) {
                memory.run_op(op, &blueprint.spec, &[], position, &mut pass);
            }
        });
    }

    /// Runs all layers and, for the wanted rows, the first `steps` operations of the head.
    fn pass(
        &mut self,
        tokens: &[u32],
        position: usize,
        states: StatePass,
        wanted: Range<usize>,
        steps: usize,
    ) -> Result<CpuPass> {
        self.make_room(position, tokens.len(), wanted.len())?;
        let Self { processor, blueprint, memory } = self;
        let Blueprint { spec, plan, .. } = &*blueprint;
        let residual = Rows::new(tokens.len(), spec.hidden_size);
        let mut pass = CpuPass { residual, states, ..CpuPass::default() };
        let kept = memory.kept.clone();
        // It reads hidden states and then its own.
        let is_mtp = matches!(spec.hidden_states, HiddenStates::Read { .. } | HiddenStates::Latest { .. });
        match &kept {
            Some(kept) if is_mtp => pass.kept = kept.rows(position, tokens.len()),
            _ => pass.kept = Rows::new(tokens.len(), spec.kept_width()),
        }
        Ok(processor.run_in_pool(|| {
            for op in plan.body.iter().chain(&plan.kept) {
                memory.run_op(op, spec, tokens, position, &mut pass);
            }
            if let (Some(kept), HiddenStates::Kept { .. }) = (&kept, &spec.hidden_states) {
                kept.replace(position, &pass.kept);
            }
            if !wanted.is_empty() {
                pass.residual = pass.residual.part(wanted.clone());
                let head = plan.head.iter().take(steps);
                head.for_each(|op| memory.run_op(op, spec, tokens, position, &mut pass));
                if let (Some(kept), true) = (&kept, is_mtp) {
                    kept.replace(position + wanted.start + 1, &pass.kept);
                }
            } else {
                pass.normed = Rows::default();
            }
            pass
        }))
    }
}

impl CpuMemory {
    fn run_op(&mut self, op: &Op, spec: &ModelSpec, tokens: &[u32], position: usize, pass: &mut CpuPass) {
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
