//! A model on the GPU: its plan bound to buffers, ready to be recorded for any number of rows.

use super::memory::{BLOCK, Capacity, FEW_ROWS, Memory, Sizes, stride};
use super::target::MAX_DRAFT;
use super::upload::{Backlog, Matrix, check_vector, load_vectors, matrix_dtype};
use crate::error::{Error, Result};
use crate::gpu::{Buffer, Call, Epilogue, Gpu, Kernel, Recorder, Slice, Uniforms, split_grid};
use crate::model::{ModelSpec, Op, Output, Plan, rotary_table};
use crate::weights::{Dtype, Source, Weights};
use bytemuck::{Pod, Zeroable};
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

/// Where a forward pass stands; twin of `Step` in `shaders/lib/step.wgsl`.
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub struct Step {
    /// KV positions filled before this pass.
    pub position: u32,
    /// Rows in this pass.
    pub rows: u32,
    /// Index in the round buffer of the first row's token id.
    pub token: u32,
    /// First row whose logits are wanted.
    pub logit_row: u32,
    /// Index in the round buffer for the first sampled id.
    pub out: u32,
}

/// Twin of `MatmulDims` in `shaders/lib/matmul.wgsl`.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct MatmulDims {
    pub chunks: u32,
    pub outs: u32,
    pub first_out: u32,
    pub x_stride: u32,
    pub y_stride: u32,
    pub head: u32,
}

/// Twin of `HeadDims` in `shaders/lib/heads.wgsl`.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct HeadDims {
    pub heads: u32,
    pub kv_heads: u32,
    pub head_dim: u32,
    pub rotary: u32,
    pub blocks: u32,
    pub q_stride: u32,
    pub window: u32,
    pub scale: f32,
}

/// Twin of `EmbedDims` in `shaders/embed.wgsl`.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct EmbedDims {
    pub chunks: u32,
    pub first_id: u32,
    pub ids: u32,
    pub x_stride: u32,
    pub scale: f32,
}

/// Twin of `NormDims` in `shaders/norm_rms.wgsl`.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct NormDims {
    pub width: u32,
    pub stride: u32,
    pub head: u32,
    pub eps: f32,
}

/// Twin of `SampleDims` in `shaders/sample.wgsl`.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct SampleDims {
    pub vocab: u32,
    pub stride: u32,
    pub advance: u32,
}

/// Which kernel a node runs, for how many rows.
#[derive(Clone, Copy)]
enum Choice {
    Always(Kernel),
    Matmul(Dtype, Epilogue),
    FewRows(Kernel),
    ManyRows(Kernel),
}

/// How many workgroups a node needs.
#[derive(Clone, Copy)]
enum Grid {
    /// So many per row.
    PerRow(u32),
    /// One per row, rows in x.
    Rows,
    /// So many outputs, by the tile of the chosen kernel.
    Outputs(u32),
    /// One per KV head and block that any row sees.
    Blocks { kv_heads: u32, window: u32 },
    /// One per KV head and 8 query vectors.
    Vectors { kv_heads: u32, group: u32 },
}

/// A step of the plan with its buffers. Calls are made at first use, one per kernel variant.
struct Node {
    choice: Choice,
    grid: Grid,
    bindings: Vec<(u32, Slice)>,
    calls: RefCell<HashMap<Kernel, Rc<Call>>>,
}

impl Node {
    fn new(choice: Choice, grid: Grid, bindings: Vec<(u32, Slice)>) -> Self {
        Self { choice, grid, bindings, calls: RefCell::default() }
    }

    fn record(&self, gpu: &Gpu, recorder: &mut Recorder<'_>, rows: u32, position: u32) {
        let few = rows <= FEW_ROWS as u32;
        let variant = Kernel::ROWS.into_iter().find(|variant| *variant >= rows);
        let (kernel, row_tile, out_tile) = match self.choice {
            Choice::Always(kernel) => (kernel, 1, 1),
            Choice::FewRows(kernel) if few => (kernel, 1, 1),
            Choice::ManyRows(kernel) if !few => (kernel, 1, 1),
            Choice::FewRows(_) | Choice::ManyRows(_) => return,
            Choice::Matmul(dtype, epilogue) => match variant {
                Some(variant) => (Kernel::MatmulRows(dtype, variant, epilogue), variant, 8),
                None => (Kernel::MatmulTile(dtype, epilogue), 32, 32),
            },
        };
        let grid = match self.grid {
            Grid::PerRow(x) => [x, rows, 1],
            Grid::Rows => [rows, 1, 1],
            Grid::Outputs(outs) => split_grid(outs.div_ceil(out_tile), rows.div_ceil(row_tile)),
            Grid::Blocks { kv_heads, window } => {
                let first = (position + 1 - window.min(position + 1)) / BLOCK as u32;
                [kv_heads, (position + rows - 1) / BLOCK as u32 + 1 - first, 1]
            }
            Grid::Vectors { kv_heads, group } => [kv_heads, (rows * group).div_ceil(8), 1],
        };
        let call = {
            let mut calls = self.calls.borrow_mut();
            calls.entry(kernel).or_insert_with(|| Rc::new(gpu.call(kernel, &self.bindings))).clone()
        };
        recorder.dispatch(&call, grid);
    }
}

