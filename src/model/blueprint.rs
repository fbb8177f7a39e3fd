//! What a model is made of before it is on a device: its plan, how its matrices are stored, the room it is given.

use super::{MatrixPlan, ModelSpec, Plan, VectorPlan};
use crate::error::{Error, Result, WeightsRule};
use crate::options::{ArithmeticChoice, KvDtype, WeightDtype};
use crate::weights::{Dtype, Format, Row, Source, TOGETHER, Tensor, Weights};
use serde::Serialize;
use std::ops::Range;

/// What a model is made of before it is on a device.
#[derive(Debug, Clone)]
pub struct Blueprint {
    /// The description.
    pub spec: ModelSpec,
    /// The kernel calls.
    pub plan: Plan,
    /// How the rows of each matrix are stored.
    pub sections: Vec<Vec<Section>>,
    /// The room it is given.
    pub capacity: Capacity,
    /// What products of quantised weights are to be computed with.
    pub arithmetic: ArithmeticChoice,
    /// True for a draft model: it uses the buffers of its target's sampler.
    pub shares_sampler: bool,
}

impl Blueprint {
    /// Plans a model that computes with floats; checks the name and shape of every tensor, from headers alone.
    ///
    /// # Errors
    /// [`Error::BadWeights`].
    pub fn new<S: Source>(
        spec: ModelSpec,
        weights: &Weights<S>,
        capacity: Capacity,
        wanted: WeightDtype,
    ) -> Result<Self> {
        let plan = Plan::new(&spec);
        let sections = plan.matrices.iter().map(|matrix| sections(weights, matrix, wanted)).collect::<Result<_>>()?;
        plan.vectors.iter().try_for_each(|vector| check_vector(weights, vector))?;
        Ok(Self { spec, plan, sections, capacity, arithmetic: ArithmeticChoice::F32, shares_sampler: false })
    }

    /// That of a model whose matrices would be stored as f16.
    pub fn without_weights(spec: ModelSpec, capacity: Capacity, wanted: WeightDtype) -> Self {
        let plan = Plan::new(&spec);
        let sections = plan.matrices.iter().map(|matrix| Section::all(matrix, Dtype::F16, wanted)).collect();
        Self { spec, plan, sections, capacity, arithmetic: ArithmeticChoice::F32, shares_sampler: false }
    }

    /// Bytes of the keys and values of so many positions.
    pub fn kv_bytes(&self, positions: usize) -> u64 {
        (2 * self.spec.kv_width() * self.spec.layers.len() * positions) as u64 * self.capacity.kv_dtype.size()
    }

    /// Whether products may be computed with integers.
    pub fn may_quantise(&self) -> bool {
        let mut sections = self.sections.iter().flatten();
        self.arithmetic != ArithmeticChoice::F32 && sections.any(|section| Format::of(section.dtype).multiplies_codes())
    }
}

/// What a model is given room for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Capacity {
    /// Positions that the KV cache can grow to.
    pub max_context: usize,
    /// Rows of a prefill chunk.
    pub prefill_chunk: usize,
    /// How the KV cache stores its elements.
    pub kv_dtype: KvDtype,
}

/// Bytes of a model on a device.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Memory {
    /// Matrices and vectors.
    pub weights: u64,
    /// The KV cache.
    pub kv: u64,
    /// Activations, logits, tables; on a GPU also the lists of the sampler, but not those for log-probabilities, which are made when a
    /// text first asks for them.
    pub scratch: u64,
    /// What a step of one token reads of the weights: all but an embedding table that is not the LM head too.
    pub read_per_token: u64,
}

impl Memory {
    /// All of it.
    pub fn total(&self) -> u64 {
        self.weights + self.kv + self.scratch
    }
}

/// Rows of a matrix that are stored alike.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Section {
    /// Which.
    pub rows: Range<usize>,
    /// As what.
    pub dtype: Dtype,
}

impl Section {
    /// The rows of a matrix whose only tensor has this type.
    pub fn all(plan: &MatrixPlan, dtype: Dtype, wanted: WeightDtype) -> Vec<Self> {
        vec![Self { rows: 0..plan.rows, dtype: as_wanted(dtype, plan.cols, wanted) }]
    }

    /// How a row of so many weights stands on the GPU.
    pub fn row(&self, cols: usize) -> Row {
        Format::of(self.dtype).row(cols)
    }

    /// Bytes of all of them on the GPU.
    pub fn bytes(&self, cols: usize) -> u64 {
        self.rows.len().next_multiple_of(TOGETHER) as u64 * self.row(cols).bytes() as u64
    }
}

/// As what the rows of a matrix will be stored: as their tensors are, or as the user wants them. Checks names and shapes.
fn sections<S: Source>(weights: &Weights<S>, plan: &MatrixPlan, wanted: WeightDtype) -> Result<Vec<Section>> {
    let mut dtypes = Vec::new();
    for part in &plan.layout.parts {
        let mut shape = [part.tensor_rows as u64, plan.cols as u64];
        if plan.layout.transposed {
            shape.reverse();
        }
        let Tensor { dtype, file, .. } = weights.expect(&part.tensor, &shape)?;
        if plan.layout.transposed && dtype.block().elements > 1 {
            let rule = WeightsRule::UnsupportedDtype { tensor: part.tensor.clone(), dtype: dtype.name().into() };
            return Err(Error::BadWeights { file: file.clone(), rule });
        }
        dtypes.push(as_wanted(*dtype, plan.cols, wanted));
    }
    let dtype = |row| plan.layout.source(row).and_then(|(part, _)| dtypes.get(part)).copied().unwrap_or(Dtype::F32);
    let mut sections: Vec<Section> = Vec::new();
    for row in 0..plan.rows {
        match sections.last_mut().filter(|section| section.dtype == dtype(row)) {
            Some(section) => section.rows.end += 1,
            None => sections.push(Section { rows: row..row + 1, dtype: dtype(row) }),
        }
    }
    // Pairs of rows belong together; where those differ, only f32 holds both.
    if sections.iter().any(|section| section.rows.start % 2 == 1) {
        return Ok(vec![Section { rows: 0..plan.rows, dtype: Dtype::F32 }]);
    }
    Ok(sections)
}

fn as_wanted(dtype: Dtype, cols: usize, wanted: WeightDtype) -> Dtype {
    let quantisable = matches!(dtype, Dtype::F32 | Dtype::F16 | Dtype::Bf16) && cols.is_multiple_of(32);
    match wanted {
        WeightDtype::F32 => Dtype::F32,
        WeightDtype::F16 => Dtype::F16,
        WeightDtype::Q8 if quantisable => Dtype::Q8_0,
        WeightDtype::Q4 if quantisable => Dtype::Q4_1,
        _ => dtype,
    }
}

/// Checks the names and shapes of a vector's tensors.
fn check_vector<S: Source>(weights: &Weights<S>, plan: &VectorPlan) -> Result<()> {
    for part in &plan.layout.parts {
        weights.expect(&part.tensor, &[part.tensor_rows as u64])?;
    }
    Ok(())
}
