//! Plans as text.

use super::{MatrixPlan, Plan, VectorId};
use crate::model::op::{HiddenRows, Op, Output};
use std::fmt;

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let vector = |id: VectorId| &self.vectors[id.0].label;
        for op in self.context.iter().chain(&self.body).chain(&self.kept).chain(&self.head).chain(&self.markov) {
            match op {
                Op::Embed { table, .. } => writeln!(f, "embed            {}", self.matrices[table.0])?,
                Op::Confide { .. } => writeln!(f, "confide")?,
                Op::KeepHidden { part } => writeln!(f, "copy             residual -> kept, part {part}")?,
                Op::KeepProjected => writeln!(f, "copy             projected -> kept, one position later")?,
                Op::TakeHidden => writeln!(f, "copy             kept -> joined")?,
                Op::Norm { gain, to: HiddenRows::Normed, .. } => writeln!(f, "norm             {}", vector(*gain))?,
                Op::Norm { gain, to, .. } | Op::AddNorm { gain, to, .. } => {
                    writeln!(f, "norm             {} -> {to}", vector(*gain))?;
                }
                Op::Matmul { matrix, output, .. } => {
                    let kind = match output {
                        Output::Projected => "store",
                        Output::Rotary { .. } => "rotate, append",
                        Output::Start => "start of the residual",
                        Output::Residual { .. } => "residual",
                        Output::Normed => "normed",
                        Output::Experts => "rows of experts",
                        Output::Gate { .. } => "gate",
                        Output::Activate { input_of: None, .. } => "activate",
                        Output::Activate { input_of: Some(_), .. } => "activate, times the layer's input",
                        Output::Logits { .. } => "logits",
                        Output::MoreLogits { .. } => "added to the logits",
                    };
                    writeln!(f, "matmul           {} -> {kind}", self.matrices[matrix.0])?;
                }
                Op::LayerInputNorm { gain } => writeln!(f, "norm             {} -> layer inputs", vector(*gain))?,
                Op::QkNorm { layer, .. } => writeln!(f, "qk_norm          layer {layer}")?,
                Op::Attention { layer, .. } => writeln!(f, "attention, merge layer {layer}")?,
                Op::Route { .. } => writeln!(f, "route, group")?,
                Op::Combine { to, .. } => writeln!(f, "combine          -> {to}")?,
                Op::GateHeads { layer, .. } => writeln!(f, "gate_heads       layer {layer}")?,
                Op::ShortConv { layer, .. } => writeln!(f, "short_conv       layer {layer}")?,
                Op::DeltaNet { layer, .. } => writeln!(f, "delta_net        layer {layer}")?,
            }
        }
        Ok(())
    }
}

impl fmt::Display for HiddenRows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Residual => "residual",
            Self::Normed => "normed",
            Self::Branches => "branches",
            Self::Kept => "kept",
            Self::KeptNext => "kept, one position later",
            Self::JoinedEmbedding => "first half of joined rows",
            Self::JoinedHidden => "second half of joined rows",
        })
    }
}

impl fmt::Display for MatrixPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} [{}, {}]", self.label, self.rows, self.cols)
    }
}