/// A model on the GPU. Its KV cache is a place; how much of it is filled, the caller says with each pass.
pub struct Model {
    gpu: Rc<Gpu>,
    spec: ModelSpec,
    plan: Plan,
    capacity: Capacity,
    memory: Memory,
    step: Buffer,
    kv: Vec<Buffer>,
    logits: Buffer,
    body: Vec<Node>,
    head: Vec<Node>,
    verify: Node,
    draft: Node,
}

/// What a model is made of before it is on the GPU.
pub struct Blueprint {
    /// The description.
    pub spec: ModelSpec,
    /// The kernel calls.
    pub plan: Plan,
    /// The dtype of each matrix.
    pub dtypes: Vec<Dtype>,
    /// The room it is given.
    pub capacity: Capacity,
}

impl Blueprint {
    /// Plans a model; checks the name and shape of every tensor, from headers alone.
    ///
    /// # Errors
    /// [`Error::BadWeights`].
    pub fn new<S: Source>(spec: ModelSpec, weights: &Weights<S>, capacity: Capacity) -> Result<Self> {
        let plan = Plan::new(&spec);
        let dtypes = plan.matrices.iter().map(|matrix| matrix_dtype(weights, matrix)).collect::<Result<_>>()?;
        plan.vectors.iter().try_for_each(|vector| check_vector(weights, vector))?;
        Ok(Self { spec, plan, dtypes, capacity })
    }

    /// Bytes that it will need.
    pub fn memory(&self) -> Memory {
        Memory::of(&self.spec, &self.plan, &self.dtypes, &self.capacity)
    }
}

