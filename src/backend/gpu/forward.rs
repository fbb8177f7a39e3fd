//! A model on the GPU: its plan with bound buffers, ready to record for any number of rows.

use super::bind::{Binder, Lowered};
use super::dims::Step;
use super::memory::{CacheSizes, FIRST_POSITIONS, Sizes, whole_blocks};
use super::node::{GpuPass, KernelChoice, Node, Positions, blocks, choose_probes};
use super::round::RoundBuffers;
use super::upload::{Backlog, GpuMatrix, allocate_vectors, fill, load_vectors};
use super::variants::{TILE, Variants};
use crate::error::Result;
use crate::gpu::{Arithmetic, Buffer, Gpu, Kernel, Recorder, Slice, Uniforms};
use crate::model::{Blueprint, Capacity, Memory, ModelSpec, Plan, adjacent, rotary_table};
use crate::target::{MAX_DRAFT, StatePass};
use crate::weights::Weights;
use bytemuck::Zeroable;
use std::cell::Cell;
use std::ops::Range;
use std::rc::Rc;

/// A model on the GPU. Its KV cache grows on request. The caller passes the number of filled positions with each pass.
pub struct GpuModel {
    gpu: Rc<Gpu>,
    blueprint: Blueprint,
    arithmetic: Arithmetic,
    variants: Cell<Variants>,
    step: Slice,
    /// Step of passes over hidden states of the target; that of other passes if there are none.
    context_step: Slice,
    /// State of each layer: keys and values, or recurrent state.
    layers: Vec<Buffer>,
    /// Positions that the KV cache has room for now.
    room: usize,
    partial: Buffer,
    norms: Buffer,
    logits: Buffer,
    /// Matrices in the order of the plan.
    matrices: Vec<GpuMatrix>,
    /// Hidden states of the latest positions, which the target keeps and its drafter reads.
    kept: Slice,
    /// Steps from them to keys and values; none unless it is a block drafter.
    context: Vec<Node>,
    body: Vec<Node>,
    /// Steps that keep them; none without a drafter.
    keep: Vec<Node>,
    head: Vec<Node>,
    /// Steps of a Markov head; none without one.
    markov: Vec<Node>,
    /// The head's final norm alone; compiled on first use.
    final_norm: Vec<Node>,
    normed: Slice,
    /// Distinct attention windows of the layers.
    windows: Vec<u32>,
}

