//! Compiles a [`ModelSpec`] to a [`Plan`]: the matrices made from tensors, and the ordered kernel calls of a forward pass.

mod display;
mod drafter;
mod experts;
mod mixers;

use super::architecture::{NormKind, Residual};
use super::drafter::HiddenStates;
use super::elements::Elements;
use super::layout::{Layout, Part, RowOrder};
use super::names::Names;
use super::op::{HiddenRows, Input, Op, Output, Table};
use super::spec::{LayerSpec, Mixer, ModelSpec};
use std::ops::Range;
use std::slice;

/// A forward pass as data.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Matrices on the GPU, in the dtype of the checkpoint.
    pub matrices: Vec<MatrixPlan>,
    /// Embedding table and LM head.
    pub tables: [MatrixId; 2],
    /// Small vectors on the GPU, in f32.
    pub vectors: Vec<VectorPlan>,
    /// Steps from a target's hidden states to the KV cache, for a drafter that reads no tokens; none for other models.
    pub context: Vec<Op>,
    /// Steps from token ids to the residual stream and the KV cache.
    pub body: Vec<Op>,
    /// Steps of each layer, as ranges of the body.
    pub layers: Vec<Range<usize>>,
    /// Steps from the residual stream to the hidden states that are kept for a drafter, after the body; none without one.
    pub kept: Vec<Op>,
    /// Steps from the residual stream to logits, for the rows that need them.
    pub head: Vec<Op>,
    /// Steps from a token to a correction of the logits after it, after the head, for each draft token; none without a Markov head.
    pub markov: Vec<Op>,
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
    /// Experts whose matrices are stacked; 1: it belongs to none.
    pub experts: usize,
    /// `true`: a drafter's, which its target has too.
    pub is_shared: bool,
    /// `true`: it keeps its stored type, since a small error would choose other experts.
    pub is_router: bool,
    /// Source of each row.
    pub layout: Layout,
}

/// A vector [len] made of tensors of the checkpoint. Without parts, all elements are those of a stored 0.
#[derive(Debug, Clone, PartialEq)]
pub struct VectorPlan {
    /// Label for display.
    pub label: String,
    /// Elements.
    pub len: usize,
    /// Source of each element.
    pub layout: Layout,
    /// Elements per row of the tensors, which are [rows, cols] or [rows, 1, cols]; 1: they are vectors.
    pub cols: usize,
    /// Elements made of stored numbers.
    pub elements: Elements,
}

impl Plan {
    /// Plans a model.
    pub fn new(spec: &ModelSpec) -> Self {
        let names = spec.names();
        let mut build = Builder { spec, names, matrices: Vec::new(), vectors: Vec::new(), body: Vec::new() };
        let mut layers = Vec::new();
        let hidden = spec.hidden_size;
        let (width, of) = match spec.hidden_states {
            HiddenStates::Latest { width } => (width, Table::Joined),
            _ => (hidden, Table::Tokens),
        };
        let embedding = build.table("embedding", names.embedding, spec.vocab_size, width);
        build.body.push(Op::Embed { table: embedding, of });
        if spec.embedding_norm {
            let gain = build.hidden_gain("embedding norm", "");
            let (from, to) = (HiddenRows::Normed, HiddenRows::Residual);
            build.body.push(Op::Norm { from, to, gain, bias: None, head: false });
        }
        if spec.learned_positions {
            let table = build.table("positions", names.positions, spec.max_position_embeddings, hidden);
            build.body.push(Op::Embed { table, of: Table::Positions });
        }
        if spec.layer_input_size > 0 {
            build.layer_inputs();
        }
        match spec.hidden_states {
            HiddenStates::Read { .. } => build.mtp_input(),
            HiddenStates::Latest { .. } => build.assistant_input(),
            _ => {}
        }
        for layer in 0..spec.layers.len() {
            let first = build.body.len();
            build.layer(layer);
            layers.push(first..build.body.len());
        }
        let head = match (spec.tie_word_embeddings, of) {
            (true, Table::Joined) => build.table("lm head", names.embedding, spec.vocab_size, hidden),
            (true, _) => embedding,
            (false, _) => build.table("lm head", names.head, spec.vocab_size, hidden),
        };
        let part = [Part::whole(names.head.into(), spec.vocab_size)];
        let bias = build.bias(spec.head_bias, "lm head", &part, RowOrder::Stacked);
        let output = Output::Logits { bias };
        let tables = [embedding, head];
        if spec.needs_target() {
            let shared = if of == Table::Joined { &tables[..1] } else { &tables };
            shared.iter().for_each(|shared| build.matrices[shared.0].is_shared = true);
        }
        let (mut kept, mut context) = (build.keep_after(spec.layers.len() - 1), Vec::new());
        let head = if let HiddenStates::Read { .. } = spec.hidden_states {
            build.mtp_head(head, output)
        } else {
            let norm = build.norm("final norm", names.final_norm, true);
            match &spec.hidden_states {
                HiddenStates::Kept { after } if after.is_empty() => kept = Some(norm.clone().keeping()),
                HiddenStates::Context { .. } => context = build.context(&layers),
                _ => {}
            }
            let mut steps = vec![norm, Op::Matmul { input: Input::Normed, matrix: head, output }];
            if let HiddenStates::Latest { .. } = spec.hidden_states {
                steps.extend(build.assistant_output());
            }
            steps
        };
        let markov = spec.markov.map(|markov| build.markov(&markov)).unwrap_or_default();
        let Builder { matrices, vectors, body, .. } = build;
        Self { matrices, tables, vectors, context, body, layers, kept: kept.into_iter().collect(), head, markov }
    }