impl Model {
    /// Puts a model on the GPU: plans the memory, compares it with the limits, allocates, and streams the weights.
    /// Without weights it fills the matrices with pseudo-random numbers, for benchmarks of shapes.
    ///
    /// `round` holds the token ids; `vocab` caps the ids that it may sample. `loaded` hears of uploaded bytes.
    ///
    /// # Errors
    /// [`Error::OutOfGpuMemory`], [`Error::BadWeights`], and what the source and the device report.
    pub async fn load<S: Source>(
        gpu: &Rc<Gpu>,
        blueprint: Blueprint,
        weights: Option<&Weights<S>>,
        round: &Buffer,
        vocab: usize,
        loaded: &mut dyn FnMut(u64),
    ) -> Result<Self> {
        let memory = blueprint.memory();
        let Blueprint { spec, plan, dtypes, capacity } = blueprint;
        let sizes = Sizes::new(&spec, &plan, &capacity);
        let limit = gpu.info().max_binding_size.min(gpu.info().max_buffer_size);
        let largest = [
            ("the KV cache of a layer", sizes.layer_kv),
            ("the attention blocks", sizes.partial),
            ("the logits", sizes.logits),
            ("the MLP rows", sizes.mlp),
        ];
        for (what, need) in largest {
            if need > limit {
                return Err(Error::OutOfGpuMemory { what: what.into(), need, limit });
            }
        }
        let mut backlog = Backlog::default();
        let mut matrices = Vec::new();
        for (matrix, dtype) in plan.matrices.iter().zip(dtypes) {
            let on_gpu = Matrix::allocate(gpu, matrix, dtype)?;
            match weights {
                Some(weights) => on_gpu.load(gpu, weights, matrix, &mut backlog, loaded).await?,
                None => fill(gpu, &on_gpu),
            }
            matrices.push(on_gpu);
        }
        let vectors = load_vectors(gpu, weights, &plan.vectors).await?;
        gpu.flush()?;
        let mut tables = Vec::new();
        for rope in &spec.ropes {
            tables.push(gpu.buffer_of("rotary table", &rotary_table(rope, capacity.max_context))?);
        }
        let kv = spec.layers.iter().map(|_| gpu.buffer("kv cache", sizes.layer_kv)).collect::<Result<Vec<_>>>()?;
        let step = gpu.buffer("step", size_of::<Step>() as u64)?;
        let logits = gpu.buffer("logits", sizes.logits)?;
        let binder = Binder {
            spec: &spec,
            capacity: &capacity,
            matrices: &matrices,
            vectors: &vectors,
            tables: &tables,
            kv: &kv,
            round: round.whole(),
            step: step.whole(),
            residual: gpu.buffer("residual", sizes.hidden)?.whole(),
            normed: gpu.buffer("normed", sizes.hidden)?.whole(),
            query: gpu.buffer("query", sizes.query)?.whole(),
            attended: gpu.buffer("attended", sizes.query)?.whole(),
            qkv: gpu.buffer("qkv", sizes.qkv)?.whole(),
            mlp: gpu.buffer("mlp", sizes.mlp)?.whole(),
            logits: logits.whole(),
            partial: gpu.buffer("attention blocks", sizes.partial)?.whole(),
            norms: gpu.buffer("attention norms", sizes.norms)?.whole(),
        };
        let mut uniforms = Uniforms::default();
        let mut lowered = Vec::new();
        for op in plan.body.iter().chain(&plan.head) {
            lowered.push(binder.lower(op, &mut uniforms));
        }
        let sample = |advance| SampleDims { vocab: vocab as u32, stride: spec.vocab_size as u32, advance };
        let verify = uniforms.add(&[sample(0)]);
        let draft = uniforms.add(&[sample(1)]);
        let blocks = uniforms.upload(gpu, "dimensions")?;
        let sampler = |dims: usize| {
            let bindings = vec![
                (0, step.whole()),
                (1, blocks[dims].clone()),
                (2, logits.whole()),
                (3, round.whole()),
            ];
            Node::new(Choice::Always(Kernel::Sample), Grid::Rows, bindings)
        };
        let (verify, draft) = (sampler(verify), sampler(draft));
        let mut nodes = lowered.into_iter().map(|drafts: Vec<Lowered>| {
            drafts.into_iter().map(|lowered| lowered.bind(&blocks)).collect::<Vec<_>>()
        });
        let body = nodes.by_ref().take(plan.body.len()).flatten().collect();
        let head = nodes.flatten().collect();
        Ok(Self { gpu: gpu.clone(), spec, plan, capacity, memory, step, kv, logits, body, head, verify, draft })
    }

    /// What it is.
    pub fn spec(&self) -> &ModelSpec {
        &self.spec
    }

    /// What it does.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The room it was given.
    pub fn capacity(&self) -> &Capacity {
        &self.capacity
    }

    /// Bytes planned for it.
    pub fn memory(&self) -> Memory {
        self.memory
    }

    /// Logits of the last pass with a head [rows, vocab].
    pub fn logits(&self) -> &Buffer {
        &self.logits
    }

    /// The KV cache, one buffer per layer.
    pub fn kv(&self) -> &[Buffer] {
        &self.kv
    }

    /// Sets where the next recorded pass starts.
    pub fn set_step(&self, step: Step) {
        self.gpu.write(&self.step, 0, bytemuck::bytes_of(&step));
    }

    /// Records the layers: rows of the step -> residual stream and KV cache.
    pub fn record_body(&self, recorder: &mut Recorder<'_>, rows: usize, position: usize) {
        for node in &self.body {
            node.record(&self.gpu, recorder, rows as u32, position as u32);
        }
    }

    /// Records the LM head for `rows` rows, from the step's `logit_row` on.
    pub fn record_head(&self, recorder: &mut Recorder<'_>, rows: usize) {
        for node in &self.head {
            node.record(&self.gpu, recorder, rows as u32, 0);
        }
    }

    /// Records sampling for `rows` rows of logits.
    pub fn record_sample(&self, recorder: &mut Recorder<'_>, rows: usize) {
        self.verify.record(&self.gpu, recorder, rows as u32, 0);
    }

    /// Records sampling for one row, whose token the next pass reads.
    pub fn record_draft_sample(&self, recorder: &mut Recorder<'_>) {
        self.draft.record(&self.gpu, recorder, 1, 0);
    }

    /// Most rows of one pass.
    pub fn max_rows(&self) -> usize {
        self.capacity.prefill_chunk.max(MAX_DRAFT + 1)
    }
}