impl GpuModel {
    /// Loads a model: plans memory, checks it against the limits, allocates, and streams the weights. Without weights, fills
    /// matrices with pseudo-random numbers, for benchmarks of shapes. A drafter that reads the hidden states of `target` shares its embedding
    /// and head.
    ///
    /// Calls `loaded` with the bytes of each upload.
    pub async fn load(
        gpu: &Rc<Gpu>,
        blueprint: &Blueprint,
        weights: Option<&Weights>,
        round: &RoundBuffers,
        target: Option<&Self>,
        loaded: &mut dyn FnMut(u64),
    ) -> Result<Self> {
        let memory = blueprint.memory();
        blueprint.check(gpu.info())?;
        let Blueprint { spec, plan, sections, capacity, .. } = blueprint;
        let sizes = Sizes::new(blueprint);
        let room = capacity.max_context.min(FIRST_POSITIONS);
        let cache = CacheSizes::new(blueprint, room);
        let shared = |matrix| target.and_then(|target| target.matrices.get(plan.shared(matrix, target.plan())?));
        // Allocate everything large before anything is read.
        let allocate = || {
            let matrices = plan.matrices.iter().zip(sections).enumerate();
            let matrices = matrices.map(|(index, (matrix, sections))| match shared(index) {
                Some(shared) => Ok(shared.clone()),
                None => GpuMatrix::allocate(gpu, matrix, sections),
            });
            let tables = sizes.tables.iter().map(|&bytes| gpu.buffer("rotary table", bytes));
            Ok(Binder {
                blueprint,
                matrices: matrices.collect::<Result<_>>()?,
                vectors: allocate_vectors(gpu, &plan.vectors)?,
                tables: tables.collect::<Result<_>>()?,
                layers: match target.filter(|_| spec.shares_kv()) {
                    Some(target) => target.layers.clone(),
                    None => cache.layers.iter().map(|&bytes| gpu.buffer("kv cache", bytes)).collect::<Result<_>>()?,
                },
                round: round.tokens.whole(),
                sampling: round.sampling.whole(),
                step: gpu.buffer("step", size_of::<Step>() as u64)?.whole(),
                residual: gpu.buffer("residual", sizes.hidden)?.whole(),
                normed: gpu.buffer("normed", sizes.hidden)?.whole(),
                query: gpu.buffer("query", sizes.query)?.whole(),
                mixed: gpu.buffer("mixed", sizes.mixed)?.whole(),
                projected: gpu.buffer("projected", sizes.projected)?.whole(),
                mlp: gpu.buffer("mlp", sizes.mlp)?.whole(),
                branches: gpu.buffer("branches", sizes.branches)?.whole(),
                kept: match target.filter(|_| spec.needs_target()) {
                    Some(target) => target.kept.clone(),
                    None => gpu.buffer("hidden states", sizes.kept)?.whole(),
                },
                joined: gpu.buffer("joined", sizes.joined)?.whole(),
                markov: gpu.buffer("markov rows", sizes.markov)?.whole(),
                layer_inputs: gpu.buffer("layer inputs", sizes.layer_inputs)?.whole(),
                choices: gpu.buffer("experts of rows", sizes.choices)?.whole(),
                tiles: gpu.buffer("rows of experts", sizes.tiles)?.whole(),
                of_experts: gpu.buffer("results of experts", sizes.of_experts)?.whole(),
                logits: gpu.buffer("logits", sizes.logits)?,
                partial: gpu.buffer("attention blocks", cache.partial)?,
                norms: gpu.buffer("attention norms", cache.norms)?,
                gained: gpu.buffer("normed", sizes.gained)?.whole(),
                quantised: gpu.buffer("quantised", sizes.quantised)?.whole(),
                arithmetic: Arithmetic::F32,
                unused: [gpu.buffer("unused", 16)?, gpu.buffer("unused", 16)?],
            })
        };
        let mut binder = gpu.allocating("the model", memory.total(), allocate).await?;
        binder.choose_arithmetic(gpu, blueprint).await?;
        // A browser compiles the kernels while the weights arrive.
        let mut uniforms = Uniforms::default();
        let lowered = binder.lower_all(plan.body.iter().chain(&plan.head), &mut uniforms);
        // Lowered alone, so not fused into a matmul.
        let final_norm = binder.lower_all(plan.head.iter().take(1), &mut uniforms);
        let keep = binder.lower_all(plan.kept.iter(), &mut uniforms);
        let markov = binder.lower_all(plan.markov.iter(), &mut uniforms);
        let step = binder.step.clone();
        if !plan.context.is_empty() {
            binder.step = gpu.buffer("step", size_of::<Step>() as u64)?.whole();
        }
        let context = binder.lower_all(plan.context.iter(), &mut uniforms);
        let blocks = uniforms.upload(gpu, "dimensions")?;
        let mut nodes = lowered
            .into_iter()
            .map(|op: Vec<_>| op.into_iter().map(|lowered: Lowered| lowered.bind(gpu, &blocks)).collect::<Vec<_>>());
        let mut body: Vec<Vec<Node>> = nodes.by_ref().take(plan.body.len()).collect();
        let head: Vec<Node> = nodes.flatten().collect();
        let [final_norm, keep, context, markov] = [final_norm, keep, context, markov].map(|lowered| {
            lowered.into_iter().flatten().map(|lowered| lowered.bind(gpu, &blocks)).collect::<Vec<Node>>()
        });
        choose_probes(&mut body, &plan.layers);
        let body: Vec<Node> = body.into_iter().flatten().collect();
        let mut windows = Vec::new();
        for window in body.iter().filter_map(Node::window) {
            if !windows.contains(&window) {
                windows.push(window);
            }
        }

        let Binder { step: context_step, layers, partial, norms, logits, normed, kept, arithmetic, .. } = binder;
        let Binder { matrices, vectors, tables, .. } = binder;
        let blueprint = Blueprint { arithmetic: arithmetic.into(), ..blueprint.clone() };
        let variants = Cell::default();
        let model = Self {
            gpu: gpu.clone(),
            blueprint,
            arithmetic,
            variants,
            step,
            context_step,
            layers,
            room,
            partial,
            norms,
            logits,
            matrices,
            kept,
            context,
            body,
            keep,
            head,
            markov,
            final_norm,
            normed,
            windows,
        };
        model.compile(1);
        model.compile(model.chunk());

        let mut backlog = Backlog::default();
        let matrices = plan.matrices.iter().zip(&model.matrices).enumerate();
        for (_, (matrix, on_gpu)) in matrices.filter(|(index, _)| shared(*index).is_none()) {
            match weights {
                Some(weights) => on_gpu.load(gpu, weights, matrix, &mut backlog, loaded).await?,
                None => fill(gpu, on_gpu),
            }
        }
        load_vectors(gpu, weights, &plan.vectors, &vectors).await?;
        for (rope, table) in spec.ropes.iter().zip(&tables) {
            let angles = rotary_table(rope, capacity.max_context);
            table.whole().write_bytes(gpu, bytemuck::cast_slice(&angles));
        }
        gpu.flush().await?;
        Ok(model)
    }

