//! [`ModelSpec`] -> [`Plan`]: which tensors become which matrices, and the kernel calls of one forward pass, in order.

use super::names::Names;
use super::spec::{Activation, Mlp, ModelSpec};
use std::fmt;

/// Everything that a forward pass does, as data.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Matrices on the GPU, in the dtype of the checkpoint.
    pub matrices: Vec<MatrixPlan>,
    /// Small vectors on the GPU, in f32.
    pub vectors: Vec<VectorPlan>,
    /// From token ids to the residual stream and the KV cache.
    pub body: Vec<Op>,
    /// From the residual stream to logits, for the rows that need them.
    pub head: Vec<Op>,
}

/// Index into [`Plan::matrices`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct MatrixId(pub usize);

/// Index into [`Plan::vectors`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct VectorId(pub usize);

/// A matrix [rows, cols] made of tensors of the checkpoint.
#[derive(Debug, Clone, PartialEq)]
pub struct MatrixPlan {
    /// For people: `layer 3 qkv`.
    pub label: String,
    /// Outputs.
    pub rows: usize,
    /// Inputs.
    pub cols: usize,
    /// Where each row comes from.
    pub layout: Layout,
}

/// A vector [len] made of tensors of the checkpoint; without parts it is zero.
#[derive(Debug, Clone, PartialEq)]
pub struct VectorPlan {
    /// For people.
    pub label: String,
    /// Elements.
    pub len: usize,
    /// Where each element comes from.
    pub layout: Layout,
}

/// How rows of checkpoint tensors become the rows of one matrix.
#[derive(Debug, Clone, PartialEq)]
pub struct Layout {
    /// Tensors, stacked.
    pub parts: Vec<Part>,
    /// The order of the stacked rows on the GPU.
    pub order: RowOrder,
}

/// Some rows of one tensor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// Its name in the checkpoint.
    pub tensor: String,
    /// Rows that the whole tensor has.
    pub tensor_rows: usize,
    /// First row taken.
    pub first_row: usize,
    /// Rows taken.
    pub rows: usize,
}

/// An order of rows that puts next to each other what an epilogue needs together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowOrder {
    /// As stacked.
    Stacked,
    /// The first `heads` heads: elements that rotate together become neighbours. Scores do not change, since q and k
    /// are reordered alike.
    RotaryPairs {
        /// Heads that rotate.
        heads: usize,
        /// Rows per head.
        head_dim: usize,
        /// Leading rows of a head that rotate.
        rotary: usize,
    },
    /// The two halves alternate: gate 0, up 0, gate 1, up 1, ...
    Alternate,
}

impl Layout {
    /// Part index and row of that part's tensor for a row on the GPU. None past the end.
    pub fn source(&self, row: usize) -> Option<(usize, usize)> {
        let total: usize = self.parts.iter().map(|part| part.rows).sum();
        let mut stacked = match self.order {
            RowOrder::Stacked => row,
            RowOrder::RotaryPairs { heads, head_dim, rotary } => {
                let i = row % head_dim;
                if row < heads * head_dim && i < rotary { row - i + i / 2 + i % 2 * (rotary / 2) } else { row }
            }
            RowOrder::Alternate => row % 2 * (total / 2) + row / 2,
        };
        for (index, part) in self.parts.iter().enumerate() {
            if stacked < part.rows {
                return Some((index, part.first_row + stacked));
            }
            stacked -= part.rows;
        }
        None
    }
}

/// One step of the forward pass; each becomes one dispatch, attention two, and a split matrix one per piece.
#[derive(Debug, Clone, PartialEq)]
pub enum Op {
    /// Token ids -> residual.
    Embed {
        /// The table.
        table: MatrixId,
    },
    /// Residual -> normed.
    Norm {
        /// The gain [hidden].
        gain: VectorId,
        /// Only rows whose logits are wanted.
        head: bool,
    },
    /// x W^T, with what follows it fused in.
    Matmul {
        /// W.
        matrix: MatrixId,
        /// Where the result goes.
        output: Output,
    },
    /// Fused q, k, v -> normalised per head, rotated, q and the KV cache.
    QkNorm {
        /// The layer, for its cache and rope.
        layer: usize,
        /// Gains of q and k [2, head_dim].
        gain: VectorId,
        /// Bias of the fused projection.
        bias: VectorId,
    },
    /// q and the KV cache -> attended.
    Attention {
        /// The layer, for its cache and window.
        layer: usize,
    },
}

