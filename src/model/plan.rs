//! Compiles a [`ModelSpec`] to a [`Plan`]: the matrices made from tensors, and the ordered kernel calls of a forward pass.

use super::architecture::{NormKind, Residual};
use super::layout::{Layout, Part, RowOrder};
use super::names::Names;
use super::spec::{Activation, ModelSpec, QkNorm};
use std::{fmt, slice};

/// A forward pass as data.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Matrices on the GPU, in the dtype of the checkpoint.
    pub matrices: Vec<MatrixPlan>,
    /// Small vectors on the GPU, in f32.
    pub vectors: Vec<VectorPlan>,
    /// Steps from token ids to the residual stream and the KV cache.
    pub body: Vec<Op>,
    /// Steps from the residual stream to logits, for the rows that need them.
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
    /// Label for display: `layer 3 qkv`.
    pub label: String,
    /// Outputs.
    pub rows: usize,
    /// Inputs.
    pub cols: usize,
    /// Source of each row.
    pub layout: Layout,
}

/// A vector [len] made of tensors of the checkpoint; zero if it has no parts.
#[derive(Debug, Clone, PartialEq)]
pub struct VectorPlan {
    /// Label for display.
    pub label: String,
    /// Elements.
    pub len: usize,
    /// Source of each element.
    pub layout: Layout,
    /// Added to each element.
    pub plus: f32,
}

/// One step of the forward pass, and one dispatch. Attention over several blocks takes two, a split matrix one per piece, a fused norm none
/// ([`Op::norm_by`]).
#[derive(Debug, Clone, PartialEq)]
pub enum Op {
    /// Token ids or positions -> residual.
    Embed {
        /// Embedding table.
        table: MatrixId,
        /// Meaning of the table's rows.
        of: Table,
    },
    /// Residual -> normed.
    Norm {
        /// Gain [hidden].
        gain: VectorId,
        /// Bias [hidden], if this kind of norm has one.
        bias: Option<VectorId>,
        /// `true`: only rows whose logits are needed.
        head: bool,
    },
    /// Normed, with the output of a projection -> normalised, added to the residual.
    PostNorm {
        /// Gain [hidden].
        gain: VectorId,
    },
    /// x W^T, with the epilogue fused.
    Matmul {
        /// x.
        input: Input,
        /// W.
        matrix: MatrixId,
        /// Destination of the result.
        output: Output,
    },
    /// Fused q, k, v -> normalised, rotated, q and the KV cache.
    QkNorm {
        /// Layer, for its cache and rope.
        layer: usize,
        /// Gains of q and k [heads + kv_heads, head_dim].
        gain: VectorId,
        /// Bias of the fused projection.
        bias: VectorId,
    },
    /// q and the KV cache -> attended.
    Attention {
        /// Layer, for its cache and window.
        layer: usize,
    },
}

impl Op {
    /// Returns the gain of `next` if it is fused into this step and the readers of its output: an RMS norm directly after an addition to
    /// the residual stream.
    pub fn norm_by(&self, next: &Self) -> Option<VectorId> {
        match (self, next) {
            (Self::Matmul { output: Output::Residual { .. }, .. }, Self::Norm { gain, bias: None, .. }) => Some(*gain),
            _ => None,
        }
    }
}

/// Meaning of the rows of an embedding table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Table {
    /// Tokens: the start of the residual stream.
    Tokens,
    /// Positions: added to the residual stream.
    Positions,
}

/// Input of a matmul.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Input {
    /// Normed rows [hidden].
    Normed,
    /// Residual stream [hidden].
    Residual,
    /// Output of attention [q].
    Attended,
    /// Rows of the MLP [intermediate].
    Mlp,
}

/// Destination of a matmul's result: the epilogue.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Output {
    /// Fused q, k, v without changes, for [`Op::QkNorm`].
    Qkv,
    /// Rotated q, and k and v appended to the cache.
    Rotary {
        /// Layer, for its cache and rope.
        layer: usize,
        /// Bias [rows].
        bias: VectorId,
    },
    /// Added to the residual.
    Residual {
        /// Bias [rows].
        bias: VectorId,
    },
    /// Normed, for [`Op::PostNorm`].
    Normed,
    /// MLP, `activation(gate) * up`.
    Gate {
        /// Bias [rows], gate and up alternating.
        bias: VectorId,
        /// Activation of the gate.
        activation: Activation,
    },
    /// MLP, `activation(result)`.
    Activate {
        /// Bias [rows].
        bias: VectorId,
        /// Activation function.
        activation: Activation,
    },
    /// Logits, with their bias, factor and bound.
    Logits {
        /// Bias [vocab].
        bias: VectorId,
    },
}