    fn nodes(&self) -> impl Iterator<Item = &Node> {
        self.context.iter().chain(&self.body).chain(&self.keep).chain(&self.head).chain(&self.markov)
    }

    /// Compiles the best kernels for `rows` rows.
    pub(super) fn compile(&self, rows: usize) {
        self.nodes().for_each(|node| self.gpu.compile(node.best(rows, self.variants.get())));
    }

    /// Like [`GpuModel::compile`], in a browser while the device computes. Returns true if all are compiled.
    pub(super) fn compile_beside(&self, rows: usize) -> bool {
        let mut is_compiled = true;
        for node in self.nodes() {
            is_compiled &= self.gpu.compile_beside(node.best(rows, self.variants.get()));
        }
        is_compiled
    }

    /// Marks a variant as ready, and all variants that run the same kernels.
    pub(super) fn learn(&self, variant: usize, differs: bool) {
        let mut variants = self.variants.get();
        let is_same = |other: &usize| self.nodes().all(|node| node.has_same_kernels(variant, *other));
        (0..=TILE).filter(is_same).for_each(|variant| variants.learn(variant, differs));
        self.variants.set(variants);
    }

    /// Returns the positions that fit the KV cache without growing.
    pub(super) fn room(&self) -> usize {
        self.room
    }

    /// Grows the KV cache to hold `positions`, at most [`Capacity::max_context`]. It doubles layer by layer, so that only one layer
    /// is in memory twice. Cached positions are kept. Commands recorded earlier become invalid, even after an error. A `drafter` may attend
    /// to the cache.
    ///
    /// # Errors
    /// [`Error::OutOfGpuMemory`]; the number of positions is then unchanged.
    pub(super) async fn make_room(&mut self, positions: usize, mut drafter: Option<&mut Self>) -> Result<()> {
        let room = positions.next_power_of_two().min(self.capacity().max_context);
        let sizes = CacheSizes::new(&self.blueprint, room);
        let Self { gpu, layers, partial, norms, body, context, .. } = self;
        let blocks = [(partial, sizes.partial, "the attention blocks"), (norms, sizes.norms, "the attention norms")];
        let caches =
            layers.iter_mut().zip(sizes.layers).map(|(layer, bytes)| (layer, bytes, "the KV cache of a layer"));
        // Recurrent state does not grow.
        for (buffer, bytes, what) in caches.chain(blocks).filter(|(buffer, bytes, _)| *bytes > buffer.size()) {
            let larger = gpu.allocating(what, bytes, || gpu.buffer(what, bytes)).await?;
            gpu.copy(buffer, &larger);
            context.iter_mut().chain(body.iter_mut()).for_each(|node| node.replace(gpu, buffer, &larger));
            drafter.iter_mut().for_each(|drafter| drafter.replace(buffer, &larger));
            *buffer = larger;
        }
        self.room = room;
        Ok(())
    }