    /// Returns the matrix of `target` that a drafter uses as its own; `None`: it has its own.
    pub fn shared(&self, matrix: usize, target: &Self) -> Option<usize> {
        let is_shared = self.matrices[matrix].is_shared;
        let table = self.tables.iter().position(|table| is_shared && table.0 == matrix)?;
        Some(target.tables[table].0)
    }

    /// Returns the matrices of matmuls in order: all but embedding tables that are not also the LM head.
    pub fn multiplied(&self) -> impl Iterator<Item = MatrixId> {
        self.body.iter().chain(&self.head).chain(&self.markov).filter_map(|op| match op {
            Op::Matmul { matrix, .. } => Some(*matrix),
            _ => None,
        })
    }

    /// Returns the bytes of the matrices that no other model has, of matrices that have `bytes` each.
    pub fn own_bytes(&self, bytes: &[u64]) -> u64 {
        self.matrices.iter().zip(bytes).filter(|(matrix, _)| !matrix.is_shared).map(|(_, bytes)| bytes).sum()
    }

    /// Returns the dispatches of each layer if no matrix is split. While one block of positions holds the context, attention takes one
    /// fewer.
    pub fn dispatches(&self) -> Vec<usize> {
        let ops: Vec<&Op> = self.body.iter().chain(&self.head).collect();
        let of_layer = |layer: &Range<usize>| {
            let with_norm = layer.clone().filter(|&at| ops[at].norm_by(ops[at + 1]).is_some()).count();
            let takes_two = |op: &&&Op| matches!(op, Op::Attention { .. } | Op::Route { .. });
            layer.len() - with_norm + ops[layer.clone()].iter().filter(takes_two).count()
        };
        self.layers.iter().map(of_layer).collect()
    }

    /// Returns the most dispatches of any layer.
    pub fn dispatches_per_layer(&self) -> usize {
        self.dispatches().into_iter().max().unwrap_or(0)
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
        self.add(label, cols, layout)
    }

    /// Adds an embedding table or LM head [rows, cols].
    fn table(&mut self, label: &str, tensor: &str, rows: usize, cols: usize) -> MatrixId {
        let parts = suffixed(&[Part::whole(tensor.into(), rows)], "weight");
        self.add(label, cols, Layout { parts, order: RowOrder::Stacked, transposed: false })
    }

    fn add(&mut self, label: &str, cols: usize, layout: Layout) -> MatrixId {
        let rows = rows(&layout.parts);
        self.matrices.push(MatrixPlan {
            label: label.into(),
            rows,
            cols,
            experts: 1,
            is_shared: false,
            is_router: false,
            layout,
        });
        MatrixId(self.matrices.len() - 1)
    }

    fn vector(&mut self, label: String, parts: Vec<Part>, order: RowOrder, elements: Elements) -> VectorId {
        let len = rows(&parts);
        let layout = Layout { parts, order, transposed: false };
        self.vectors.push(VectorPlan { label, len, layout, cols: 1, elements });
        VectorId(self.vectors.len() - 1)
    }

    /// Adds the biases of a projection, or zeros.
    fn bias(&mut self, there: bool, label: &str, parts: &[Part], order: RowOrder) -> VectorId {
        if there {
            return self.vector(format!("{label} bias"), suffixed(parts, "bias"), order, STORED);
        }
        self.constant("zeros", rows(parts), 0.0)
    }