impl Plan {
    /// Plans a model.
    pub fn new(spec: &ModelSpec) -> Self {
        let names = spec.names();
        let mut build = Builder { spec, names, matrices: Vec::new(), vectors: Vec::new(), body: Vec::new() };
        let embedding = build.table("embedding", names.embedding, spec.vocab_size);
        build.body.push(Op::Embed { table: embedding, of: Table::Tokens });
        if spec.learned_positions {
            let table = build.table("positions", names.positions, spec.max_position_embeddings);
            build.body.push(Op::Embed { table, of: Table::Positions });
        }
        for layer in 0..spec.layers.len() {
            build.layer(layer);
        }
        let norm = build.norm("final norm", names.final_norm, true);
        let head =
            if spec.tie_word_embeddings { embedding } else { build.table("lm head", names.head, spec.vocab_size) };
        let part = [Part::whole(names.head.into(), spec.vocab_size)];
        let bias = build.bias(spec.head_bias, "lm head", &part, RowOrder::Stacked);
        let head = vec![norm, Op::Matmul { input: Input::Normed, matrix: head, output: Output::Logits { bias } }];
        Self { matrices: build.matrices, vectors: build.vectors, body: build.body, head }
    }

    /// Returns the matrices of matmuls in order: all but embedding tables that are not also the LM head.
    pub fn multiplied(&self) -> impl Iterator<Item = MatrixId> {
        self.body.iter().chain(&self.head).filter_map(|op| match op {
            Op::Matmul { matrix, .. } => Some(*matrix),
            _ => None,
        })
    }

    /// Returns the most dispatches of a layer if no matrix is split. While one block of positions holds the context, it takes one fewer.
    pub fn dispatches_per_layer(&self) -> usize {
        let ops: Vec<&Op> = self.body.iter().chain(&self.head).collect();
        let with_norm = ops.windows(2).filter(|pair| pair[0].norm_by(pair[1]).is_some()).count();
        self.ops_per_layer() - with_norm / self.layers() + 1
    }

    fn layers(&self) -> usize {
        self.body.iter().filter(|op| matches!(op, Op::Attention { .. })).count().max(1)
    }

    /// Returns the steps of each layer.
    pub fn ops_per_layer(&self) -> usize {
        let embeds = self.body.iter().filter(|op| matches!(op, Op::Embed { .. })).count();
        (self.body.len() - embeds) / self.layers()
    }
}

struct Builder<'a> {
    spec: &'a ModelSpec,
    names: &'static Names,
    matrices: Vec<MatrixPlan>,
    vectors: Vec<VectorPlan>,
    body: Vec<Op>,
}

