//! Lowers the plan's steps to nodes with bound buffers, once at load.

mod drafter;
mod experts;
mod mixers;

use super::dims::{EmbedDims, HeadDims, MatmulDims, NO_MASK, NormDims, QkNormDims, QuantiseDims};
use super::memory::{gained_stride, logits_stride, stride};
use super::node::{KernelChoice, Node, WorkGrid};
use super::upload::{GpuMatrix, MatrixPiece};
use crate::gpu::{Arithmetic, Buffer, Epilogue, Epilogues, Gpu, Kernel, Slice, Uniforms};
use crate::model::{
    AttentionSpec, Blueprint, HiddenRows, Input, MatrixId, MatrixPlan, ModelSpec, NormKind, Op, Output, QkNorm, Table,
    VectorId,
};
use bytemuck::Zeroable;

/// A node whose uniform blocks, as (binding, block index), are not uploaded yet.
pub(super) struct Lowered {
    choice: KernelChoice,
    grid: WorkGrid,
    bindings: Vec<(u32, Slice)>,
    blocks: Vec<(u32, usize)>,
}

impl Lowered {
    /// Adds the uniform blocks and creates the node.
    pub fn bind(mut self, gpu: &Gpu, blocks: &[Slice]) -> Node {
        self.bindings.extend(self.blocks.into_iter().map(|(binding, block)| (binding, blocks[block].clone())));
        Node::new(gpu, self.choice, self.grid, self.bindings)
    }
}

/// Fusion of a step with the norms around it.
#[derive(Clone, Copy)]
struct Norms {
    /// True if the input's norm is incomplete: the matmuls that read it finish it.
    waits: bool,
    /// Gain of the norm after the step, if it is fused too.
    gain: Option<VectorId>,
}

/// Buffers for the plan's steps: those of [`super::memory::Sizes`], and others.
pub(super) struct Binder<'a> {
    pub blueprint: &'a Blueprint,
    pub matrices: Vec<GpuMatrix>,
    pub vectors: Vec<Slice>,
    pub tables: Vec<Buffer>,
    /// State of each layer.
    pub layers: Vec<Buffer>,
    pub round: Slice,
    pub sampling: Slice,
    pub step: Slice,
    pub residual: Slice,
    pub normed: Slice,
    pub branches: Slice,
    pub kept: Slice,
    pub joined: Slice,
    pub markov: Slice,
    pub query: Slice,
    pub mixed: Slice,
    pub projected: Slice,
    pub mlp: Slice,
    pub layer_inputs: Slice,
    pub choices: Slice,
    pub tiles: Slice,
    pub of_experts: Slice,
    pub logits: Buffer,
    pub partial: Buffer,
    pub norms: Buffer,
    pub gained: Slice,
    pub quantised: Slice,
    /// Arithmetic for quantised weights.
    pub arithmetic: Arithmetic,
    /// Placeholders for outputs that a call does not write.
    pub unused: [Buffer; 2],
}

