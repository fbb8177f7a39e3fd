//! Uploads checkpoint tensors as matrices and vectors, piece by piece, in the order and format of the kernels.

use super::memory::stride;
use crate::error::{Error, Result};
use crate::gpu::{Buffer, Gpu, Kernel, Slice};
use crate::model::{MatrixPlan, Section, VectorPlan, stored_rows, vector};
use crate::weights::{Dtype, Format, Row, TOGETHER, Weights, interleave, pack_row};
use std::ops::Range;

/// Bytes converted and written at a time.
const PORTION: u64 = 4 << 20;
/// Bytes written before waiting for the device.
const BACKLOG: u64 = 64 << 20;

/// A matrix on the GPU, which models may share: its rows in order, split by stored type and by the size limit of a binding.
#[derive(Clone)]
pub struct GpuMatrix {
    /// Pieces in row order.
    pub pieces: Vec<MatrixPiece>,
}

/// Consecutive rows of a matrix.
#[derive(Clone)]
pub struct MatrixPiece {
    /// [rows / 16, units, 16], each of 16 bytes: see [`interleave`].
    pub buffer: Buffer,
    /// First row.
    pub first: usize,
    /// Number of rows.
    pub rows: usize,
    /// Stored type.
    pub dtype: Dtype,
    /// Layout of a row.
    pub row: Row,
}

impl MatrixPiece {
    /// Returns the format that kernels read.
    pub fn format(&self) -> Format {
        Format::of_dtype(self.dtype)
    }
}

impl GpuMatrix {
    /// Allocates a matrix, in pieces no larger than a binding.
    pub fn allocate(gpu: &Gpu, plan: &MatrixPlan, sections: &[Section]) -> Result<Self> {
        let limit = gpu.info().max_binding_size.min(gpu.info().max_buffer_size);
        let mut pieces = Vec::new();
        for section in sections {
            let row = section.row(plan.cols);
            let row_bytes = row.bytes() as u64;
            // An expert is in one piece.
            let together = if plan.experts > 1 { plan.outs() } else { TOGETHER };
            let fitting = (limit / row_bytes) as usize / together * together;
            if fitting == 0 {
                let what = format!("{together} rows of {}", plan.label);
                return Err(Error::OutOfGpuMemory { what, need: row_bytes * together as u64, limit: Some(limit) });
            }
            for first in section.rows.clone().step_by(fitting) {
                let rows = fitting.min(section.rows.end - first);
                let buffer = gpu.buffer(&plan.label, rows.next_multiple_of(TOGETHER) as u64 * row_bytes)?;
                pieces.push(MatrixPiece { buffer, first, rows, dtype: section.dtype, row });
            }
        }
        Ok(Self { pieces })
    }

    /// Streams the tensors into the matrix. Calls `loaded` with the bytes of each portion.
    pub async fn load(
        &self,
        gpu: &Gpu,
        weights: &Weights,
        plan: &MatrixPlan,
        backlog: &mut Backlog,
        loaded: &mut dyn FnMut(u64),
    ) -> Result<()> {
        for piece in &self.pieces {
            let row_bytes = piece.row.bytes() as u64;
            let portion = match plan.layout.transposed {
                // A transposed matrix has to be read as a whole.
                true => plan.outs(),
                // Rows are f32 during conversion.
                false => ((PORTION / row_bytes.max(plan.cols as u64 * 4)) as usize).max(1).next_multiple_of(TOGETHER),
            };
            for from in (0..piece.rows).step_by(portion) {
                let rows = piece.first + from..piece.first + piece.rows.min(from + portion);
                let bytes = piece.read_rows(weights, plan, rows).await?;
                gpu.write_buffer(&piece.buffer, from as u64 * row_bytes, &bytes);
                backlog.add(gpu, bytes.len() as u64).await?;
                loaded(bytes.len() as u64);
            }
        }
        Ok(())
    }
}

impl MatrixPiece {
    /// Reads rows of the matrix in the GPU's layout.
    async fn read_rows(&self, weights: &Weights, plan: &MatrixPlan, rows: Range<usize>) -> Result<Vec<u8>> {
        let row_bytes = self.row.bytes();
        let mut out = vec![0; rows.len() * row_bytes];
        stored_rows(weights, plan, self.dtype, rows, &mut |row, from| {
            pack_row(self.dtype, from, plan.cols, &mut out[row * row_bytes..][..row_bytes]);
        })
        .await?;
        Ok(interleave(&out, self.row))
    }
}

/// Bytes written since the last wait for the device.
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

/// Allocates all vectors in one buffer, each zero-padded to its stride; slice i is vector i.
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

/// Streams the tensors into the vectors. Without weights, fills with ones, or zeros if there is no tensor.
pub async fn load_vectors(gpu: &Gpu, weights: Option<&Weights>, plans: &[VectorPlan], vectors: &[Slice]) -> Result<()> {
    for (plan, on_gpu) in plans.iter().zip(vectors) {
        let values = match weights {
            Some(weights) => vector(weights, plan).await?,
            None => vec![if plan.layout.parts.is_empty() { plan.elements.from_stored(0.0) } else { 1.0 }; plan.len],
        };
        on_gpu.write_bytes(gpu, bytemuck::cast_slice(&values));
    }
    Ok(())
}

/// Fills a matrix with pseudo-random numbers.
pub(super) fn fill(gpu: &Gpu, matrix: &GpuMatrix) {
    for piece in &matrix.pieces {
        let call = gpu.call(Kernel::Fill(piece.format()), &[(0, piece.buffer.whole())]);
        let mut recorder = gpu.record();
        recorder.dispatch(&call, [1024, 1, 1]);
        recorder.submit(None);
    }
}
