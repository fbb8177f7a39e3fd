//! Activations of a forward pass on the CPU.

use super::attention::TOGETHER;
use super::experts::ExpertChoice;
use super::parts::threads;
use super::rows::{Rows, stride};
use crate::error::{Error, Result};
use crate::model::{Blueprint, HiddenRows, LayerSpec, Op};
use crate::target::StatePass;
use std::hint::black_box;
use std::ops::Range;

/// Activations of a pass, and the recurrent states that it reads and writes.
#[derive(Default)]
pub(super) struct CpuPass {
    pub residual: Rows,
    pub normed: Rows,
    pub branches: Rows,
    /// Hidden states that are kept for a drafter, or those that it reads and then its own.
    pub kept: Rows,
    /// Two halves of joined rows, or one of all.
    pub joined: [Rows; 2],
    pub query: Rows,
    pub mixed: Rows,
    pub projected: Rows,
    pub mlp: Rows,
    /// Inputs of all layers [rows, layers, layer input].
    pub layer_inputs: Rows,
    /// Experts of each row [rows, experts used].
    pub choices: Vec<ExpertChoice>,
    /// Their outputs [rows, experts used, hidden].
    pub of_experts: Rows,
    /// Row that stands for a token in the correction of the logits after it.
    pub markov: Rows,
    /// Chance that a draft token is accepted, by its drafter; `None`: unknown.
    pub confidence: Option<f32>,
    pub logits: Rows,
    pub states: StatePass,
}

/// A pass that is computed in parts.
pub(super) struct PassInParts<'a> {
    pub tokens: &'a [u32],
    /// Position of the first token.
    pub position: usize,
    /// Rows with logits.
    pub wanted: Range<usize>,
    /// Operations of the head that these rows need.
    pub steps: usize,
    /// Operations of the layers that are done.
    pub done: usize,
    pub pass: CpuPass,
}

impl CpuPass {
    /// Returns some rows [hidden].
    pub fn hidden_rows(&mut self, rows: HiddenRows) -> &mut Rows {
        match rows {
            HiddenRows::Residual => &mut self.residual,
            HiddenRows::Normed => &mut self.normed,
            HiddenRows::Branches => &mut self.branches,
            HiddenRows::Kept | HiddenRows::KeptNext => &mut self.kept,
            HiddenRows::JoinedEmbedding => &mut self.joined[0],
            HiddenRows::JoinedHidden => &mut self.joined[1],
        }
    }
}

pub(super) const ACTIVATIONS: &str = "the activations";

/// Returns the most numbers that a pass holds at once, for `rows` rows up to a position, `wanted` of them with logits.
pub(super) fn activations(blueprint: &Blueprint, rows: usize, wanted: usize, positions: usize) -> usize {
    let Blueprint { spec, plan, .. } = blueprint;
    let used = spec.experts.map_or(1, |experts| experts.used());
    let widest = |ops: &[Op]| {
        let widths = ops.iter().map(|op| match op {
            Op::Matmul { matrix, .. } => {
                let matrix = &plan.matrices[matrix.0];
                matrix.outs().max(matrix.cols) * if matrix.experts > 1 { used } else { 1 }
            }
            _ => 0,
        });
        stride(widths.max().unwrap_or(0))
    };
    // 12 of `CpuPass`; 3 of a product: interleaved inputs, and outputs by output and by row.
    let body = (12 + 3) * rows * widest(&plan.body);
    // Choosing a token copies its logits.
    let head = (2 + 3) * wanted * widest(&plan.head);
    let group = |layer: &LayerSpec| layer.attention().map_or(0, |attention| attention.heads / attention.kv_heads);
    let queries = TOGETHER.min(rows) * spec.largest(group);
    body + head + 2 * threads() * queries * positions
}

/// Checks that `numbers` f32 fit. The caller allocates them in parts; one that fails would end the program.
pub(super) fn need_room(what: &str, numbers: usize) -> Result<()> {
    let mut room = Vec::<f32>::new();
    let full = |_| Error::OutOfGpuMemory { what: what.into(), need: 4 * numbers as u64, limit: None };
    // The compiler may remove an unused allocation.
    black_box(&mut room).try_reserve_exact(numbers).map_err(full)
}