    /// Binds a larger cache of the target in place of the one that it had.
    fn replace(&mut self, old: &Buffer, new: &Buffer) {
        if self.spec().shares_kv() {
            let Self { gpu, layers, body, .. } = self;
            body.iter_mut().for_each(|node| node.replace(gpu, old, new));
            layers.iter_mut().filter(|layer| layer.whole().is_of(old)).for_each(|layer| *layer = new.clone());
        }
    }

    /// Returns the bytes of each layer's state, as parts of it, that a copy of `positions` needs.
    pub(super) fn copied(&self, positions: usize) -> Vec<Vec<Range<u64>>> {
        self.blueprint.copied(positions, whole_blocks(positions)).collect()
    }

    /// Submits a pass that only saves recurrent states, for a copy of `positions`.
    pub(super) fn settle(&self, positions: usize, states: StatePass) {
        let position = positions - 1;
        self.set_step(Step { position: position as u32, ..Step::zeroed() }.with_states(states));
        let mut recorder = self.gpu.record();
        let pass = self.pass(0, &(0..=0));
        self.body.iter().filter(|node| node.saves_state()).for_each(|node| node.record(&mut recorder, pass));
        recorder.submit(None);
    }

    /// Copies what the layers keep of the first `positions`.
    pub(super) async fn copy_kv(&self, positions: usize) -> Result<Vec<Buffer>> {
        let parts = self.copied(positions);
        let bytes: Vec<u64> = parts.iter().map(|parts| adjacent(parts).last().map_or(0, |place| place.end)).collect();
        let what = "a snapshot of the KV cache";
        let buffers = || bytes.iter().map(|&bytes| self.gpu.buffer(what, bytes)).collect::<Result<Vec<_>>>();
        let copies = self.gpu.allocating(what, bytes.iter().sum(), buffers).await?;
        for ((layer, copy), parts) in self.layers.iter().zip(&copies).zip(parts) {
            let places = adjacent(&parts);
            self.gpu.copy_parts(layer, copy, parts.into_iter().zip(places));
        }
        Ok(copies)
    }

    /// Restores copies by [`GpuModel::copy_kv`]; there must be room for them.
    pub(super) fn restore_kv(&self, copies: &[Buffer], positions: usize) {
        for ((copy, layer), parts) in copies.iter().zip(&self.layers).zip(self.copied(positions)) {
            self.gpu.copy_parts(copy, layer, adjacent(&parts).into_iter().zip(parts));
        }
    }

    /// Returns the model's specification.
    pub fn spec(&self) -> &ModelSpec {
        &self.blueprint.spec
    }

    /// Returns the model's plan.
    pub fn plan(&self) -> &Plan {
        &self.blueprint.plan
    }

    /// Returns the arithmetic used for quantised weights.
    pub fn arithmetic(&self) -> Arithmetic {
        self.arithmetic
    }

    /// Returns the model's capacity.
    pub fn capacity(&self) -> &Capacity {
        &self.blueprint.capacity
    }

    /// Returns the planned bytes, for a cache of the full context.
    pub fn memory(&self) -> Memory {
        self.blueprint.memory()
    }

    /// Returns the bytes in use.
    pub fn memory_now(&self) -> Memory {
        self.blueprint.memory_for(self.room)
    }

    /// Returns the logits of the last pass with a head [rows, vocab], each row padded to 16 bytes.
    pub fn logits(&self) -> &Buffer {
        &self.logits
    }

    /// Returns what each layer keeps of the text.
    pub fn layers(&self) -> &[Buffer] {
        &self.layers
    }

    /// Returns the model's blueprint.
    pub(super) fn blueprint(&self) -> &Blueprint {
        &self.blueprint
    }

    pub(super) fn step(&self) -> &Slice {
        &self.step
    }

    /// Sets the start of the next recorded pass.
    pub fn set_step(&self, step: Step) {
        self.step.write_bytes(&self.gpu, bytemuck::bytes_of(&step));
    }

