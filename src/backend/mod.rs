//! Backends as siblings: one trait for models on a GPU, on the CPU, and on servers.

pub mod cpu;
pub mod gpu;
pub mod server;

use self::cpu::Processor;
use crate::constraint::Shared;
use crate::error::Result;
use crate::gpu::{Arithmetic, Counters, DeviceInfo, Gpu, GpuOptions};
use crate::model::{AtOnce, Blueprint, CHECKPOINT, Capacity, DeltaHistory, HiddenStates, Memory, Mixer, ModelSpec};
use crate::options::{DeviceChoice, LoadOptions};
use crate::target::{Drafting, GuessPass, HiddenReading, Queue, ReadBy, Rollback, Translate};
use async_trait::async_trait;
use std::any::Any;
use std::rc::Rc;

/// Device on this machine that runs models.
#[derive(Clone)]
pub enum Device {
    /// A GPU.
    Gpu(Rc<Gpu>),
    /// The CPU.
    Cpu(Rc<Processor>),
}

impl From<&Rc<Gpu>> for Device {
    fn from(gpu: &Rc<Gpu>) -> Self {
        Self::Gpu(gpu.clone())
    }
}

impl Device {
    /// Returns its description.
    pub fn info(&self) -> &DeviceInfo {
        match self {
            Self::Gpu(gpu) => gpu.info(),
            Self::Cpu(processor) => processor.info(),
        }
    }

    /// Returns the work of a GPU so far; zeros for the CPU.
    pub fn counters(&self) -> Counters {
        match self {
            Self::Gpu(gpu) => gpu.counters(),
            Self::Cpu(_) => Counters::default(),
        }
    }

    /// Returns the CPU with all of its cores; in a page, with one thread.
    pub fn cpu() -> Self {
        Self::Cpu(Rc::new(Processor::new(None)))
    }

    /// Opens the requested device. If `auto` selects the CPU, also returns the reason.
    ///
    /// # Errors
    /// As [`Gpu::open`], if a GPU was requested.
    pub async fn open(options: &LoadOptions, gpu: &GpuOptions) -> Result<(Self, Option<String>)> {
        #[cfg(not(target_arch = "wasm32"))]
        let cpu = || Self::Cpu(Rc::new(Processor::new(options.threads)));
        // A page starts other threads later.
        #[cfg(target_arch = "wasm32")]
        let cpu = Self::cpu;
        let open = Gpu::open(gpu);
        match options.device {
            DeviceChoice::Cpu => Ok((cpu(), None)),
            DeviceChoice::Webgpu => Ok((Self::Gpu(open.await?), None)),
            DeviceChoice::Auto => Ok(match open.await {
                Ok(gpu) if !gpu.info().software => (Self::Gpu(gpu), None),
                Ok(gpu) => {
                    let DeviceInfo { name, backend, .. } = gpu.info();
                    let name = if name.is_empty() { backend } else { name };
                    let reason = format!("the only adapter, {name}, computes there too, more slowly");
                    (cpu(), Some(format!("the models run on the CPU: {reason}")))
                }
                Err(error) => (cpu(), Some(format!("the models run on the CPU: {error}"))),
            }),
        }
    }
}

/// Returns the lengths to which a model's text can be cut.
fn rollback(blueprint: &Blueprint) -> Rollback {
    // No model has both convolutions and delta nets.
    let recurrent = blueprint.spec.layers.iter().find(|layer| layer.attention().is_none());
    match recurrent.map(|layer| &layer.mixer) {
        Some(Mixer::ShortConv { taps }) => Rollback::of_inputs(taps - 1, blueprint.history(*taps).reach(), CHECKPOINT),
        Some(Mixer::DeltaNet(_)) => {
            Rollback::of_states(DeltaHistory::SLOTS, DeltaHistory::ROUND_SLOTS, DeltaHistory::REACH)
        }
        Some(Mixer::Attention(_)) | None => Rollback::default(),
    }
}

/// Creates the state of a draft model; unused without one.
fn drafting(draft: Option<&Blueprint>) -> Drafting {
    let Some(draft) = draft else { return Drafting::new(0, 0, Rollback::default()) };
    let Capacity { prefill_chunk, max_context, .. } = draft.capacity;
    let mut drafting = Drafting::new(prefill_chunk, max_context, rollback(draft));
    let by = match draft.spec.hidden_states {
        HiddenStates::Unkept | HiddenStates::Kept { .. } => None,
        HiddenStates::Read { .. } => Some(ReadBy::Pairs),
        HiddenStates::Context { .. } => Some(ReadBy::Context),
        HiddenStates::Latest { .. } => Some(ReadBy::Latest),
    };
    by.into_iter().for_each(|by| drafting.read_hidden(HiddenReading { kept: draft.kept_positions(), by }));
    if let Some(at_once) = draft.spec.at_once {
        let AtOnce { most, is_block, skipped, .. } = at_once;
        drafting.guess_at_once(GuessPass { most, is_block, skipped });
    }
    drafting
}

/// A loaded model on a device of this machine.
pub struct LocalModel<'a> {
    /// Spec of the model.
    pub spec: &'a ModelSpec,
    /// Arithmetic of its quantised weights.
    pub arithmetic: Arithmetic,
    /// Planned bytes.
    pub memory: Memory,
    /// Bytes of the keys and values that are cached now.
    pub cached_bytes: u64,
}

/// Copy of a backend's cached text.
pub struct Snapshot {
    tokens: Vec<u32>,
    draft_cached: usize,
    /// Keys and values of the target's and the draft model's layers, in the device's own type.
    kv: Box<dyn Any>,
}