/// What a matmul reads and where its result goes: the epilogue.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Output {
    /// Normed -> fused q, k, v as they are, for [`Op::QkNorm`].
    Qkv,
    /// Normed -> rotated q, and k and v appended to the cache.
    Rotary {
        /// The layer, for its cache and rope.
        layer: usize,
        /// Bias [rows].
        bias: VectorId,
    },
    /// Attended -> added to the residual.
    AttentionResidual {
        /// Bias [rows].
        bias: VectorId,
    },
    /// Normed -> MLP, `activation(gate) * up`.
    Gate {
        /// Bias [rows], gate and up alternating.
        bias: VectorId,
        /// Of the gate.
        activation: Activation,
    },
    /// MLP -> added to the residual.
    MlpResidual {
        /// Bias [rows].
        bias: VectorId,
    },
    /// Normed -> logits.
    Logits,
}

impl Plan {
    /// The plan of a model.
    pub fn new(spec: &ModelSpec) -> Self {
        let mut build = Builder { spec, names: spec.architecture.names(), matrices: Vec::new(), vectors: Vec::new() };
        let mut body = Vec::new();
        let names = build.names;
        let embedding = build.matrix("embedding", spec.hidden_size, Layout::whole(names.embedding, spec.vocab_size));
        body.push(Op::Embed { table: embedding });
        for layer in 0..spec.layers.len() {
            build.layer(layer, &mut body);
        }
        let gain = build.vector("final norm", Layout::whole(names.final_norm, spec.hidden_size));
        let head = if spec.tie_word_embeddings {
            embedding
        } else {
            build.matrix("lm head", spec.hidden_size, Layout::whole(names.head, spec.vocab_size))
        };
        let head = vec![Op::Norm { gain, head: true }, Op::Matmul { matrix: head, output: Output::Logits }];
        Self { matrices: build.matrices, vectors: build.vectors, body, head }
    }

    /// Dispatches of one layer when no matrix is split and the rows are few: the most of any layer.
    pub fn dispatches_per_layer(&self) -> usize {
        let mut most = 0;
        let mut here = 0;
        for op in &self.body {
            let starts_layer = matches!(op, Op::Embed { .. });
            here = if starts_layer { 0 } else { here + if matches!(op, Op::Attention { .. }) { 2 } else { 1 } };
            if matches!(op, Op::Matmul { output: Output::MlpResidual { .. }, .. }) {
                most = most.max(here);
                here = 0;
            }
        }
        most
    }
}

impl Layout {
    fn whole(tensor: &str, rows: usize) -> Self {
        let part = Part { tensor: tensor.into(), tensor_rows: rows, first_row: 0, rows };
        Self { parts: vec![part], order: RowOrder::Stacked }
    }

    fn stacked(parts: &[(String, usize)], order: RowOrder) -> Self {
        let parts = parts
            .iter()
            .map(|(tensor, rows)| Part { tensor: tensor.clone(), tensor_rows: *rows, first_row: 0, rows: *rows })
            .collect();
        Self { parts, order }
    }
}

struct Builder<'a> {
    spec: &'a ModelSpec,
    names: &'static Names,
    matrices: Vec<MatrixPlan>,
    vectors: Vec<VectorPlan>,
}

