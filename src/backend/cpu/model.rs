//! A model on the CPU: interprets its plan.

use super::attention::{Cache, LayerHeads};
use super::delta::DeltaStates;
use super::experts;
use super::kept::KeptRows;
use super::layer::{History, LayerState};
use super::pass::{ACTIVATIONS, CpuPass, PassInParts, activations, need_room};
use super::processor::Processor;
use super::rows::Rows;
use super::steps::{CpuMemory, Matrices};
use super::threads::{DistributedMatrix, Full};
use super::turn::Turn;
use crate::error::{Error, Result};
use crate::model::{
    self, AttentionSpec, Blueprint, DeltaHistory, HiddenStates, LayerSpec, MatrixPlan, Mixer, ModelSpec, Op,
    rotary_table, stored_rows, vector,
};
use crate::options::Arithmetic;
use crate::target::{MAX_DRAFT, StatePass};
use crate::weights::{Dtype, Weights};
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

impl CpuModel {
    /// Loads a model's weights; a drafter that reads the hidden states of `target` shares its embedding and head. `loaded` is called with the
    /// bytes of each portion.
    ///
    /// # Errors
    /// [`Error::BadWeights`], [`Error::OutOfGpuMemory`] if the model or a pass does not fit, and errors of the source.
    pub async fn load(
        processor: &Rc<Processor>,
        blueprint: &Blueprint,
        weights: &Weights,
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
        let mut matrices = Matrices::new();
        // Reserved before anything is read: a model that does not fit is not worth a download.
        for (index, (matrix, sections)) in plan.matrices.iter().zip(sections).enumerate() {
            // Matrices that are only looked up stay on this thread.
            let others =
                processor.others.as_ref().filter(|_| plan.multiplied().any(|multiplied| multiplied.0 == index));
            let shared = |target: &'_ Self| plan.shared(index, &target.blueprint.plan);
            let same = target.and_then(|target| target.memory.matrices.get(shared(target)?));
            if let Some(same) = same.or(processor.shared.get(index)) {
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
            #[allow(clippy::arc_with_non_send_sync, reason = "a page's threads share nothing")]
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
                        own.push(dtype, &bytes);
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

    /// Returns the matrices, for other instances of the model.
    #[cfg(not(target_arch = "wasm32"))]
    pub fn matrices(&self) -> Matrices {
        self.memory.matrices.clone()
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

    /// Returns the logits of [`Self::pass`], and lets other tasks run when `turn` is due. If the future is dropped, what is cached before
    /// `position` stays.
    pub(super) async fn forward(
        &mut self,
        tokens: &[u32],
        position: usize,
        states: StatePass,
        wanted: Range<usize>,
        turn: &mut Turn,
    ) -> Result<Rows> {
        let mut parts = self.begin_pass(tokens, position, states, wanted, usize::MAX)?;
        while !self.advance(&mut parts, Some(turn)) {
            turn.give().await;
        }
        Ok(parts.pass.logits)
    }

    /// Reads `tokens`, or the target's hidden states at their positions, for later passes.
    ///
    /// # Errors
    /// As [`Self::pass`].
    pub fn read_text(&mut self, tokens: &[u32], position: usize, states: StatePass) -> Result<()> {
        if self.blueprint.plan.context.is_empty() {
            return self.pass(tokens, position, states, 0..0, 0).map(drop);
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

    /// Corrects the logits of a row by the token before it, if there is a Markov head. Returns the drafter's confidence, if it has one.
    /// `normed`: hidden states after the final norm.
    pub(super) fn correct(&mut self, before: u32, normed: &Rows, row: usize, logits: &mut Rows) -> Option<f32> {
        let Self { processor, blueprint, memory } = self;
        if blueprint.plan.markov.is_empty() {
            return None;
        }
        let normed = normed.part(row..row + 1);
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

    /// Reads `tokens` after the first `position` cached positions and drops later ones. For the wanted rows also runs the first `steps`
    /// operations of the head.
    ///
    /// # Errors
    /// [`Error::OutOfGpuMemory`] if the positions or the rows do not fit.
    pub(super) fn pass(
        &mut self,
        tokens: &[u32],
        position: usize,
        states: StatePass,
        wanted: Range<usize>,
        steps: usize,
    ) -> Result<CpuPass> {
        let mut parts = self.begin_pass(tokens, position, states, wanted, steps)?;
        self.advance(&mut parts, None);
        Ok(parts.pass)
    }

    /// Prepares [`Self::pass`].
    fn begin_pass<'a>(
        &mut self,
        tokens: &'a [u32],
        position: usize,
        states: StatePass,
        wanted: Range<usize>,
        steps: usize,
    ) -> Result<PassInParts<'a>> {
        self.make_room(position, tokens.len(), wanted.len())?;
        let spec = &self.blueprint.spec;
        let residual = Rows::new(tokens.len(), spec.hidden_size);
        let mut pass = CpuPass { residual, states, ..CpuPass::default() };
        match (&self.memory.kept, &spec.hidden_states) {
            // It reads hidden states and then its own.
            (Some(kept), HiddenStates::Read { .. } | HiddenStates::Latest { .. }) => {
                pass.kept = kept.rows(position, tokens.len());
            }
            (_, HiddenStates::Kept { after }) if !after.is_empty() => {
                pass.kept = Rows::new(tokens.len(), spec.kept_width());
            }
            _ => {}
        }
        Ok(PassInParts { tokens, position, wanted, steps, done: 0, pass })
    }

    /// Continues a pass until `turn` is due. Returns true if the pass is complete.
    fn advance(&mut self, parts: &mut PassInParts<'_>, turn: Option<&Turn>) -> bool {
        let Self { processor, blueprint, memory } = self;
        let Blueprint { spec, plan, .. } = &*blueprint;
        let PassInParts { tokens, position, wanted, steps, done, pass } = parts;
        let (position, wanted) = (*position, wanted.clone());
        let kept = memory.kept.clone();
        processor.run_in_pool(|| {
            for op in plan.body.iter().chain(&plan.kept).skip(*done) {
                memory.run_op(op, spec, tokens, position, pass);
                *done += 1;
                if turn.is_some_and(Turn::is_due) {
                    return false;
                }
            }
            if let (Some(kept), HiddenStates::Kept { .. }) = (&kept, &spec.hidden_states) {
                kept.replace(position, &pass.kept);
            }
            if !wanted.is_empty() {
                pass.residual = pass.residual.part(wanted.clone());
                let head = plan.head.iter().take(*steps);
                head.for_each(|op| memory.run_op(op, spec, tokens, position, pass));
                if let (Some(kept), HiddenStates::Read { .. } | HiddenStates::Latest { .. }) =
                    (&kept, &spec.hidden_states)
                {
                    kept.replace(position + wanted.start + 1, &pass.kept);
                }
            } else {
                pass.normed = Rows::default();
            }
            true
        })
    }
}