    fn pass<'a>(&self, rows: usize, positions: &'a Positions) -> GpuPass<'a> {
        GpuPass { rows: rows as u32, positions, variants: self.variants.get(), outs: u32::MAX }
    }

    /// Records the layers: token ids -> residual stream and KV cache. The pass starts at one of `positions`.
    pub(super) fn record_body(&self, recorder: &mut Recorder<'_>, rows: usize, positions: &Positions) {
        let pass = self.pass(rows, positions);
        self.body.iter().chain(&self.keep).for_each(|node| node.record(recorder, pass));
    }

    /// Returns the step of passes over hidden states of the target; `None`: it reads tokens.
    pub(super) fn context_step(&self) -> Option<&Slice> {
        (!self.context.is_empty()).then_some(&self.context_step)
    }

    /// Sets the start of the next recorded pass of [`GpuModel::record_reading`].
    pub(super) fn set_reading_step(&self, step: Step) {
        self.context_step.write_bytes(&self.gpu, bytemuck::bytes_of(&step));
    }

    /// Records a pass that only fills the KV cache, and the hidden states to keep.
    pub(super) fn record_reading(&self, recorder: &mut Recorder<'_>, rows: usize, positions: &Positions) {
        if self.context.is_empty() {
            return self.record_body(recorder, rows, positions);
        }
        let pass = self.pass(rows, positions);
        self.context.iter().for_each(|node| node.record(recorder, pass));
    }

    /// Records a few layers that together use every kernel, and the first `outs` logits of the head for the last `wanted` rows.
    pub(super) fn record_probe(
        &self,
        recorder: &mut Recorder<'_>,
        rows: usize,
        position: usize,
        wanted: usize,
        outs: usize,
    ) {
        let positions = position..=position;
        let (body, head) = (self.pass(rows, &positions), self.pass(wanted, &positions));
        self.body.iter().filter(|node| node.is_probe).for_each(|node| node.record(recorder, body));
        self.head.iter().for_each(|node| node.record(recorder, GpuPass { outs: outs as u32, ..head }));
    }

    /// Returns the block counts that decide the layers' attention grids.
    pub(super) fn blocks(&self, rows: usize, position: usize) -> impl Iterator<Item = u32> {
        self.windows.iter().map(move |&window| blocks(rows as u32, &(position..=position), window))
    }

    /// Records the LM head for `rows` rows from the step's `logit_row` on.
    pub fn record_head(&self, recorder: &mut Recorder<'_>, rows: usize) {
        let pass = self.pass(rows, &(0..=0));
        self.head.iter().for_each(|node| node.record(recorder, pass));
    }

    /// Records the correction of the logits of the next draft token, after those of all were computed. `confides`: the draft may end before
    /// the token; the normed rows must then be there.
    pub(super) fn record_markov(&self, recorder: &mut Recorder<'_>, confides: bool) {
        let (pass, choice) = (self.pass(1, &(0..=0)), KernelChoice::Always(Kernel::Confide));
        let nodes = self.markov.iter().filter(|node| confides || node.choice() != choice);
        nodes.for_each(|node| node.record(recorder, pass));
    }

    /// Records the final norm for `rows` rows from the step's `logit_row` on.
    pub(super) fn record_final_norm(&self, recorder: &mut Recorder<'_>, rows: usize) {
        let pass = self.pass(rows, &(0..=0));
        self.final_norm.iter().for_each(|node| node.record(recorder, pass));
    }

    /// Returns normed rows [rows, hidden], each padded to whole chunks.
    pub(super) fn normed(&self) -> &Slice {
        &self.normed
    }

    /// Restricts the model to these kernel variants, for devices on which others produce different bits.
    pub fn use_variants(&self, variants: Variants) {
        self.variants.set(variants);
    }

    /// Returns the kernel variants in use.
    pub fn variants(&self) -> Variants {
        self.variants.get()
    }

    /// Returns the maximum rows of a pass.
    pub fn max_rows(&self) -> usize {
        self.chunk().max(MAX_DRAFT + 1)
    }

    /// Returns the rows of a prefill chunk.
    pub(super) fn chunk(&self) -> usize {
        self.capacity().prefill_chunk
    }
}
