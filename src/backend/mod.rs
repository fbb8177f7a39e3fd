//! Backends: models on a GPU, on the CPU, and on servers; and any of the three as one target.

pub mod cpu;
pub mod gpu;
pub mod server;

use self::cpu::Processor;
use crate::constraint::Shared;
use crate::error::Result;
use crate::gpu::{Arithmetic, Counters, DeviceInfo, Gpu, GpuOptions};
use crate::model::{Memory, ModelSpec};
use crate::options::{DeviceChoice, LoadOptions};
use crate::sample::Sampling;
use crate::target::{Draft, Queue, Target, Translate, Verified};
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

/// Target and optional draft model on a device.
pub enum Backend {
    /// On a GPU.
    Gpu(Box<gpu::GpuBackend>),
    /// On the CPU.
    Cpu(Box<cpu::CpuBackend>),
    /// Target on a server, draft model on this machine.
    Server(Box<server::ServerBackend<Backend>>),
}

/// Creates a backend without a draft model.
impl From<server::Server> for Backend {
    fn from(server: server::Server) -> Self {
        Self::Server(Box::new(server::ServerBackend::new(server, None)))
    }
}

/// Copy of a backend's cached text.
pub enum Snapshot {
    /// On a GPU.
    Gpu(gpu::Snapshot),
    /// On the CPU.
    Cpu(cpu::Snapshot),
}

impl Snapshot {
    /// Returns the tokens of the copied keys and values.
    pub fn tokens(&self) -> &[u32] {
        match self {
            Self::Gpu(snapshot) => snapshot.tokens(),
            Self::Cpu(snapshot) => snapshot.tokens(),
        }
    }
}

/// Applies an expression to the backend inside.
macro_rules! either {
    ($self:expr, $engine:ident => $of:expr) => {
        match $self {
            Self::Gpu($engine) => $of,
            Self::Cpu($engine) => $of,
            Self::Server($engine) => $of,
        }
    };
}

impl Backend {
    /// Returns the backend if it is on a GPU.
    pub fn on_gpu(&self) -> Option<&gpu::GpuBackend> {
        match self {
            Self::Gpu(engine) => Some(engine),
            Self::Cpu(_) | Self::Server(_) => None,
        }
    }

    /// Returns the GPU if the backend is on one.
    pub fn gpu(&self) -> Option<&Rc<Gpu>> {
        self.on_gpu().map(gpu::GpuBackend::gpu)
    }

    /// Returns the same as [`Device::counters`].
    pub fn counters(&self) -> Counters {
        self.gpu().map(|gpu| gpu.counters()).unwrap_or_default()
    }

    /// Returns the description of the target's device.
    pub fn device(&self) -> &DeviceInfo {
        match self {
            Self::Gpu(engine) => engine.gpu().info(),
            Self::Cpu(engine) => engine.target().processor().info(),
            Self::Server(engine) => engine.server().info(),
        }
    }

    /// Returns the arithmetic of the target's quantised weights; servers do not report it (default).
    pub fn arithmetic(&self) -> Arithmetic {
        match self {
            Self::Gpu(engine) => engine.target().arithmetic(),
            Self::Cpu(engine) => engine.target().arithmetic(),
            Self::Server(_) => Arithmetic::default(),
        }
    }

    /// Returns the target's spec; `None` for a server.
    pub fn spec(&self) -> Option<&ModelSpec> {
        match self {
            Self::Gpu(engine) => Some(engine.target().spec()),
            Self::Cpu(engine) => Some(engine.target().spec()),
            Self::Server(_) => None,
        }
    }

    /// Appends `tokens` to the cache, `rows` at a time, and returns the logits of each [tokens, vocab], flattened.
    pub async fn logits(&mut self, tokens: &[u32], rows: usize) -> Result<Vec<f32>> {
        match self {
            Self::Gpu(engine) => engine.logits(tokens, rows).await,
            Self::Cpu(engine) => engine.logits(tokens, rows),
            Self::Server(_) => server::lacks("logits"),
        }
    }

    /// Appends `tokens` to the cache. Returns the hidden states of the last `wanted` tokens after the final norm [wanted, hidden],
    /// flattened.
    pub async fn hidden(&mut self, tokens: &[u32], wanted: usize) -> Result<Vec<f32>> {
        match self {
            Self::Gpu(engine) => engine.hidden(tokens, wanted).await,
            Self::Cpu(engine) => engine.hidden(tokens, wanted).await,
            Self::Server(_) => server::lacks("embeddings"),
        }
    }

    /// Returns the bytes planned for the target; zeros for a server.
    pub fn memory(&self) -> Memory {
        match self {
            Self::Gpu(engine) => engine.target().memory(),
            Self::Cpu(engine) => engine.target().memory(),
            Self::Server(_) => Memory::default(),
        }
    }

    /// Returns the bytes planned for the draft model, if any.
    pub fn draft_memory(&self) -> Option<Memory> {
        either!(self, engine => engine.draft().map(|draft| draft.memory()))
    }

    /// Returns a warning about the device, found while computing.
    pub fn warning(&self) -> Option<&str> {
        match self {
            Self::Gpu(engine) => engine.target().variants().warning(),
            Self::Cpu(_) => None,
            Self::Server(engine) => engine.warning(),
        }
    }

    /// Sets how target and draft model choose tokens.
    pub fn sample_by(&mut self, sampling: &Sampling) -> Result<()> {
        match self {
            Self::Gpu(engine) => engine.sample_by(sampling),
            Self::Cpu(engine) => engine.sample_by(sampling),
            Self::Server(engine) => engine.sample_by(sampling, Self::sample_by),
        }
    }

