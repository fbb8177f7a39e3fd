//! Checkpoint tensors -> matrices and vectors on the GPU, piece by piece, in the order and the format that the kernels want.

use super::memory::stride;
use crate::error::{Error, Result, WeightsRule};
use crate::gpu::{Buffer, Gpu, Slice};
use crate::model::{MatrixPlan, Part, VectorPlan};
use crate::options::WeightDtype;
use crate::weights::{Dtype, Format, Row, Source, TOGETHER, Tensor, Weights, interleave, narrow, pack_row, widen};
use std::ops::Range;
use std::rc::Rc;

/// Bytes converted and written at a time.
const PORTION: u64 = 4 << 20;
/// Bytes written before waiting for the device.
const BACKLOG: u64 = 64 << 20;

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

/// A matrix on the GPU: its rows in order, split where they are stored otherwise, or a binding cannot hold them all.
pub struct Matrix {
    /// The rows.
    pub pieces: Vec<Piece>,
}

/// Some rows of a matrix.
pub struct Piece {
    /// [rows / 8, units, 8] of 16 bytes: see [`interleave`].
    pub buffer: Buffer,
    /// First row.
    pub first: usize,
    /// Number of rows.
    pub rows: usize,
    /// As what they are stored.
    pub dtype: Dtype,
    /// How each of them stands there.
    pub row: Row,
}

impl Piece {
    /// How kernels read it.
    pub fn format(&self) -> Format {
        Format::of(self.dtype)
    }
}

