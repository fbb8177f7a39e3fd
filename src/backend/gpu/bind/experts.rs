//! Lowers the steps around the matmuls of experts.

use super::super::dims::{CombineDims, GroupDims, RouteDims};
use super::super::memory::stride;
use super::super::node::{KernelChoice, WorkGrid};
use super::{Binder, Lowered};
use crate::gpu::{Kernel, Uniforms};
use crate::model::{ExpertScores, HiddenRows, VectorId};

impl Binder<'_> {
    /// Lowers the choice of each row's experts, and the lists of each expert's rows.
    pub(super) fn lower_route(&self, bias: VectorId, factors: VectorId, uniforms: &mut Uniforms) -> Vec<Lowered> {
        let Some(experts) = self.spec().experts else { return Vec::new() };
        let dims = RouteDims {
            experts: experts.count as u32,
            chosen: experts.chosen as u32,
            always: experts.shared as u32,
            sigmoid: u32::from(experts.scores == ExpertScores::Sigmoid),
            normalised: u32::from(experts.normalised),
            one: 1.0,
        };
        let route = Lowered {
            choice: KernelChoice::Always(Kernel::Route),
            grid: WorkGrid::Rows,
            bindings: vec![
                (0, self.step.clone()),
                (2, self.projected.clone()),
                (3, self.vector(bias)),
                (4, self.choices.clone()),
                (5, self.vector(factors)),
            ],
            blocks: vec![(1, uniforms.add(&[dims]))],
        };
        let dims = GroupDims { experts: experts.all() as u32, used: experts.used() as u32 };
        let group = Lowered {
            choice: KernelChoice::Always(Kernel::Group),
            grid: WorkGrid::All(1),
            bindings: vec![(0, self.step.clone()), (2, self.choices.clone()), (3, self.tiles.clone())],
            blocks: vec![(1, uniforms.add(&[dims]))],
        };
        vec![route, group]
    }

    /// Lowers the sum of each row's experts.
    pub(super) fn lower_combine(&self, to: HiddenRows, bias: VectorId, uniforms: &mut Uniforms) -> Vec<Lowered> {
        let (spec, used) = (self.spec(), self.spec().experts.map_or(1, |experts| experts.used()));
        let width = spec.hidden_size.div_ceil(4) as u32;
        let stride = stride(spec.hidden_size) as u32 / 4;
        let bias_stride = if spec.mlp.bias { width } else { 0 };
        let (adds, scale) = match to {
            HiddenRows::Residual => (1, spec.residual_scale),
            _ => (0, 1.0),
        };
        let dims = CombineDims { used: used as u32, width, stride, bias_stride, adds, scale };
        vec![Lowered {
            choice: KernelChoice::Always(Kernel::Combine),
            grid: WorkGrid::PerRow(width.div_ceil(64)),
            bindings: vec![
                (0, self.step.clone()),
                (2, self.of_experts.clone()),
                (3, self.choices.clone()),
                (4, self.hidden_rows(to).clone()),
                (5, self.vector(bias)),
            ],
            blocks: vec![(1, uniforms.add(&[dims]))],
        }]
    }
}
