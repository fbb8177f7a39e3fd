//! Blueprint of a model before it is on a device: its plan, the storage of its matrices, and its capacity.

use super::{ConvHistory, DeltaHistory, HiddenStates, MatrixId, MatrixPlan, Mixer, ModelSpec, Plan, VectorPlan};
use crate::error::Result;
use crate::options::{ArithmeticChoice, KvDtype, WeightDtype};
use crate::weights::{Dtype, Format, Row, TOGETHER, Weights};
use serde::Serialize;
use std::iter;
use std::ops::Range;

/// Plan of a model, with the sizes and types from which a device builds it.
#[derive(Debug, Clone)]
pub struct Blueprint {
    /// Description of the model.
    pub spec: ModelSpec,
    /// Kernel calls.
    pub plan: Plan,
    /// Storage of the rows of each matrix.
    pub sections: Vec<Vec<Section>>,
    /// Sizes of cache and prefill chunks.
    pub capacity: Capacity,
    /// Requested arithmetic of products with quantised weights.
    pub arithmetic: ArithmeticChoice,
    /// True for a draft model, which uses the buffers of its target's sampler.
    pub shares_sampler: bool,
}

impl Blueprint {
    /// Plans a model that computes with floats. Checks the name and shape of every tensor, using only headers.
    pub fn new(spec: ModelSpec, weights: &Weights, capacity: Capacity, wanted: WeightDtype) -> Result<Self> {
        Self::new_for(None, spec, weights, capacity, wanted)
    }

    /// Plans a model, or a drafter that shares matrices of its `target`, as [`Self::new`].
    pub fn new_for(
        target: Option<&Self>,
        spec: ModelSpec,
        weights: &Weights,
        capacity: Capacity,
        wanted: WeightDtype,
    ) -> Result<Self> {
        let plan = Plan::new(&spec);
        let sections = plan.matrices.iter().enumerate().map(|(index, matrix)| {
            let shared = target.and_then(|target| Some(&target.sections[plan.shared(index, &target.plan)?]));
            shared.map_or_else(|| sections(weights, matrix, wanted), |shared| Ok(shared.clone()))
        });
        let sections = sections.collect::<Result<_>>()?;
        plan.vectors.iter().try_for_each(|vector| check_vector(weights, vector))?;
        Ok(Self { spec, plan, sections, capacity, arithmetic: ArithmeticChoice::F32, shares_sampler: false })
    }