    /// Adds a vector of equal elements, or returns the one that is there.
    fn constant(&mut self, label: &str, len: usize, value: f32) -> VectorId {
        let elements = Elements::Plus(value);
        let is_same =
            |vector: &VectorPlan| vector.layout.parts.is_empty() && vector.len == len && vector.elements == elements;
        let index = self.vectors.iter().position(is_same).unwrap_or_else(|| {
            let layout = Layout { parts: Vec::new(), order: RowOrder::Stacked, transposed: false };
            self.vectors.push(VectorPlan { label: label.into(), len, layout, cols: 1, elements });
            self.vectors.len() - 1
        });
        VectorId(index)
    }

    fn gain(&mut self, label: &str, parts: &[Part], order: RowOrder) -> VectorId {
        if !self.spec.norm_gain {
            return self.constant("ones", rows(parts), 1.0);
        }
        let elements = if self.names.gains_from_one { Elements::Plus(1.0) } else { STORED };
        self.vector(label.into(), suffixed(parts, "weight"), order, elements)
    }

    /// Adds the gain of a norm of rows [hidden].
    fn hidden_gain(&mut self, label: &str, tensor: &str) -> VectorId {
        self.gain(label, &[Part::whole(tensor.into(), self.spec.hidden_size)], RowOrder::Stacked)
    }

    fn norm(&mut self, label: &str, tensor: &str, head: bool) -> Op {
        let part = [Part::whole(tensor.into(), self.spec.hidden_size)];
        let gain = self.gain(label, &part, RowOrder::Stacked);
        let bias = match self.spec.norm {
            NormKind::Rms => None,
            NormKind::Layer => Some(self.bias(self.spec.norm_bias, label, &part, RowOrder::Stacked)),
        };
        Op::Norm { from: HiddenRows::Residual, to: HiddenRows::Normed, gain, bias, head }
    }

    /// Adds the inputs of all layers: residual -> layer inputs.
    fn layer_inputs(&mut self) {
        let (spec, names) = (self.spec, self.names);
        let all = spec.layers.len() * spec.layer_input_size;
        let parts = [Part::whole(names.layer_inputs.into(), all)];
        let matrix = self.matrix("layer inputs", spec.hidden_size, &parts, RowOrder::Stacked);
        self.body.push(Op::Matmul { input: Input::Residual, matrix, output: Output::Projected });
        let part = [Part::whole(names.layer_input_norm.into(), spec.layer_input_size)];
        let gain = self.gain("layer input norm", &part, RowOrder::Stacked);
        self.body.push(Op::LayerInputNorm { gain });
        let table = self.table("layer embedding", names.layer_embedding, spec.vocab_size, all);
        self.body.push(Op::Embed { table, of: Table::LayerInputs });
    }

    fn layer(&mut self, layer: usize) {
        let (spec, names) = (self.spec, self.names);
        let name = |suffix: &str| spec.layer_tensor(layer, suffix);
        let label = |what: &str| format!("layer {layer} {what}");
        let LayerSpec { mixer, intermediate_size, expert_size } = &spec.layers[layer];
        let hidden = spec.hidden_size;

        let input = if spec.residual == Residual::OnlyPostNorms { Input::Residual } else { Input::Normed };
        if input == Input::Normed {
            let norm = self.norm(&label("attention norm"), &name(names.attention_norm), false);
            self.body.push(norm);
        }
        // After the norm, so that it stays fused into the layer before.
        self.keep_before(layer);
        let (o, cols) = match mixer {
            Mixer::Attention(attention) => {
                self.attention(layer, attention, input);
                (names.o, attention.q_width())
            }
            Mixer::ShortConv { taps } => {
                self.short_conv(layer, *taps, input);
                (names.conv_out, hidden)
            }
            Mixer::DeltaNet(delta) => {
                self.delta_net(layer, delta, input);
                (names.delta.out, delta.value_width())
            }
        };
        let has_mlp_norm = !matches!(spec.residual, Residual::ParallelOneNorm | Residual::OnlyPostNorms);
        let mlp_norm = has_mlp_norm.then(|| self.norm(&label("mlp norm"), &name(names.mlp_norm), false));
        // The MLP reads the residual before attention is added to it.
        let (before, after) = if spec.residual == Residual::Parallel { (mlp_norm, None) } else { (None, mlp_norm) };
        self.body.extend(before);
        let o = Part::whole(name(o), hidden);
        self.branch(Input::Mixed, cols, spec.output_bias, &label("o"), o);
        let tensor = name(names.post_attention_norm);
        self.post_norm(HiddenRows::Normed, &label("post attention norm"), tensor, None);
        self.body.extend(after);

        let experts = spec.experts.filter(|_| *expert_size > 0);
        let has_both = experts.is_some_and(|experts| experts.with_mlp);
        if *intermediate_size > 0 {
            let is_shared = experts.is_some() && !has_both;
            self.mlp(layer, *intermediate_size, input, is_shared);
        }
        if has_both {
            let gain = self.hidden_gain(&label("post norm of the MLP"), &name(names.experts.mlp_post_norm));
            let (from, to) = (HiddenRows::Normed, HiddenRows::Branches);
            self.body.push(Op::Norm { from, to, gain, bias: None, head: false });
        }
        if let Some(experts) = experts {
            self.experts(layer, &experts, *expert_size, input);
        }
        let (scale, width) = (spec.layer_scale.then(|| name(names.layer_scale)), spec.layer_input_size);
        let has_input = width > 0;
        let from = if has_both { HiddenRows::Branches } else { HiddenRows::Normed };
        self.post_norm(from, &label("post mlp norm"), name(names.post_mlp_norm), scale.clone().filter(|_| !has_input));
        if has_input {
            let part = [Part::whole(name(names.layer_gate), width)];
            let matrix = self.matrix(&label("input gate"), hidden, &part, RowOrder::Stacked);
            let bias = self.constant("zeros", width, 0.0);
            let output = Output::Activate { bias, activation: spec.mlp.activation, input_of: Some(layer) };
            self.body.push(Op::Matmul { input: Input::Residual, matrix, output });
            let part = Part::whole(name(names.layer_output), hidden);
            self.branch(Input::Mlp, width, false, &label("input"), part);
            self.post_norm(HiddenRows::Normed, &label("post input norm"), name(names.layer_output_norm), scale);
        }
    }