impl<'a> Binder<'a> {
    fn spec(&self) -> &'a ModelSpec {
        &self.blueprint.spec
    }

    fn attention(&self, layer: usize) -> Option<&'a AttentionSpec> {
        self.spec().layers[layer].attention()
    }

    /// Returns the dimensions of a layer's attention; zeros if it has none.
    fn heads(&self, layer: usize) -> HeadDims {
        let spec = self.spec();
        let Some(attention) = self.attention(layer) else { return HeadDims::zeroed() };
        let rope = attention.rope.map(|rope| &spec.ropes[rope]);
        let max_context = self.blueprint.capacity.max_context;
        HeadDims {
            heads: attention.heads as u32,
            kv_heads: attention.kv_heads as u32,
            head_dim: attention.head_dim as u32,
            rotary: rope.map_or(0, |rope| rope.rotary_dim) as u32,
            q_stride: stride(attention.q_width()) as u32,
            window: attention.window.unwrap_or(max_context).min(1 << 30) as u32,
            q_table: rope.map_or(0, |rope| (rope.tables() - 1) * max_context * rope.rotary_dim / 2) as u32,
            scale: spec.attention_scale,
            cap: spec.attention_cap.unwrap_or(0.0),
            whole: u32::from(spec.at_once.is_some_and(|at_once| at_once.is_block)),
            ahead: u32::from(spec.shares_kv()),
            one: 1.0,
        }
    }

    /// Returns a layer's rotary table. A layer without rotation reads none, but something must be bound: its bias.
    fn table(&self, layer: usize, bias: VectorId) -> Slice {
        let rope = self.attention(layer).and_then(|attention| attention.rope);
        rope.map_or_else(|| self.vector(bias), |rope| self.tables[rope].whole())
    }

    /// Returns the elements per row of the inputs of all layers.
    fn layer_inputs_width(&self) -> u32 {
        (self.spec().layers.len() * self.spec().layer_input_size) as u32
    }

    fn hidden_rows(&self, rows: HiddenRows) -> &Slice {
        match rows {
            HiddenRows::Residual => &self.residual,
            HiddenRows::Normed => &self.normed,
            HiddenRows::Branches => &self.branches,
            HiddenRows::Kept | HiddenRows::KeptNext => &self.kept,
            HiddenRows::JoinedEmbedding | HiddenRows::JoinedHidden => &self.joined,
        }
    }

    fn vector(&self, id: VectorId) -> Slice {
        self.vectors[id.0].clone()
    }

    /// Lowers each step to nodes: several if a matrix is split or attention takes two kernels, none if matmuls do a norm.
    pub fn lower_all<'b>(&self, ops: impl Iterator<Item = &'b Op>, uniforms: &mut Uniforms) -> Vec<Vec<Lowered>> {
        let mut ops = ops.peekable();
        let mut lowered = Vec::new();
        // True if the rows to read have an incomplete norm.
        let mut waits = false;
        while let Some(op) = ops.next() {
            let gain = ops.peek().and_then(|next| op.norm_by(next));
            lowered.push(self.lower(op, Norms { waits, gain }, uniforms));
            if gain.is_some() {
                ops.next();
                lowered.push(Vec::new());
                waits = true;
            } else if let Op::Norm { .. } = op {
                waits = false;
            }
        }
        lowered
    }

    fn lower(&self, op: &Op, norms: Norms, uniforms: &mut Uniforms) -> Vec<Lowered> {
        let spec = self.spec();
        let kv = self.blueprint.capacity.kv_dtype;
        let hidden = stride(spec.hidden_size) as u32;
        match *op {
            Op::Embed { table, of } => {
                let matrix = &self.matrices[table.0];
                let (rows, x_stride) = match of {
                    Table::Tokens if spec.embedding_norm => (&self.normed, hidden),
                    Table::Tokens | Table::Positions => (&self.residual, hidden),
                    Table::LayerInputs => (&self.layer_inputs, self.layer_inputs_width()),
                    Table::Joined => (&self.joined, stride(spec.joined_width()) as u32),
                    Table::Markov => (&self.markov, stride(spec.markov_rank()) as u32),
                };
                let pieces = matrix.pieces.iter().map(|piece| {
                    let row = piece.row;
                    let dims = EmbedDims {
                        chunks: row.chunks as u32,
                        scales: row.scales as u32,
                        stride: row.units as u32,
                        first_id: piece.first as u32,
                        ids: piece.rows as u32,
                        x_stride: x_stride / 4,
                        scale: spec.table_scale(of),
                        factor: of.factor(),
                        adds: u32::from(matches!(of, Table::Positions | Table::LayerInputs)),
                        positions: u32::from(of == Table::Positions),
                        mask: match (of, spec.at_once) {
                            (Table::Tokens, Some(at_once)) => at_once.mask_token,
                            _ => NO_MASK,
                        },
                    };
                    Lowered {
                        choice: KernelChoice::Always(Kernel::Embed(piece.format())),
                        grid: WorkGrid::PerRow((row.chunks as u32).div_ceil(64)),
                        bindings: vec![
                            (0, self.step.clone()),
                            (2, piece.buffer.whole()),
                            (3, self.round.clone()),
                            (4, rows.clone()),
                        ],
                        blocks: vec![(1, uniforms.add(&[dims]))],
                    }
                });
                pieces.collect()
            }
            Op::Norm { from, to, gain, bias, head } => {
                let kernel = match spec.norm {
                    NormKind::Rms => Kernel::NormRms,
                    NormKind::Layer => Kernel::NormLayer,
                };
                let mut norm = self.lower_norm(kernel, [from, to], gain, head, uniforms);
                norm.bindings.extend(bias.map(|bias| (5, self.vector(bias))));
                vec![norm]
            }
            Op::Confide { weights, bias } => vec![self.lower_confide(weights, bias, uniforms)],
            Op::KeepHidden { .. } | Op::KeepProjected | Op::TakeHidden => vec![self.lower_copy(op, uniforms)],
            Op::AddNorm { from, to, gain, factor } => {
                let mut norm = self.lower_norm(Kernel::AddNorm, [from, to], gain, false, uniforms);
                norm.bindings.push((5, self.vector(factor)));
                vec![norm]
            }
            Op::LayerInputNorm { gain } => {
                let (width, eps) = (spec.layer_input_size as u32, spec.layer_input_eps());
                let [stride, y_stride, count] = [width / 4; 3];
                let dims = NormDims { width, stride, y_stride, count, eps, one: 1.0, ..NormDims::zeroed() };
                let (x, y) = (&self.projected, &self.layer_inputs);
                let bindings = vec![(0, self.step.clone()), (2, x.clone()), (3, self.vector(gain)), (4, y.clone())];
                vec![Lowered {
                    choice: KernelChoice::Always(Kernel::NormRms),
                    grid: WorkGrid::PerRow(spec.layers.len() as u32),
                    bindings,
                    blocks: vec![(1, uniforms.add(&[dims]))],
                }]
            }
            Op::Matmul { input, matrix, output } => self.lower_matmul(input, matrix, output, norms, uniforms),
            Op::QkNorm { layer, gain, bias } => {
                let bindings = vec![
                    (0, self.step.clone()),
                    (2, self.projected.clone()),
                    (3, self.vector(gain)),
                    (4, self.vector(bias)),
                    (5, self.table(layer, bias)),
                    (6, self.query.clone()),
                    (7, self.layers[layer].whole()),
                ];
                let dims = QkNormDims {
                    eps: spec.norm_eps as f32,
                    across: u32::from(spec.qk_norm == Some(QkNorm::Width)),
                    after: u32::from(spec.qk_norm == Some(QkNorm::RotatedHeads)),
                    values: u32::from(spec.qk_norm == Some(QkNorm::HeadsAndValues)),
                };
                let kv_heads = self.attention(layer).map_or(0, AttentionSpec::own_kv_heads) as u32;
                let own = HeadDims { kv_heads, ..self.heads(layer) };
                let blocks = vec![(1, uniforms.add(&[dims])), (8, uniforms.add(&[own]))];
                let HeadDims { heads, kv_heads, .. } = own;
                let choice = KernelChoice::Always(Kernel::QkNorm(kv));
                vec![Lowered { choice, grid: WorkGrid::PerRow(heads + 2 * kv_heads), bindings, blocks }]
            }
            Op::Attention { layer, sinks } => self.lower_attention(layer, sinks, uniforms),
            Op::Route { bias, factors } => self.lower_route(bias, factors, uniforms),
            Op::Combine { to, bias } => self.lower_combine(to, bias, uniforms),
            Op::GateHeads { layer, gain } => self.lower_gates(layer, gain, uniforms),
            Op::DeltaNet { layer, taps, conv_bias, rates, bias, skip } => {
                self.lower_delta_net(layer, [taps, conv_bias, rates, bias, skip], uniforms)
            }
            Op::ShortConv { layer, taps } => self.lower_short_conv(layer, taps, uniforms),
        }
    }

    fn lower_norm(
        &self,
        kernel: Kernel,
        rows: [HiddenRows; 2],
        gain: VectorId,
        head: bool,
        uniforms: &mut Uniforms,
    ) -> Lowered {
        let width = self.spec().hidden_size;
        let row = stride(width) as u32 / 4;
        let positions = self.blueprint.kept_positions() as u32;
        let ring = |rows| if matches!(rows, HiddenRows::Kept | HiddenRows::KeptNext) { positions } else { 0 };
        let (y_stride, y_first, count) = match rows[1] {
            HiddenRows::JoinedEmbedding => (stride(2 * width) as u32 / 4, 0, width as u32 / 4),
            HiddenRows::JoinedHidden => (stride(2 * width) as u32 / 4, width as u32 / 4, width as u32 / 4),
            _ => (row, 0, row),
        };
        let dims = NormDims {
            width: width as u32,
            stride: row,
            y_stride,
            y_first,
            count,
            head: u32::from(head),
            x_ring: ring(rows[0]),
            y_ring: ring(rows[1]),
            next: u32::from(rows[1] == HiddenRows::KeptNext),
            by_draft: 0,
            eps: self.spec().norm_eps as f32,
            one: 1.0,
        };
        let [x, y] = rows.map(|rows| self.hidden_rows(rows).clone());
        let bindings = vec![(0, self.step.clone()), (2, x), (3, self.vector(gain)), (4, y)];
        let blocks = vec![(1, uniforms.add(&[dims]))];
        Lowered { choice: KernelChoice::Always(kernel), grid: WorkGrid::Rows, bindings, blocks }
    }

    fn arithmetic(&self, piece: &MatrixPiece) -> Arithmetic {
        if piece.format().multiplies_codes() { self.arithmetic } else { Arithmetic::F32 }
    }

    /// Lowers the conversion of `x`, with `each` rows per row of the pass, to 8-bit codes. The norm's sums after each row are copied.
    fn lower_quantise(&self, x: &Slice, dims: QuantiseDims, each: u32, uniforms: &mut Uniforms) -> Lowered {
        Lowered {
            choice: KernelChoice::Always(Kernel::Quantise),
            grid: WorkGrid::PerRows((dims.blocks * 8 + dims.behind).div_ceil(64), each),
            bindings: vec![(0, self.step.clone()), (2, x.clone()), (3, self.quantised.clone())],
            blocks: vec![(1, uniforms.add(&[dims]))],
        }
    }

    fn lower_matmul(
        &self,
        input: Input,
        matrix: MatrixId,
        output: Output,
        norms: Norms,
        uniforms: &mut Uniforms,
    ) -> Vec<Lowered> {
        let spec = self.spec();
        let plan = &self.blueprint.plan.matrices[matrix.0];
        let MatrixPlan { rows, cols, experts, .. } = *plan;
        let outs = plan.outs();
        let of_model = spec.experts.filter(|_| experts > 1);
        let used = of_model.map_or(1, |experts| experts.used() as u32);
        let matrix = &self.matrices[matrix.0];
        let waits = norms.waits && input == Input::Normed;
        let gained = gained_stride(spec.hidden_size);
        let (x, x_stride) = match input {
            Input::Normed if waits => (&self.gained, gained),
            Input::Normed => (&self.normed, stride(cols)),
            Input::Residual => (&self.residual, stride(cols)),
            Input::Joined => (&self.joined, stride(cols)),
            Input::Markov => (&self.markov, stride(cols)),
            Input::Mixed => (&self.mixed, stride(cols)),
            Input::Mlp => (&self.mlp, stride(cols)),
        };
        let (epilogue, y_stride, bias, y) = match output {
            Output::Projected => (Epilogue::Store, rows, None, &self.projected),
            Output::Logits { bias } => {
                let changes = spec.head_bias || spec.logit_scale != 1.0 || spec.logit_cap.is_some();
                let epilogue = if changes { Epilogue::Head } else { Epilogue::Store };
                (epilogue, logits_stride(spec.vocab_size), Some(bias), &self.logits.whole())
            }
            Output::MoreLogits { bias } => {
                (Epilogue::Residual, logits_stride(spec.vocab_size), Some(bias), &self.logits.whole())
            }
            Output::Normed => (Epilogue::Store, stride(rows), None, &self.normed),
            Output::Start => (Epilogue::Store, stride(rows), None, &self.residual),
            Output::Experts => (Epilogue::Store, stride(outs), None, &self.of_experts),
            Output::Residual { bias } => (Epilogue::Residual, stride(rows), Some(bias), &self.residual),
            Output::Gate { bias, .. } => (Epilogue::Gate, stride(outs / 2), Some(bias), &self.mlp),
            Output::Activate { bias, .. } => (Epilogue::Activate, stride(rows), Some(bias), &self.mlp),
            Output::Rotary { layer, bias } => {
                (Epilogue::Rotary, self.heads(layer).q_stride as usize, Some(bias), &self.query)
            }
        };
        // All epilogues share a kernel, so bindings of the others must be filled too.
        let bias = bias.unwrap_or(VectorId(0));
        let (heads, table, kv) = match output {
            Output::Rotary { layer, .. } => (self.heads(layer), self.table(layer, bias), &self.layers[layer]),
            Output::Activate { input_of: Some(_), .. } => (self.heads(0), self.layer_inputs.clone(), &self.unused[0]),
            _ => (self.heads(0), self.vector(norms.gain.unwrap_or(bias)), &self.unused[0]),
        };
        let left = if norms.gain.is_some() { self.gained.clone() } else { self.unused[1].whole() };
        let targets = [(4, self.vector(bias)), (5, table), (6, y.clone()), (7, kv.whole()), (9, left)];
        let kv = self.blueprint.capacity.kv_dtype;
        let epilogues = Epilogues { activation: spec.mlp.activation, kv, experts: of_model.is_some() };
        let heads = uniforms.add(&[heads]);
        let (factors, first_factor) = match output {
            Output::Activate { input_of: Some(layer), .. } => {
                (self.layer_inputs_width(), layer * spec.layer_input_size)
            }
            _ => (0, 0),
        };
        let (is_head, scale) = match output {
            Output::Logits { .. } => (1, spec.logit_scale),
            Output::MoreLogits { .. } => (1, 1.0),
            _ => (0, spec.residual_scale),
        };
        // Lengths of the row and of the norm's sums after it, in 16-byte units.
        let blocks = cols.div_ceil(32) as u32;
        let (row, behind) = (blocks * 8, x_stride as u32 / 4 - blocks * 8);
        let (quantised_row, quantised_stride) = (blocks * 3, blocks * 3 + behind);
        let quantise = QuantiseDims {
            blocks,
            behind,
            x_stride: x_stride as u32 / 4,
            y_stride: quantised_stride,
            head: if waits { is_head } else { 0 },
        };
        let is_quantised = matrix.pieces.iter().any(|piece| self.arithmetic(piece) == Arithmetic::Int8);
        let x_rows = if input == Input::Mlp { used } else { 1 };
        let quantise = is_quantised.then(|| self.lower_quantise(x, quantise, x_rows, uniforms));
        let pieces = matrix.pieces.iter().map(|piece| {
            let arithmetic = self.arithmetic(piece);
            let (x, x_stride, sums) = match arithmetic {
                Arithmetic::F32 => (x, x_stride as u32 / 4, row),
                Arithmetic::Int8 => (&self.quantised, quantised_stride, quantised_row),
            };
            let dims = MatmulDims {
                chunks: piece.row.chunks as u32,
                scales: piece.row.scales as u32,
                stride: piece.row.units as u32,
                outs: if experts > 1 { outs } else { piece.rows } as u32,
                first_out: if experts > 1 { 0 } else { piece.first as u32 },
                x_stride,
                y_stride: y_stride as u32,
                head: is_head,
                epilogue: epilogue as u32,
                norm_width: if waits { spec.hidden_size as u32 } else { 0 },
                sums,
                leaves: if norms.gain.is_some() { gained as u32 } else { 0 },
                eps: spec.norm_eps as f32,
                one: 1.0,
                scale,
                cap: spec.logit_cap.unwrap_or(0.0),
                factors,
                first_factor: first_factor as u32,
                first_expert: (piece.first / outs) as u32,
                experts: (piece.rows / outs) as u32,
                sharing: used / x_rows,
                bias_stride: if of_model.is_some() && spec.mlp.bias { outs as u32 } else { 0 },
            };
            let mut bindings = vec![(0, self.step.clone()), (2, piece.buffer.whole()), (3, x.clone())];
            bindings.extend(targets.iter().cloned());
            bindings.extend(of_model.map(|_| (10, self.tiles.clone())));
            Lowered {
                choice: KernelChoice::Matmul(piece.format(), arithmetic, epilogues),
                grid: match of_model {
                    Some(experts) => WorkGrid::Experts(outs as u32, experts),
                    None => WorkGrid::Outputs(piece.rows as u32),
                },
                bindings,
                blocks: vec![(1, uniforms.add(&[dims])), (8, heads)],
            }
        });
        let pieces: Vec<_> = pieces.collect();
        quantise.into_iter().chain(pieces).collect()
    }
}