    /// Returns the MTP layer of the model's checkpoint, as a drafter for which the model then keeps hidden states; `None`: it has none.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn take_mtp(&mut self, weights: &Weights, wanted: WeightDtype) -> Result<Option<Self>> {
        let Some(spec) = self.spec.mtp(|tensor| weights.contains(tensor)) else { return Ok(None) };
        let layer = Self::new_for(Some(self), spec, weights, self.capacity, wanted)?;
        self.keep_hidden(Vec::new());
        Ok(Some(Self { arithmetic: self.arithmetic, shares_sampler: true, ..layer }))
    }

    /// Lets the model keep its hidden states after some layers for a drafter, or if there are none, after the final norm.
    pub fn keep_hidden(&mut self, after: Vec<usize>) {
        self.spec.hidden_states = HiddenStates::Kept { after };
        self.plan = Plan::new(&self.spec);
    }

    /// Plans a model as if its matrices were stored as f16.
    pub fn without_weights(spec: ModelSpec, capacity: Capacity, wanted: WeightDtype) -> Self {
        let plan = Plan::new(&spec);
        let sections = plan.matrices.iter().map(|matrix| Section::all(matrix, Dtype::F16, wanted)).collect();
        Self { spec, plan, sections, capacity, arithmetic: ArithmeticChoice::F32, shares_sampler: false }
    }

    /// Returns the bytes that each layer keeps of `positions` positions, if a backend stores keys and values of `stored` positions.
    pub fn layer_bytes(&self, positions: usize, stored: usize) -> impl Iterator<Item = u64> {
        self.spec.layers.iter().map(move |layer| match &layer.mixer {
            Mixer::Attention(attention) => (2 * attention.kv_width() * stored) as u64 * self.capacity.kv_dtype.size(),
            Mixer::ShortConv { taps } => 4 * self.history(*taps).len(positions) as u64,
            Mixer::DeltaNet(delta) => 4 * DeltaHistory { spec: *delta }.numbers() as u64,
        })
    }

    /// Returns the bytes of each layer's state, as parts of it, that a copy of a text needs.
    pub fn copied(&self, positions: usize, stored: usize) -> impl Iterator<Item = Vec<Range<u64>>> {
        let layers = self.layer_bytes(positions, stored).zip(&self.spec.layers);
        layers.map(move |(bytes, layer)| match layer.delta_net() {
            Some(delta) => {
                let parts = DeltaHistory { spec: *delta }.copied(positions);
                parts.map(|part| 4 * part.start as u64..4 * part.end as u64).into()
            }
            None => iter::once(0..bytes).collect(),
        })
    }

    /// Returns the bytes of a copy of a text.
    pub fn copied_bytes(&self, positions: usize, stored: usize) -> u64 {
        self.copied(positions, stored).flatten().map(|part| part.end - part.start).sum()
    }

    /// Returns the bytes of the keys, values and recurrent state of `positions` positions.
    pub fn kv_bytes(&self, positions: usize) -> u64 {
        self.layer_bytes(positions, positions).sum()
    }

    /// Returns the bytes that a step of one token reads, of matrices that have `bytes` each: of experts, as many as a row uses.
    pub fn read_per_token(&self, bytes: &[u64]) -> u64 {
        let used = self.spec.experts.map_or(1, |experts| experts.used() as u64);
        let read = |matrix: MatrixId| match self.plan.matrices[matrix.0].experts as u64 {
            1 => bytes[matrix.0],
            experts => bytes[matrix.0] / experts * used,
        };
        self.plan.multiplied().map(read).sum()
    }

    /// Returns the number of latest positions whose hidden states are kept for a drafter: twice those of a pass, so that the drafter need not
    /// read after each.
    pub fn kept_positions(&self) -> usize {
        if self.spec.kept_width() == 0 { 0 } else { 2 * self.capacity.prefill_chunk.max(32) }
    }

    /// Returns the layout of the history of a short convolution.
    pub fn history(&self, taps: usize) -> ConvHistory {
        ConvHistory::new(self.spec.hidden_size, taps, self.capacity.prefill_chunk.max(32))
    }

    /// Returns true if products may be computed with integers.
    pub fn may_quantise(&self) -> bool {
        let mut sections = self.sections.iter().flatten();
        self.arithmetic != ArithmeticChoice::F32
            && sections.any(|section| Format::of_dtype(section.dtype).multiplies_codes())
    }
}

/// Returns the places of parts if they are put one after another.
pub fn adjacent(parts: &[Range<u64>]) -> Vec<Range<u64>> {
    let mut end = 0;
    let place = |part: &Range<u64>| {
        let start = end;
        end += part.end - part.start;
        start..end
    };
    parts.iter().map(place).collect()
}

/// Capacity of a model's cache and prefill chunks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Capacity {
    /// Positions that the KV cache can grow to.
    pub max_context: usize,
    /// Rows of a prefill chunk.
    pub prefill_chunk: usize,
    /// Element type of the KV cache.
    pub kv_dtype: KvDtype,
}

/// Bytes of a model on a device.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Memory {
    /// Matrices and vectors.
    pub weights: u64,
    /// KV cache.
    pub kv: u64,
    /// Activations, logits and tables. On a GPU also the lists of the sampler, except those for log-probabilities, which are created when
    /// first requested.
    pub scratch: u64,
    /// Weights that a step of one token reads: all but an embedding table that is not also the LM head.
    pub read_per_token: u64,
}

impl Memory {
    /// Returns the sum of the parts.
    pub fn total(&self) -> u64 {
        self.weights + self.kv + self.scratch
    }
}

/// Rows of a matrix with the same storage type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Section {
    /// Range of rows.
    pub rows: Range<usize>,
    /// Storage type.
    pub dtype: Dtype,
}