    /// Adds an MLP of `width` numbers, or the one that experts share: `input` -> residual, or normed before a norm.
    fn mlp(&mut self, layer: usize, width: usize, input: Input, is_shared: bool) {
        let (spec, names) = (self.spec, self.names);
        let name = |suffix: &str| spec.layer_tensor(layer, suffix);
        let label = |what: &str| format!("layer {layer} {what}");
        let (hidden, activation) = (spec.hidden_size, spec.mlp.activation);
        let (what, order) =
            if spec.mlp.gated { ("gate and up", RowOrder::Alternate) } else { ("up", RowOrder::Stacked) };
        let (up, down) = match is_shared {
            true => (names.experts.shared_up, names.experts.shared_down),
            false => (names.up, names.down),
        };
        let up = self.up(up, width, name);
        let bias = self.bias(spec.mlp.bias, &label(what), &up, order);
        let matrix = self.matrix(&label(what), hidden, &up, order);
        let output = if spec.mlp.gated {
            Output::Gate { bias, activation }
        } else {
            Output::Activate { bias, activation, input_of: None }
        };
        self.body.push(Op::Matmul { input, matrix, output });
        let down = Part::whole(name(down), hidden);
        self.branch(Input::Mlp, width, spec.mlp.bias, &label("down"), down);
    }

    /// Returns the sources of the rows of gate and up, or of up alone.
    fn up(&self, tensors: &[&str], rows: usize, name: impl Fn(&str) -> String) -> Vec<Part> {
        match tensors {
            [all] if self.spec.mlp.gated => {
                let half = |first_row| Part { first_row, rows, ..Part::whole(name(all), 2 * rows) };
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

    /// Adds the norm of a branch, if there is one, and the factor of the residual stream after it, with its name.
    fn post_norm(&mut self, from: HiddenRows, label: &str, tensor: String, factor: Option<String>) {
        if self.spec.residual.has_post_norms() {
            let gain = self.hidden_gain(label, &tensor);
            let factor = match factor {
                Some(tensor) => {
                    let part = vec![Part::whole(tensor, 1)];
                    self.vector("factor of a layer".into(), part, RowOrder::Stacked, STORED)
                }
                None => self.constant("one", 1, 1.0),
            };
            self.body.push(Op::AddNorm { from, to: HiddenRows::Residual, gain, factor });
        }
    }
}

/// Elements that are stored as they are.
const STORED: Elements = Elements::Plus(0.0);

fn rows(parts: &[Part]) -> usize {
    parts.iter().map(|part| part.rows).sum()
}

fn suffixed(parts: &[Part], suffix: &str) -> Vec<Part> {
    parts.iter().map(|part| Part { tensor: format!("{}.{suffix}", part.tensor), ..part.clone() }).collect()
}

impl MatrixPlan {
    /// Returns the rows of each expert.
    pub fn outs(&self) -> usize {
        self.rows / self.experts
    }
}
