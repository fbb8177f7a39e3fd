//! Checkpoint tensors -> matrices and vectors on the GPU, piece by piece, in the order that the kernels want.

use super::memory::{chunks, stride};
use crate::error::{Error, Result};
use crate::gpu::{Buffer, Gpu, Slice};
use crate::model::{MatrixPlan, VectorPlan};
use crate::weights::{Dtype, Source, Weights, widen};
use std::ops::Range;
use std::rc::Rc;

/// Bytes converted and written at a time.
const PORTION: u64 = 4 << 20;
/// Bytes written before waiting for the device.
const BACKLOG: u64 = 64 << 20;

/// A matrix on the GPU.
pub struct Matrix {
    /// How its weights are stored.
    pub dtype: Dtype,
    /// 16-byte chunks per row; the last one is filled up with zeros.
    pub chunks: usize,
    /// Rows in order, split where a binding cannot hold them all.
    pub pieces: Vec<Piece>,
}

/// Some rows of a matrix.
pub struct Piece {
    /// [rows, chunks] of 16 bytes.
    pub buffer: Buffer,
    /// First row.
    pub first: usize,
    /// Number of rows.
    pub rows: usize,
}

/// The dtype that a matrix will have: that of its tensors, or f32 where they differ. Checks names and shapes.
pub fn matrix_dtype<S: Source>(weights: &Weights<S>, plan: &MatrixPlan) -> Result<Dtype> {
    let mut common = None;
    for part in &plan.layout.parts {
        let mut shape = [part.tensor_rows as u64, plan.cols as u64];
        if plan.layout.transposed {
            shape.reverse();
        }
        let dtype = weights.expect(&part.tensor, &shape)?.dtype;
        common = Some(if common.is_none_or(|common| common == dtype) { dtype } else { Dtype::F32 });
    }
    Ok(common.unwrap_or(Dtype::F32))
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
    pub fn allocate(gpu: &Gpu, plan: &MatrixPlan, dtype: Dtype) -> Result<Self> {
        let chunks = chunks(plan.cols, dtype);
        let row_bytes = chunks as u64 * 16;
        let limit = gpu.info().max_binding_size.min(gpu.info().max_buffer_size);
        // Pairs of rows belong together.
        let fitting = (limit / row_bytes) as usize / 2 * 2;
        if fitting == 0 {
            let what = format!("two rows of {}", plan.label);
            return Err(Error::OutOfGpuMemory { what, need: row_bytes * 2, limit: Some(limit) });
        }
        let mut pieces = Vec::new();
        for first in (0..plan.rows).step_by(fitting) {
            let rows = fitting.min(plan.rows - first);
            pieces.push(Piece { buffer: gpu.buffer(&plan.label, rows as u64 * row_bytes)?, first, rows });
        }
        Ok(Self { dtype, chunks, pieces })
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
        let row_bytes = self.chunks as u64 * 16;
        // Of a tensor that lies transposed, no row can be read without the others.
        let portion = if plan.layout.transposed { plan.rows } else { ((PORTION / row_bytes) as usize).max(1) };
        for piece in &self.pieces {
            for from in (0..piece.rows).step_by(portion) {
                let rows = piece.first + from..piece.first + piece.rows.min(from + portion);
                let bytes = self.rows(weights, plan, rows).await?;
                gpu.write(&piece.buffer, from as u64 * row_bytes, &bytes);
                backlog.add(gpu, bytes.len() as u64).await?;
                loaded(bytes.len() as u64);
            }
        }
        Ok(())
    }

    /// Rows of the matrix as they stand on the GPU.
    async fn rows<S: Source>(&self, weights: &Weights<S>, plan: &MatrixPlan, rows: Range<usize>) -> Result<Vec<u8>> {
        let sources: Vec<_> = rows.clone().map(|row| plan.layout.source(row)).collect();
        let row_bytes = self.chunks * 16;
        let mut out = vec![0; rows.len() * row_bytes];
        for (index, part) in plan.layout.parts.iter().enumerate() {
            let mine = || sources.iter().flatten().filter(|(part, _)| *part == index).map(|(_, row)| *row as u64);
            let (Some(first), Some(last)) = (mine().min(), mine().max()) else { continue };
            let dtype = weights.get(&part.tensor).map_or(self.dtype, |tensor| tensor.dtype);
            let mut bytes = if plan.layout.transposed {
                let all = weights.read_rows(&part.tensor, 0..plan.cols as u64).await?;
                columns(&all, dtype.block().bytes, part.tensor_rows, first as usize..last as usize + 1)
            } else {
                weights.read_rows(&part.tensor, first..last + 1).await?
            };
            if dtype != self.dtype {
                bytes = bytemuck::cast_slice(&widen(dtype, &bytes)).to_vec();
            }
            let source_bytes = plan.cols * self.dtype.block().bytes;
            for (to, source) in out.chunks_exact_mut(row_bytes).zip(&sources) {
                if let Some((_, row)) = source.filter(|(part, _)| *part == index) {
                    let at = (row - first as usize) * source_bytes;
                    if let (Some(to), Some(from)) = (to.get_mut(..source_bytes), bytes.get(at..at + source_bytes)) {
                        to.copy_from_slice(from);
                    }
                }
            }
        }
        Ok(out)
    }
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

async fn vector<S: Source>(weights: &Weights<S>, plan: &VectorPlan) -> Result<Vec<f32>> {
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