fn fill(gpu: &Gpu, matrix: &Matrix) {
    for piece in &matrix.pieces {
        let call = gpu.call(Kernel::Fill(matrix.dtype), &[(0, piece.buffer.whole())]);
        let mut recorder = gpu.record();
        recorder.dispatch(&call, [1024, 1, 1]);
        recorder.submit(None);
    }
}

/// A node whose uniform blocks are not uploaded yet: (binding, block).
struct Lowered {
    choice: Choice,
    grid: Grid,
    bindings: Vec<(u32, Slice)>,
    blocks: Vec<(u32, usize)>,
}

impl Lowered {
    fn bind(mut self, blocks: &[Slice]) -> Node {
        self.bindings.extend(self.blocks.into_iter().map(|(binding, block)| (binding, blocks[block].clone())));
        Node::new(self.choice, self.grid, self.bindings)
    }
}

/// Gives the plan's steps their buffers.
struct Binder<'a> {
    spec: &'a ModelSpec,
    capacity: &'a Capacity,
    matrices: &'a [Matrix],
    vectors: &'a [Slice],
    tables: &'a [Buffer],
    kv: &'a [Buffer],
    round: Slice,
    step: Slice,
    residual: Slice,
    normed: Slice,
    query: Slice,
    attended: Slice,
    qkv: Slice,
    mlp: Slice,
    logits: Slice,
    partial: Slice,
    norms: Slice,
}