impl Builder<'_> {
    fn matrix(&mut self, label: &str, cols: usize, layout: Layout) -> MatrixId {
        let rows = layout.parts.iter().map(|part| part.rows).sum();
        self.matrices.push(MatrixPlan { label: label.into(), rows, cols, layout });
        MatrixId(self.matrices.len() - 1)
    }

    fn vector(&mut self, label: &str, layout: Layout) -> VectorId {
        let len = layout.parts.iter().map(|part| part.rows).sum();
        self.vectors.push(VectorPlan { label: label.into(), len, layout });
        VectorId(self.vectors.len() - 1)
    }

    /// The biases of the projections in `parts`, or zeros.
    fn bias(&mut self, there: bool, label: &str, parts: &[(String, usize)], order: RowOrder) -> VectorId {
        if there {
            return self.vector(label, Layout::stacked(&suffixed(parts, "bias"), order));
        }
        let len = parts.iter().map(|(_, rows)| rows).sum();
        let zeros = |vector: &VectorPlan| vector.layout.parts.is_empty() && vector.len == len;
        if let Some(index) = self.vectors.iter().position(zeros) {
            return VectorId(index);
        }
        let layout = Layout { parts: Vec::new(), order: RowOrder::Stacked };
        self.vectors.push(VectorPlan { label: "zeros".into(), len, layout });
        VectorId(self.vectors.len() - 1)
    }

    fn layer(&mut self, layer: usize, body: &mut Vec<Op>) {
        let (spec, names) = (self.spec, self.names);
        let name = |suffix: &str| format!("{}.{layer}.{suffix}", names.layers);
        let label = |what: &str| format!("layer {layer} {what}");
        let hidden = spec.hidden_size;
        let rotary = spec.layers[layer].rope.map_or(0, |rope| spec.ropes[rope].rotary_dim);
        let pairs = |heads| RowOrder::RotaryPairs { heads, head_dim: spec.head_dim, rotary };

        let gain = self.vector(&label("attention norm"), Layout::whole(&name(names.attention_norm), hidden));
        body.push(Op::Norm { gain, head: false });
        let qkv = [(names.q, spec.q_width()), (names.k, spec.kv_width()), (names.v, spec.kv_width())];
        let qkv = qkv.map(|(part, rows)| (name(part), rows));
        let order = pairs(spec.num_attention_heads + spec.num_key_value_heads);
        let bias = self.bias(spec.qkv_bias, &label("qkv bias"), &qkv, order);
        let matrix = self.matrix(&label("qkv"), hidden, Layout::stacked(&suffixed(&qkv, "weight"), order));
        if spec.qk_norm {
            let gains = [(name(names.q_norm), spec.head_dim), (name(names.k_norm), spec.head_dim)];
            let gain = self.vector(&label("qk norm"), Layout::stacked(&gains, pairs(2)));
            body.push(Op::Matmul { matrix, output: Output::Qkv });
            body.push(Op::QkNorm { layer, gain, bias });
        } else {
            body.push(Op::Matmul { matrix, output: Output::Rotary { layer, bias } });
        }
        body.push(Op::Attention { layer });
        let o = [(name(names.o), hidden)];
        let bias = self.bias(spec.output_bias, &label("o bias"), &o, RowOrder::Stacked);
        let o = Layout::stacked(&suffixed(&o, "weight"), RowOrder::Stacked);
        let matrix = self.matrix(&label("o"), spec.q_width(), o);
        body.push(Op::Matmul { matrix, output: Output::AttentionResidual { bias } });

        let gain = self.vector(&label("mlp norm"), Layout::whole(&name(names.mlp_norm), hidden));
        body.push(Op::Norm { gain, head: false });
        let Mlp::Gated { activation, bias: mlp_bias } = spec.mlp;
        let gate_up = [names.gate, names.up].map(|part| (name(part), spec.intermediate_size));
        let bias = self.bias(mlp_bias, &label("gate and up bias"), &gate_up, RowOrder::Alternate);
        let layout = Layout::stacked(&suffixed(&gate_up, "weight"), RowOrder::Alternate);
        let matrix = self.matrix(&label("gate and up"), hidden, layout);
        body.push(Op::Matmul { matrix, output: Output::Gate { bias, activation } });
        let down = [(name(names.down), hidden)];
        let bias = self.bias(mlp_bias, &label("down bias"), &down, RowOrder::Stacked);
        let down = Layout::stacked(&suffixed(&down, "weight"), RowOrder::Stacked);
        let matrix = self.matrix(&label("down"), spec.intermediate_size, down);
        body.push(Op::Matmul { matrix, output: Output::MlpResidual { bias } });
    }
}

fn suffixed(parts: &[(String, usize)], suffix: &str) -> Vec<(String, usize)> {
    parts.iter().map(|(tensor, rows)| (format!("{tensor}.{suffix}"), *rows)).collect()
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let vector = |id: VectorId| &self.vectors[id.0].label;
        for op in self.body.iter().chain(&self.head) {
            match op {
                Op::Embed { table } => writeln!(f, "embed            {}", self.matrices[table.0])?,
                Op::Norm { gain, .. } => writeln!(f, "norm             {}", vector(*gain))?,
                Op::Matmul { matrix, output } => {
                    let kind = match output {
                        Output::Qkv => "store",
                        Output::Rotary { .. } => "rotate, append",
                        Output::AttentionResidual { .. } | Output::MlpResidual { .. } => "residual",
                        Output::Gate { .. } => "gate",
                        Output::Logits => "logits",
                    };
                    writeln!(f, "matmul           {} -> {kind}", self.matrices[matrix.0])?;
                }
                Op::QkNorm { layer, .. } => writeln!(f, "qk_norm          layer {layer}")?,
                Op::Attention { layer } => writeln!(f, "attention, merge layer {layer}")?,
            }
        }
        Ok(())
    }
}

impl fmt::Display for MatrixPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} [{}, {}]", self.label, self.rows, self.cols)
    }
}