    /// Restricts the target to tokens that the constraint allows; `None`: no restriction.
    pub fn constrain(&mut self, constraint: Option<Shared>) -> Result<()> {
        match self {
            Self::Gpu(engine) => engine.constrain(constraint),
            Self::Cpu(engine) => engine.constrain(constraint),
            Self::Server(engine) => engine.constrain(constraint.is_some()),
        }
    }

    /// Declares that the draft model has another tokenizer.
    pub fn translate_by(&mut self, translate: Box<dyn Translate>) -> Result<()> {
        match self {
            Self::Gpu(engine) => engine.translate_by(translate),
            Self::Cpu(engine) => engine.translate_by(translate),
            Self::Server(engine) => {
                engine.translate_by(translate);
                Ok(())
            }
        }
    }

    /// Returns the bytes of a snapshot of the cached text; `None` for a server, which manages its cache.
    pub fn snapshot_bytes(&self) -> Option<u64> {
        match self {
            Self::Gpu(engine) => Some(engine.snapshot_bytes()),
            Self::Cpu(engine) => Some(engine.snapshot_bytes()),
            Self::Server(_) => None,
        }
    }

    /// Copies the cached keys and values, except those of a draft model with another tokenizer.
    pub async fn snapshot(&mut self) -> Result<Snapshot> {
        match self {
            Self::Gpu(engine) => engine.snapshot().await.map(Snapshot::Gpu),
            Self::Cpu(engine) => Ok(Snapshot::Cpu(engine.snapshot())),
            Self::Server(_) => server::lacks("snapshots"),
        }
    }

    /// Replaces the cache with a snapshot. A snapshot of another device changes nothing.
    ///
    /// # Errors
    /// [`crate::Error::OutOfGpuMemory`]; the cache is then empty.
    pub async fn restore(&mut self, snapshot: &Snapshot) -> Result<()> {
        match (self, snapshot) {
            (Self::Gpu(engine), Snapshot::Gpu(snapshot)) => engine.restore(snapshot).await,
            (Self::Cpu(engine), Snapshot::Cpu(snapshot)) => {
                engine.restore(snapshot);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Returns a layer's cached keys and values, in the device's own order.
    pub async fn read_kv(&mut self, layer: usize) -> Result<Vec<u8>> {
        match self {
            Self::Gpu(engine) => engine.read_kv(layer).await,
            Self::Cpu(engine) => Ok(engine.read_kv(layer)),
            Self::Server(_) => server::lacks("saved conversations"),
        }
    }

    /// Replaces the cache with `tokens`. `read` returns the keys and values of a layer, as from [`Backend::read_kv`]. Returns false if their
    /// size does not fit this model.
    ///
    /// # Errors
    /// [`crate::Error::ContextFull`], errors of `read` and of the device; the cache is then empty.
    pub async fn write_kv(
        &mut self,
        tokens: &[u32],
        read: &mut impl AsyncFnMut(usize) -> Result<Vec<u8>>,
    ) -> Result<bool> {
        match self {
            Self::Gpu(engine) => engine.write_kv(tokens, read).await,
            Self::Cpu(engine) => engine.write_kv(tokens, read).await,
            Self::Server(_) => Ok(false),
        }
    }

    /// Recovers from an error with unknown results: clears the cache.
    pub fn reset(&mut self) -> Result<()> {
        match self {
            Self::Gpu(engine) => engine.reset(),
            Self::Cpu(engine) => engine.reset(),
            Self::Server(engine) => {
                engine.truncate(0);
                Ok(())
            }
        }
    }
}

impl Target for Backend {
    fn cached(&self) -> &[u32] {
        either!(self, engine => engine.cached())
    }

    fn draft_cached(&self) -> usize {
        either!(self, engine => engine.draft_cached())
    }

    fn capacity(&self) -> usize {
        either!(self, engine => Target::capacity(&**engine))
    }

    fn truncate(&mut self, len: usize) {
        either!(self, engine => engine.truncate(len));
    }

    fn prefill_chunk(&self) -> usize {
        either!(self, engine => engine.prefill_chunk())
    }

    async fn reserve(&mut self, more: usize) -> Result<()> {
        match self {
            Self::Gpu(engine) => engine.reserve(more).await,
            Self::Cpu(_) | Self::Server(_) => Ok(()),
        }
    }

    async fn prefill(&mut self, tokens: &[u32]) -> Result<()> {
        either!(self, engine => engine.prefill(tokens).await)
    }

    async fn ready(&mut self, draft: &Draft) -> Result<bool> {
        either!(self, engine => engine.ready(draft).await)
    }

    async fn catch_up(&mut self, pending: u32) -> Result<usize> {
        either!(self, engine => engine.catch_up(pending).await)
    }

    async fn submit(&mut self, pending: u32, draft: &Draft) -> Result<()> {
        either!(self, engine => engine.submit(pending, draft).await)
    }

    async fn finish(&mut self) -> Result<Verified> {
        either!(self, engine => engine.finish().await)
    }
}

impl Queue for Backend {
    fn prepare(&mut self, repeats: bool) -> bool {
        either!(self, engine => engine.prepare(repeats))
    }

    fn repeat(&mut self) {
        either!(self, engine => engine.repeat());
    }

    fn is_computing(&mut self) -> bool {
        either!(self, engine => engine.is_computing())
    }

    fn is_far(&self) -> bool {
        either!(self, engine => engine.is_far())
    }

    fn keep(&mut self, len: usize) {
        either!(self, engine => engine.keep(len));
    }
}