impl Builder<'_> {
    /// Adds a matrix of a layer; its parts are named without `.weight`.
    fn matrix(&mut self, label: &str, cols: usize, parts: &[Part], order: RowOrder) -> MatrixId {
        let layout = Layout { parts: suffixed(parts, "weight"), order, transposed: self.names.transposed };
        self.matrices.push(MatrixPlan { label: label.into(), rows: rows(parts), cols, layout });
        MatrixId(self.matrices.len() - 1)
    }

    /// Adds an embedding table or LM head [rows, hidden].
    fn table(&mut self, label: &str, tensor: &str, rows: usize) -> MatrixId {
        let parts = suffixed(&[Part::whole(tensor.into(), rows)], "weight");
        let layout = Layout { parts, order: RowOrder::Stacked, transposed: false };
        self.matrices.push(MatrixPlan { label: label.into(), rows, cols: self.spec.hidden_size, layout });
        MatrixId(self.matrices.len() - 1)
    }

    fn vector(&mut self, label: String, len: usize, parts: Vec<Part>, order: RowOrder, plus: f32) -> VectorId {
        let layout = Layout { parts, order, transposed: false };
        self.vectors.push(VectorPlan { label, len, layout, plus });
        VectorId(self.vectors.len() - 1)
    }

    /// Adds the biases of a projection, or zeros.
    fn bias(&mut self, there: bool, label: &str, parts: &[Part], order: RowOrder) -> VectorId {
        let len = rows(parts);
        if there {
            return self.vector(format!("{label} bias"), len, suffixed(parts, "bias"), order, 0.0);
        }
        let zeros = |vector: &VectorPlan| vector.layout.parts.is_empty() && vector.len == len;
        match self.vectors.iter().position(zeros) {
            Some(index) => VectorId(index),
            None => self.vector("zeros".into(), len, Vec::new(), RowOrder::Stacked, 0.0),
        }
    }

    fn gain(&mut self, label: &str, parts: &[Part], order: RowOrder) -> VectorId {
        let plus = if self.names.gains_from_one { 1.0 } else { 0.0 };
        self.vector(label.into(), rows(parts), suffixed(parts, "weight"), order, plus)
    }

    fn norm(&mut self, label: &str, tensor: &str, head: bool) -> Op {
        let part = [Part::whole(tensor.into(), self.spec.hidden_size)];
        let gain = self.gain(label, &part, RowOrder::Stacked);
        let bias = match self.spec.norm {
            NormKind::Rms => None,
            NormKind::Layer => Some(self.bias(self.spec.norm_bias, label, &part, RowOrder::Stacked)),
        };
        Op::Norm { gain, bias, head }
    }

    fn layer(&mut self, layer: usize) {
        let (spec, names) = (self.spec, self.names);
        let name = |suffix: &str| format!("{}.{layer}.{suffix}", names.layers);
        let label = |what: &str| format!("layer {layer} {what}");
        let hidden = spec.hidden_size;

        let input = if spec.residual == Residual::OnlyPostNorms { Input::Residual } else { Input::Normed };
        if input == Input::Normed {
            let norm = self.norm(&label("attention norm"), &name(names.attention_norm), false);
            self.body.push(norm);
        }
        self.attention(layer, input);
        let has_mlp_norm = !matches!(spec.residual, Residual::ParallelOneNorm | Residual::OnlyPostNorms);
        let mlp_norm = has_mlp_norm.then(|| self.norm(&label("mlp norm"), &name(names.mlp_norm), false));
        // The MLP reads the residual before attention is added to it.
        let (before, after) = if spec.residual == Residual::Parallel { (mlp_norm, None) } else { (None, mlp_norm) };
        self.body.extend(before);
        let o = Part::whole(name(names.o), hidden);
        self.branch(Input::Attended, spec.q_width(), spec.output_bias, &label("o"), o);
        self.post_norm(&label("post attention norm"), name(names.post_attention_norm));
        self.body.extend(after);

        let activation = spec.mlp.activation;
        let (what, order) =
            if spec.mlp.gated { ("gate and up", RowOrder::Alternate) } else { ("up", RowOrder::Stacked) };
        let up = self.up(name);
        let bias = self.bias(spec.mlp.bias, &label(what), &up, order);
        let matrix = self.matrix(&label(what), hidden, &up, order);
        let output =
            if spec.mlp.gated { Output::Gate { bias, activation } } else { Output::Activate { bias, activation } };
        self.body.push(Op::Matmul { input, matrix, output });
        let down = Part::whole(name(names.down), hidden);
        self.branch(Input::Mlp, spec.intermediate_size, spec.mlp.bias, &label("down"), down);
        self.post_norm(&label("post mlp norm"), name(names.post_mlp_norm));
    }

    /// Adds attention: `input` -> attended.
    fn attention(&mut self, layer: usize, input: Input) {
        let (spec, names) = (self.spec, self.names);
        let name = |suffix: &str| format!("{}.{layer}.{suffix}", names.layers);
        let label = |what: &str| format!("layer {layer} {what}");
        let rotary = match spec.layers[layer].rope {
            Some(rope) if !names.neighbours => spec.ropes[rope].rotary_dim,
            _ => 0,
        };
        let pairs = |heads| RowOrder::RotaryPairs { heads, head_dim: spec.head_dim, rotary };

        let qkv = self.qkv(name);
        let order = pairs(spec.num_attention_heads + spec.num_key_value_heads);
        let bias = self.bias(spec.qkv_bias, &label("qkv"), &qkv, order);
        let matrix = self.matrix(&label("qkv"), spec.hidden_size, &qkv, order);
        let output = if spec.qk_norm.is_some() { Output::Qkv } else { Output::Rotary { layer, bias } };
        self.body.push(Op::Matmul { input, matrix, output });
        if let Some(norm) = spec.qk_norm {
            let (q, k) = (spec.num_attention_heads, spec.num_key_value_heads);
            let parts = [(names.q_norm, q), (names.k_norm, k)].map(|(tensor, heads)| match norm {
                QkNorm::Width => vec![Part::whole(name(tensor), heads * spec.head_dim)],
                // All heads have the same gains.
                QkNorm::Heads | QkNorm::RotatedHeads => vec![Part::whole(name(tensor), spec.head_dim); heads],
            });
            let gain = self.gain(&label("qk norm"), &parts.concat(), pairs(q + k));
            self.body.push(Op::QkNorm { layer, gain, bias });
        }
        self.body.push(Op::Attention { layer });
    }

    /// Returns the sources of the rows of q, k and v.
    fn qkv(&self, name: impl Fn(&str) -> String) -> Vec<Part> {
        let (spec, names) = (self.spec, self.names);
        let widths = [spec.q_width(), spec.kv_width(), spec.kv_width()];
        let [all] = names.qkv else {
            return names.qkv.iter().zip(widths).map(|(tensor, rows)| Part::whole(name(tensor), rows)).collect();
        };
        if !names.interleaved {
            return vec![Part::whole(name(all), spec.qkv_width())];
        }
        let group = spec.num_attention_heads / spec.num_key_value_heads;
        let of_group = |first: usize, count: usize| {
            let places = (0..spec.num_key_value_heads).map(move |kv_head| kv_head * (group + 2) + first);
            places.map(move |place| (place, count))
        };
        let heads = of_group(0, group).chain(of_group(group, 1)).chain(of_group(group + 1, 1));
        let part = |(place, count)| Part {
            tensor: name(all),
            tensor_rows: spec.qkv_width(),
            first_row: place * spec.head_dim,
            rows: count * spec.head_dim,
        };
        heads.map(part).collect()
    }

    /// Returns the sources of the rows of gate and up, or of up alone.
    fn up(&self, name: impl Fn(&str) -> String) -> Vec<Part> {
        let rows = self.spec.intermediate_size;
        match self.names.up {
            [all] if self.spec.mlp.gated => {
                let half = |first_row| Part { tensor: name(all), tensor_rows: 2 * rows, first_row, rows };
                vec![half(0), half(rows)]
            }
            tensors => tensors.iter().map(|tensor| Part::whole(name(tensor), rows)).collect(),
        }
    }

    /// Adds a projection back into the residual stream.
    fn branch(&mut self, input: Input, cols: usize, has_bias: bool, label: &str, part: Part) {
        let output = if self.spec.residual.has_post_norms() {
            Output::Normed
        } else {
            Output::Residual { bias: self.bias(has_bias, label, slice::from_ref(&part), RowOrder::Stacked) }
        };
        let matrix = self.matrix(label, cols, &[part], RowOrder::Stacked);
        self.body.push(Op::Matmul { input, matrix, output });
    }

    fn post_norm(&mut self, label: &str, tensor: String) {
        if self.spec.residual.has_post_norms() {
            let gain = self.gain(label, &[Part::whole(tensor, self.spec.hidden_size)], RowOrder::Stacked);
            self.body.push(Op::PostNorm { gain });
        }
    }
}

fn rows(parts: &[Part]) -> usize {
    parts.iter().map(|part| part.rows).sum()
}

fn suffixed(parts: &[Part], suffix: &str) -> Vec<Part> {
    parts.iter().map(|part| Part { tensor: format!("{}.{suffix}", part.tensor), ..part.clone() }).collect()
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let vector = |id: VectorId| &self.vectors[id.0].label;
        for op in self.body.iter().chain(&self.head) {
            match op {
                Op::Embed { table, .. } => writeln!(f, "embed            {}", self.matrices[table.0])?,
                Op::Norm { gain, .. } => writeln!(f, "norm             {}", vector(*gain))?,
                Op::PostNorm { gain } => writeln!(f, "norm             {} -> residual", vector(*gain))?,
                Op::Matmul { matrix, output, .. } => {
                    let kind = match output {
                        Output::Qkv => "store",
                        Output::Rotary { .. } => "rotate, append",
                        Output::Residual { .. } => "residual",
                        Output::Normed => "normed",
                        Output::Gate { .. } => "gate",
                        Output::Activate { .. } => "activate",
                        Output::Logits { .. } => "logits",
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