/// How the rows of a matrix will be stored: as their tensors are, or as the user wants them. Checks names and shapes.
pub fn sections<S: Source>(weights: &Weights<S>, plan: &MatrixPlan, wanted: WeightDtype) -> Result<Vec<Section>> {
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
pub fn check_vector<S: Source>(weights: &Weights<S>, plan: &VectorPlan) -> Result<()> {
    for part in &plan.layout.parts {
        weights.expect(&part.tensor, &[part.tensor_rows as u64])?;
    }
    Ok(())
}

impl Matrix {
    /// Allocates a matrix, in pieces no larger than a binding.
    pub fn allocate(gpu: &Gpu, plan: &MatrixPlan, sections: &[Section]) -> Result<Self> {
        let limit = gpu.info().max_binding_size.min(gpu.info().max_buffer_size);
        let mut pieces = Vec::new();
        for section in sections {
            let row = section.row(plan.cols);
            let row_bytes = row.bytes() as u64;
            let fitting = (limit / row_bytes) as usize / TOGETHER * TOGETHER;
            if fitting == 0 {
                let what = format!("{TOGETHER} rows of {}", plan.label);
                return Err(Error::OutOfGpuMemory { what, need: row_bytes * TOGETHER as u64, limit: Some(limit) });
            }
            for first in section.rows.clone().step_by(fitting) {
                let rows = fitting.min(section.rows.end - first);
                let buffer = gpu.buffer(&plan.label, rows.next_multiple_of(TOGETHER) as u64 * row_bytes)?;
                pieces.push(Piece { buffer, first, rows, dtype: section.dtype, row });
            }
        }
        Ok(Self { pieces })
    }

    /// Streams the tensors into it. `loaded` hears of every portion's bytes.
    pub async fn load<S: Source>(
        &self,
        gpu: &Gpu,
        weights: &Weights<S>,
        plan: &MatrixPlan,
        backlog: &mut Backlog,
        loaded: &mut dyn FnMut(u64),
    ) -> Result<()> {
        for piece in &self.pieces {
            let row_bytes = piece.row.bytes() as u64;
            let portion = match plan.layout.transposed {
                // No row can be read without the others.
                true => piece.rows,
                // On the way to another type they are f32.
                false => ((PORTION / row_bytes.max(plan.cols as u64 * 4)) as usize).max(1).next_multiple_of(TOGETHER),
            };
            for from in (0..piece.rows).step_by(portion) {
                let rows = piece.first + from..piece.first + piece.rows.min(from + portion);
                let bytes = piece.read(weights, plan, rows).await?;
                gpu.write(&piece.buffer, from as u64 * row_bytes, &bytes);
                backlog.add(gpu, bytes.len() as u64).await?;
                loaded(bytes.len() as u64);
            }
        }
        Ok(())
    }
}

impl Piece {
    /// Rows of the matrix as they stand on the GPU.
    async fn read<S: Source>(&self, weights: &Weights<S>, plan: &MatrixPlan, rows: Range<usize>) -> Result<Vec<u8>> {
        let row_bytes = self.row.bytes();
        let mut out = vec![0; rows.len() * row_bytes];
        stored_rows(weights, plan, self.dtype, rows, &mut |row, from| {
            pack_row(self.dtype, from, plan.cols, &mut out[row * row_bytes..][..row_bytes]);
        })
        .await?;
        Ok(interleave(&out, self.row))
    }
}

/// Reads some rows of a matrix. `put` hears of each, counted from the first one, and of its bytes in the type `dtype`.
pub(crate) async fn stored_rows<S: Source>(
    weights: &Weights<S>,
    plan: &MatrixPlan,
    dtype: Dtype,
    rows: Range<usize>,
    put: &mut dyn FnMut(usize, &[u8]),
) -> Result<()> {
    let sources: Vec<_> = rows.map(|row| plan.layout.source(row)).collect();
    let row_bytes = dtype.bytes(plan.cols as u64).unwrap_or(0) as usize;
    for (index, part) in plan.layout.parts.iter().enumerate() {
        let mine = || sources.iter().flatten().filter(|(part, _)| *part == index).map(|(_, row)| *row as u64);
        let (Some(first), Some(last)) = (mine().min(), mine().max()) else { continue };
        let bytes = stored(weights, part, plan, dtype, first..last + 1).await?;
        for (to, source) in sources.iter().enumerate() {
            if let Some((_, row)) = source.filter(|(part, _)| *part == index)
                && let Some(from) =
                    bytes.get((row - first as usize) * row_bytes..).and_then(|rest| rest.get(..row_bytes))
            {
                put(to, from);
            }
        }
    }
    Ok(())
}

/// Rows of a part in the type `wanted`.
async fn stored<S: Source>(
    weights: &Weights<S>,
    part: &Part,
    plan: &MatrixPlan,
    wanted: Dtype,
    rows: Range<u64>,
) -> Result<Vec<u8>> {
    let name = &part.tensor;
    let Some(Tensor { dtype, file, .. }) = weights.get(name) else { return weights.read_rows(name, rows).await };
    let bytes = if plan.layout.transposed {
        let all = weights.read_rows(name, 0..plan.cols as u64).await?;
        columns(&all, dtype.block().bytes, part.tensor_rows, rows.start as usize..rows.end as usize)
    } else {
        weights.read_rows(name, rows).await?
    };
    if *dtype == wanted {
        return Ok(bytes);
    }
    narrow(wanted, &widen(*dtype, &bytes)).ok_or_else(|| {
        let rule = WeightsRule::TooLargeFor { tensor: name.clone(), dtype: wanted.name() };
        Error::BadWeights { file: file.clone(), rule }
    })
}

/// Some columns of a matrix [rows, cols] whose elements have `size` bytes, as rows.
fn columns(bytes: &[u8], size: usize, cols: usize, wanted: Range<usize>) -> Vec<u8> {
    let column = |col| bytes.chunks_exact(size).skip(col).step_by(cols);
    wanted.flat_map(column).flatten().copied().collect()
}

/// Bytes written since the device was last waited for.
#[derive(Default)]
pub struct Backlog(u64);

impl Backlog {
    async fn add(&mut self, gpu: &Gpu, bytes: u64) -> Result<()> {
        self.0 += bytes;
        if self.0 >= BACKLOG {
            self.0 = 0;
            gpu.flush().await?;
        }
        Ok(())
    }
}

/// All vectors in one buffer, each zero-filled to its stride; slice i is vector i.
pub fn allocate_vectors(gpu: &Gpu, plans: &[VectorPlan]) -> Result<Vec<Slice>> {
    let mut end = 0;
    let mut places = Vec::new();
    for plan in plans {
        let (offset, size) = (end, stride(plan.len) as u64 * 4);
        end = (offset + size).next_multiple_of(256);
        places.push((offset, size));
    }
    let buffer = gpu.buffer("vectors", end)?;
    Ok(places.into_iter().map(|(offset, size)| buffer.slice(offset, size)).collect())
}

/// Streams the tensors into the vectors; without weights, ones.
pub async fn load_vectors<S: Source>(
    gpu: &Gpu,
    weights: Option<&Weights<S>>,
    plans: &[VectorPlan],
    vectors: &[Slice],
) -> Result<()> {
    for (plan, on_gpu) in plans.iter().zip(vectors) {
        let values = match weights {
            Some(weights) => vector(weights, plan).await?,
            None => vec![if plan.layout.parts.is_empty() { 0.0 } else { 1.0 }; plan.len],
        };
        on_gpu.write(gpu, bytemuck::cast_slice(&values));
    }
    Ok(())
}

pub(crate) async fn vector<S: Source>(weights: &Weights<S>, plan: &VectorPlan) -> Result<Vec<f32>> {
    let parts = &plan.layout.parts;
    let mut read: Vec<Rc<[f32]>> = Vec::new();
    for (index, part) in parts.iter().enumerate() {
        // Parts of one tensor follow each other.
        read.push(match read.last() {
            Some(last) if parts[index - 1].tensor == part.tensor => last.clone(),
            _ => weights.read_f32(&part.tensor).await?.into(),
        });
    }
    let value = |i| match plan.layout.source(i) {
        None => 0.0,
        // Their lengths were checked with the headers.
        Some((part, row)) => read[part][row] + plan.plus,
    };
    Ok((0..plan.len).map(value).collect())
}
