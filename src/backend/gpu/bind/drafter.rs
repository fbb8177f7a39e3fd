//! Lowers the steps of drafters that were trained for a target, and of their targets.

use super::{Binder, Lowered};
use crate::backend::gpu::dims::{ConfideDims, NormDims};
use crate::backend::gpu::memory::stride;
use crate::backend::gpu::node::{KernelChoice, WorkGrid};
use crate::gpu::{Kernel, Uniforms};
use crate::model::{Op, VectorId};
use bytemuck::Zeroable;

impl Binder<'_> {
    /// Lowers the choice whether a draft goes on.
    pub(super) fn lower_confide(&self, weights: VectorId, bias: VectorId, uniforms: &mut Uniforms) -> Lowered {
        let spec = self.spec();
        let (hidden, rank) = (spec.hidden_size as u32, spec.markov_rank() as u32);
        let dims = ConfideDims { hidden, x_stride: stride(spec.hidden_size) as u32, rank, one: 1.0 };
        let bindings = vec![
            (0, self.step.clone()),
            (2, self.normed.clone()),
            (3, self.markov.clone()),
            (4, self.sampling.clone()),
            (5, self.vector(weights)),
            (6, self.vector(bias)),
        ];
        let blocks = vec![(1, uniforms.add(&[dims]))];
        Lowered { choice: KernelChoice::Always(Kernel::Confide), grid: WorkGrid::All(1), bindings, blocks }
    }

    /// Lowers a copy of hidden states to those that are kept, or from them.
    pub(super) fn lower_copy(&self, op: &Op, uniforms: &mut Uniforms) -> Lowered {
        let spec = self.spec();
        let (width, joined) = (spec.kept_width(), spec.joined_width());
        let fours = |numbers: usize| numbers as u32 / 4;
        let row = fours(stride(width));
        let ring = self.blueprint.kept_positions() as u32;
        let by_draft = u32::from(spec.shares_kv());
        let both = NormDims { stride: row, y_stride: row, count: row, by_draft, ..NormDims::zeroed() };
        let (x, y, dims) = match *op {
            Op::KeepHidden { part } => {
                let (row, count) = (fours(stride(spec.hidden_size)), fours(spec.hidden_size));
                let dims = NormDims { stride: row, y_first: part as u32 * count, count, y_ring: ring, ..both };
                (&self.residual, &self.kept, dims)
            }
            Op::KeepProjected => {
                let count = fours(width);
                (&self.projected, &self.kept, NormDims { stride: count, count, y_ring: ring, next: 1, ..both })
            }
            // An embedding may be before it.
            _ => {
                let y_first = fours(joined - width);
                let count = if y_first > 0 { fours(width) } else { row };
                let dims = NormDims { x_ring: ring, y_stride: fours(stride(joined)), y_first, count, ..both };
                (&self.kept, &self.joined, dims)
            }
        };
        // The kernel has the bindings of norms; it reads no gain.
        let gain = self.vector(VectorId(0));
        let bindings = vec![(0, self.step.clone()), (2, x.clone()), (3, gain), (4, y.clone())];
        let blocks = vec![(1, uniforms.add(&[dims]))];
        Lowered { choice: KernelChoice::Always(Kernel::Copy), grid: WorkGrid::Rows, bindings, blocks }
    }
}