impl Snapshot {
    /// Returns the tokens of the copied keys and values.
    pub fn tokens(&self) -> &[u32] {
        &self.tokens
    }
}

/// Target and optional draft model on a device. The defaults are those of a target on a server: it has no logits, hidden states or
/// copies of its cache.
#[async_trait(?Send)]
pub trait Backend: Queue {
    /// Returns the description of the target's device.
    fn device(&self) -> &DeviceInfo;

    /// Returns target and draft model, if they are on this machine.
    fn models(&self) -> [Option<LocalModel<'_>>; 2];

    /// Returns the state of the draft model.
    fn drafting(&mut self) -> Option<&mut Drafting>;

    /// Restricts the target to tokens that the constraint allows; `None`: no restriction.
    fn constrain(&mut self, constraint: Option<Shared>) -> Result<()>;

    /// Returns the backend if it is on a GPU.
    fn on_gpu(&self) -> Option<&gpu::GpuBackend> {
        None
    }

    /// Returns a warning about the device, found while computing.
    fn warning(&self) -> Option<&str> {
        None
    }

    /// Appends `tokens` to the cache, `rows` at a time, and returns the logits of each [tokens, vocab], flattened. No page
    /// needs them.
    #[cfg(not(target_arch = "wasm32"))]
    async fn logits(&mut self, _tokens: &[u32], _rows: usize) -> Result<Vec<f32>> {
        server::lacks("logits")
    }

    /// Appends `tokens` to the cache. Returns the hidden states of the last `wanted` tokens after the final norm [wanted, hidden],
    /// flattened.
    async fn hidden(&mut self, _tokens: &[u32], _wanted: usize) -> Result<Vec<f32>> {
        server::lacks("embeddings")
    }

    /// Returns a layer's cached keys and values, in the device's own order.
    async fn read_kv(&mut self, _layer: usize) -> Result<Vec<u8>> {
        server::lacks("saved conversations")
    }

    /// Writes a layer's keys and values of `len` tokens, as from [`Backend::read_kv`]. [`crate::target::Target::reserve`] must have made room for them.
    /// Returns false if their size does not fit this model.
    fn write_kv(&mut self, _layer: usize, _len: usize, _bytes: &[u8]) -> bool {
        false
    }

    /// Copies all cached keys and values, for [`Backend::restore_kv`].
    async fn copy_kv(&mut self) -> Result<Box<dyn Any>> {
        server::lacks("snapshots")
    }

    /// Writes the keys and values of a snapshot. Returns false if another kind of device copied them.
    async fn restore_kv(&mut self, _snapshot: &Snapshot) -> Result<bool> {
        Ok(false)
    }

    /// Declares that keys and values of `tokens` were written, and those of the first `draft_cached` tokens for the draft model.
    fn set_cached(&mut self, _tokens: &[u32], _draft_cached: usize) {}

    /// Declares that the draft model has another tokenizer. It then drafts greedily, because noise and biases apply to the target's ids.
    fn translate_by(&mut self, translate: Box<dyn Translate>) -> Result<()> {
        if let Some(drafting) = self.drafting() {
            drafting.translate_by(translate);
        }
        Ok(())
    }

    /// Recovers from an error with unknown results: clears the cache.
    fn reset(&mut self) -> Result<()> {
        self.truncate(0);
        self.drafting().into_iter().for_each(Drafting::forget);
        Ok(())
    }

    /// Returns the GPU if the backend is on one.
    fn gpu(&self) -> Option<&Rc<Gpu>> {
        self.on_gpu().map(gpu::GpuBackend::gpu)
    }

    /// Returns the same as [`Device::counters`].
    fn counters(&self) -> Counters {
        self.gpu().map(|gpu| gpu.counters()).unwrap_or_default()
    }

    /// Returns the arithmetic of the target's quantised weights; servers do not report it (default).
    fn arithmetic(&self) -> Arithmetic {
        self.models()[0].as_ref().map(|target| target.arithmetic).unwrap_or_default()
    }

    /// Returns the target's spec; `None` for a server.
    fn spec(&self) -> Option<&ModelSpec> {
        let [target, _] = self.models();
        target.map(|target| target.spec)
    }

    /// Returns the bytes planned for the target; zeros for a server.
    fn memory(&self) -> Memory {
        self.models()[0].as_ref().map(|target| target.memory).unwrap_or_default()
    }

    /// Returns the bytes planned for the draft model, if any.
    fn draft_memory(&self) -> Option<Memory> {
        self.models()[1].as_ref().map(|draft| draft.memory)
    }
}

/// Snapshots, compiled once for all backends.
impl dyn Backend + '_ {
    /// Returns the bytes of a snapshot of the cached text; `None` for a server, which manages its cache.
    pub fn snapshot_bytes(&self) -> Option<u64> {
        let [target, draft] = self.models();
        target.map(|target| target.cached_bytes + draft.map_or(0, |draft| draft.cached_bytes))
    }

    /// Copies the cached keys and values, except those of a draft model with another tokenizer.
    pub async fn snapshot(&mut self) -> Result<Snapshot> {
        self.truncate(self.cached().len());
        let kv = self.copy_kv().await?;
        Ok(Snapshot { tokens: self.cached().to_vec(), draft_cached: self.draft_cached(), kv })
    }

    /// Replaces the cache with a snapshot. If another kind of device made it, the cache is then empty.
    ///
    /// # Errors
    /// [`crate::Error::OutOfGpuMemory`]; the cache is then empty.
    pub async fn restore(&mut self, snapshot: &Snapshot) -> Result<()> {
        self.truncate(0);
        if self.restore_kv(snapshot).await? {
            self.set_cached(&snapshot.tokens, snapshot.draft_cached);
        }
        Ok(())
    }
}