impl Binder<'_> {
    fn heads(&self, layer: usize) -> HeadDims {
        let spec = self.spec;
        let at = &spec.layers[layer];
        HeadDims {
            heads: spec.num_attention_heads as u32,
            kv_heads: spec.num_key_value_heads as u32,
            head_dim: spec.head_dim as u32,
            rotary: at.rope.map_or(0, |rope| spec.ropes[rope].rotary_dim) as u32,
            blocks: self.capacity.max_context.div_ceil(BLOCK) as u32,
            q_stride: stride(spec.q_width()) as u32,
            window: at.window.unwrap_or(self.capacity.max_context).min(1 << 30) as u32,
            scale: spec.attention_scale,
        }
    }

    fn table(&self, layer: usize) -> Slice {
        self.tables[self.spec.layers[layer].rope.unwrap_or(0)].whole()
    }

    fn lower(&self, op: &Op, uniforms: &mut Uniforms) -> Vec<Lowered> {
        let spec = self.spec;
        let kv = self.capacity.kv_dtype;
        let hidden = stride(spec.hidden_size) as u32;
        match *op {
            Op::Embed { table } => {
                let matrix = &self.matrices[table.0];
                let pieces = matrix.pieces.iter().map(|piece| {
                    let dims = EmbedDims {
                        chunks: matrix.chunks as u32,
                        first_id: piece.first as u32,
                        ids: piece.rows as u32,
                        x_stride: hidden / 4,
                        scale: spec.embedding_scale,
                    };
                    Lowered {
                        choice: Choice::Always(Kernel::Embed(matrix.dtype)),
                        grid: Grid::PerRow((matrix.chunks as u32).div_ceil(64)),
                        bindings: vec![
                            (0, self.step.clone()),
                            (2, piece.buffer.whole()),
                            (3, self.round.clone()),
                            (4, self.residual.clone()),
                        ],
                        blocks: vec![(1, uniforms.add(&[dims]))],
                    }
                });
                pieces.collect()
            }
            Op::Norm { gain, head } => {
                let dims = NormDims {
                    width: spec.hidden_size as u32,
                    stride: hidden / 4,
                    head: u32::from(head),
                    eps: spec.norm_eps as f32,
                };
                let bindings = vec![
                    (0, self.step.clone()),
                    (2, self.residual.clone()),
                    (3, self.vectors[gain.0].clone()),
                    (4, self.normed.clone()),
                ];
                let blocks = vec![(1, uniforms.add(&[dims]))];
                vec![Lowered { choice: Choice::Always(Kernel::NormRms), grid: Grid::Rows, bindings, blocks }]
            }
            Op::Matmul { matrix, output } => self.lower_matmul(&self.matrices[matrix.0], output, uniforms),
            Op::QkNorm { layer, gain, bias } => {
                let bindings = vec![
                    (0, self.step.clone()),
                    (2, self.qkv.clone()),
                    (3, self.vectors[gain.0].clone()),
                    (4, self.vectors[bias.0].clone()),
                    (5, self.table(layer)),
                    (6, self.query.clone()),
                    (7, self.kv[layer].whole()),
                ];
                let blocks = vec![(1, uniforms.add(&[spec.norm_eps as f32])), (8, uniforms.add(&[self.heads(layer)]))];
                let heads = spec.num_attention_heads + 2 * spec.num_key_value_heads;
                let choice = Choice::Always(Kernel::QkNorm(kv));
                vec![Lowered { choice, grid: Grid::PerRow(heads as u32), bindings, blocks }]
            }
            Op::Attention { layer } => self.lower_attention(layer, uniforms),
        }
    }

    fn lower_matmul(&self, matrix: &Matrix, output: Output, uniforms: &mut Uniforms) -> Vec<Lowered> {
        let spec = self.spec;
        let hidden = stride(spec.hidden_size);
        let vector = |id: crate::model::VectorId| self.vectors[id.0].clone();
        let mut blocks = Vec::new();
        let (epilogue, x, x_stride, y_stride, targets) = match output {
            Output::Qkv => (Epilogue::Store, &self.normed, hidden, spec.qkv_width(), vec![(4, self.qkv.clone())]),
            Output::Logits => (Epilogue::Store, &self.normed, hidden, spec.vocab_size, vec![(4, self.logits.clone())]),
            Output::AttentionResidual { bias } => {
                let targets = vec![(4, vector(bias)), (5, self.residual.clone())];
                (Epilogue::Residual, &self.attended, stride(spec.q_width()), hidden, targets)
            }
            Output::MlpResidual { bias } => {
                let targets = vec![(4, vector(bias)), (5, self.residual.clone())];
                (Epilogue::Residual, &self.mlp, stride(spec.intermediate_size), hidden, targets)
            }
            Output::Gate { bias, activation } => {
                let targets = vec![(4, vector(bias)), (5, self.mlp.clone())];
                (Epilogue::Gate(activation), &self.normed, hidden, stride(spec.intermediate_size), targets)
            }
            Output::Rotary { layer, bias } => {
                blocks.push((8, uniforms.add(&[self.heads(layer)])));
                let targets = vec![
                    (4, vector(bias)),
                    (5, self.table(layer)),
                    (6, self.query.clone()),
                    (7, self.kv[layer].whole()),
                ];
                (Epilogue::Rotary(self.capacity.kv_dtype), &self.normed, hidden, 0, targets)
            }
        };
        let pieces = matrix.pieces.iter().map(|piece| {
            let dims = MatmulDims {
                chunks: matrix.chunks as u32,
                outs: piece.rows as u32,
                first_out: piece.first as u32,
                x_stride: x_stride as u32 / 4,
                y_stride: y_stride as u32,
                head: u32::from(output == Output::Logits),
            };
            let mut bindings = vec![(0, self.step.clone()), (2, piece.buffer.whole()), (3, x.clone())];
            bindings.extend(targets.iter().cloned());
            let mut blocks = blocks.clone();
            blocks.push((1, uniforms.add(&[dims])));
            Lowered {
                choice: Choice::Matmul(matrix.dtype, epilogue),
                grid: Grid::Outputs(piece.rows as u32),
                bindings,
                blocks,
            }
        });
        pieces.collect()
    }

    /// Two dispatches for few rows, one for many.
    fn lower_attention(&self, layer: usize, uniforms: &mut Uniforms) -> Vec<Lowered> {
        let heads = self.heads(layer);
        let dims = uniforms.add(&[heads]);
        let kv = self.capacity.kv_dtype;
        let kv_heads = heads.kv_heads;
        let lowered = |choice, grid, bindings: Vec<(u32, &Slice)>| Lowered {
            choice,
            grid,
            bindings: bindings.into_iter().map(|(binding, slice)| (binding, slice.clone())).collect(),
            blocks: vec![(1, dims)],
        };
        let cache = &self.kv[layer].whole();
        let split = vec![(0, &self.step), (2, &self.query), (3, cache), (4, &self.partial), (5, &self.norms)];
        let merge = vec![(0, &self.step), (2, &self.partial), (3, &self.norms), (4, &self.attended)];
        let prefill = vec![(0, &self.step), (2, &self.query), (3, cache), (4, &self.attended)];
        let blocks = Grid::Blocks { kv_heads, window: heads.window };
        let vectors = Grid::Vectors { kv_heads, group: heads.heads / kv_heads };
        vec![
            lowered(Choice::FewRows(Kernel::Attention(kv)), blocks, split),
            lowered(Choice::FewRows(Kernel::AttentionMerge), Grid::PerRow(heads.heads), merge),
            lowered(Choice::ManyRows(Kernel::AttentionPrefill(kv)), vectors, prefill),
        ]
    }
}