impl Section {
    /// Returns the section of a matrix whose only tensor has type `dtype`.
    pub fn all(plan: &MatrixPlan, dtype: Dtype, wanted: WeightDtype) -> Vec<Self> {
        vec![Self { rows: 0..plan.rows, dtype: as_wanted(dtype, plan, wanted) }]
    }

    /// Returns the layout on the GPU of a row of `cols` weights.
    pub fn row(&self, cols: usize) -> Row {
        Format::of_dtype(self.dtype).row(cols)
    }

    /// Returns the bytes of all rows on the GPU.
    pub fn bytes(&self, cols: usize) -> u64 {
        self.rows.len().next_multiple_of(TOGETHER) as u64 * self.row(cols).bytes() as u64
    }
}

/// Returns the sections of a matrix: rows keep the type of their tensors, or get the one the user requested. Checks names and shapes.
fn sections(weights: &Weights, plan: &MatrixPlan, wanted: WeightDtype) -> Result<Vec<Section>> {
    let mut dtypes = Vec::new();
    for part in &plan.layout.parts {
        let tensor = weights.get(&part.tensor);
        let mut shape = vec![(part.tensor_rows / part.experts) as u64, plan.cols as u64];
        if tensor.is_some_and(|tensor| plan.layout.is_transposed(tensor)) {
            shape.reverse();
        }
        if part.experts > 1 {
            shape.insert(0, part.experts as u64);
        }
        // GGUF files store a matrix of one row as a vector.
        if part.tensor_rows == 1 && tensor.is_some_and(|tensor| tensor.shape.len() == 1) {
            shape.remove(0);
        }
        dtypes.push(as_wanted(weights.expect(&part.tensor, &shape)?.dtype, plan, wanted));
    }
    let mut sections: Vec<Section> = Vec::new();
    for (row, source) in plan.layout.sources(0..plan.rows).enumerate() {
        let dtype = source.and_then(|(part, _)| dtypes.get(part)).copied().unwrap_or(Dtype::F32);
        match sections.last_mut().filter(|section| section.dtype == dtype) {
            Some(section) => section.rows.end += 1,
            None => sections.push(Section { rows: row..row + 1, dtype }),
        }
    }
    // Rows are stored in pairs. If the types in a pair differ, only f32 holds both.
    if sections.iter().any(|section| section.rows.start % 2 == 1) {
        return Ok(vec![Section { rows: 0..plan.rows, dtype: Dtype::F32 }]);
    }
    Ok(sections)
}

fn as_wanted(dtype: Dtype, plan: &MatrixPlan, wanted: WeightDtype) -> Dtype {
    let quantisable = matches!(dtype, Dtype::F32 | Dtype::F16 | Dtype::Bf16) && plan.cols.is_multiple_of(32);
    match wanted {
        _ if plan.is_router => dtype,
        WeightDtype::F32 => Dtype::F32,
        WeightDtype::F16 => Dtype::F16,
        WeightDtype::Q8 if quantisable => Dtype::Q8_0,
        WeightDtype::Q4 if quantisable => Dtype::Q4_1,
        _ => dtype,
    }
}

/// Checks the names and shapes of a vector's tensors.
fn check_vector(weights: &Weights, plan: &VectorPlan) -> Result<()> {
    for part in &plan.layout.parts {
        let (rows, cols) = ((part.tensor_rows / plan.cols) as u64, plan.cols as u64);
        let tensor = weights.get(&part.tensor);
        if part.experts > 1 {
            weights.expect(&part.tensor, &[part.experts as u64, rows / part.experts as u64])?;
        } else if plan.cols == 1 {
            // llama.cpp stores some vectors of Mamba-2 as [heads, 1] or [groups, width].
            if tensor.is_none_or(|tensor| tensor.shape.len() != 2 || tensor.shape.iter().product::<u64>() != rows) {
                weights.expect(&part.tensor, &[rows])?;
            }
        } else if tensor.is_none_or(|tensor| tensor.shape != [rows, 1, cols]) {
            weights.expect(&part.tensor, &[rows, cols])?;
        }
    }
    Ok(())
}
