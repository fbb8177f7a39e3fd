//! Where models run: on a GPU, on the CPU, the target on a server; and the models there, as one target.

use crate::constraint::Shared;
use crate::cpu::{self, Processor};
use crate::decode;
use crate::error::Result;
use crate::gpu::{Arithmetic, Counters, DeviceInfo, Gpu, GpuOptions};
use crate::model::{Memory, ModelSpec};
use crate::options::{DeviceChoice, LoadOptions};
use crate::remote;
use crate::sample::Sampling;
use crate::target::{Draft, Queue, Target, Translate, Verified};
use std::rc::Rc;

/// Where models run.
#[derive(Clone)]
pub enum Device {
    /// On this one.
    Gpu(Rc<Gpu>),
    /// On the processor.
    Cpu(Rc<Processor>),
}

impl From<&Rc<Gpu>> for Device {
    fn from(gpu: &Rc<Gpu>) -> Self {
        Self::Gpu(gpu.clone())
    }
}

impl Device {
    /// Which it is.
    pub fn info(&self) -> &DeviceInfo {
        match self {
            Self::Gpu(gpu) => gpu.info(),
            Self::Cpu(processor) => processor.info(),
        }
    }

    /// What was asked of a GPU so far; of the CPU, nothing.
    pub fn counters(&self) -> Counters {
        match self {
            Self::Gpu(gpu) => gpu.counters(),
            Self::Cpu(_) => Counters::default(),
        }
    }

    /// The processor with all of its cores; in a page, with one thread.
    pub fn cpu() -> Self {
        Self::Cpu(Rc::new(Processor::new(None)))
    }

    /// The device that is wanted, and in words why it is none of the GPUs, where nobody asked for the CPU.
    ///
    /// # Errors
    /// As [`Gpu::open`], where a GPU was asked for.
    pub async fn open(options: &LoadOptions, gpu: &GpuOptions) -> Result<(Self, Option<String>)> {
        #[cfg(not(target_arch = "wasm32"))]
        let cpu = || Self::Cpu(Rc::new(Processor::new(options.threads)));
        // Others take part once a page has started them.
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

/// A target and, where there is one, its draft model on a device.
pub enum Engine {
    /// On a GPU.
    Gpu(Box<decode::Engine>),
    /// On the CPU.
    Cpu(Box<cpu::Engine>),
    /// The target on a server, the draft model here.
    Server(Box<remote::Engine<Engine>>),
}

/// Without a draft model.
impl From<remote::Server> for Engine {
    fn from(server: remote::Server) -> Self {
        Self::Server(Box::new(remote::Engine::new(server, None)))
    }
}

/// What an engine had cached of a text.
pub enum Snapshot {
    /// On a GPU.
    Gpu(decode::Snapshot),
    /// On the CPU.
    Cpu(cpu::Snapshot),
}

impl Snapshot {
    /// The tokens whose keys and values it has.
    pub fn tokens(&self) -> &[u32] {
        match self {
            Self::Gpu(snapshot) => snapshot.tokens(),
            Self::Cpu(snapshot) => snapshot.tokens(),
        }
    }
}

/// The same of whichever it is.
macro_rules! either {
    ($self:expr, $engine:ident => $of:expr) => {
        match $self {
            Self::Gpu($engine) => $of,
            Self::Cpu($engine) => $of,
            Self::Server($engine) => $of,
        }
    };
}

impl Engine {
    /// The one on a GPU, if that is it.
    pub fn on_gpu(&self) -> Option<&decode::Engine> {
        match self {
            Self::Gpu(engine) => Some(engine),
            Self::Cpu(_) | Self::Server(_) => None,
        }
    }

    /// The GPU, if that is it.
    pub fn gpu(&self) -> Option<&Rc<Gpu>> {
        self.on_gpu().map(decode::Engine::gpu)
    }

    /// As [`Device::counters`].
    pub fn counters(&self) -> Counters {
        self.gpu().map(|gpu| gpu.counters()).unwrap_or_default()
    }

    /// Which device it is.
    pub fn device(&self) -> &DeviceInfo {
        match self {
            Self::Gpu(engine) => engine.gpu().info(),
            Self::Cpu(engine) => engine.target().processor().info(),
            Self::Server(engine) => engine.server().info(),
        }
    }

    /// What products of the target's quantised weights are computed with; a server does not tell.
    pub fn arithmetic(&self) -> Arithmetic {
        match self {
            Self::Gpu(engine) => engine.target().arithmetic(),
            Self::Cpu(engine) => engine.target().arithmetic(),
            Self::Server(_) => Arithmetic::default(),
        }
    }

    /// What the target is, where it is here.
    pub fn spec(&self) -> Option<&ModelSpec> {
        match self {
            Self::Gpu(engine) => Some(engine.target().spec()),
            Self::Cpu(engine) => Some(engine.target().spec()),
            Self::Server(_) => None,
        }
    }

    /// Caches `tokens` behind the cached ones, so many rows at a time, and returns the logits of each [tokens, vocab], flattened.
    ///
    /// # Errors
    /// As [`decode::Engine::logits`].
    pub async fn logits(&mut self, tokens: &[u32], rows: usize) -> Result<Vec<f32>> {
        match self {
            Self::Gpu(engine) => engine.logits(tokens, rows).await,
            Self::Cpu(engine) => engine.logits(tokens, rows),
            Self::Server(_) => remote::lacks("logits"),
        }
    }

    /// Caches `tokens` behind the cached ones, and returns the hidden states behind the last of them after the final norm
    /// [wanted, hidden], flattened.
    ///
    /// # Errors
    /// As [`Target::prefill`].
    pub async fn hidden(&mut self, tokens: &[u32], wanted: usize) -> Result<Vec<f32>> {
        match self {
            Self::Gpu(engine) => engine.hidden(tokens, wanted).await,
            Self::Cpu(engine) => engine.hidden(tokens, wanted).await,
            Self::Server(_) => remote::lacks("embeddings"),
        }
    }

    /// Bytes planned for the target; none for one on a server.
    pub fn memory(&self) -> Memory {
        match self {
            Self::Gpu(engine) => engine.target().memory(),
            Self::Cpu(engine) => engine.target().memory(),
            Self::Server(_) => Memory::default(),
        }
    }

    /// Bytes planned for the draft model, where there is one.
    pub fn draft_memory(&self) -> Option<Memory> {
        either!(self, engine => engine.draft().map(|draft| draft.memory()))
    }

    /// What was found out about the device as it computed.
    pub fn warning(&self) -> Option<&str> {
        match self {
            Self::Gpu(engine) => engine.target().variants().warning(),
            Self::Cpu(_) => None,
            Self::Server(engine) => engine.warning(),
        }
    }

    /// From now on target and draft model choose their tokens like this.
    ///
    /// # Errors
    /// As [`decode::Engine::sample_by`].
    pub fn sample_by(&mut self, sampling: &Sampling) -> Result<()> {
        match self {
            Self::Gpu(engine) => engine.sample_by(sampling),
            Self::Cpu(engine) => engine.sample_by(sampling),
            Self::Server(engine) => engine.sample_by(sampling, Self::sample_by),
        }
    }

    /// From now on the target chooses only tokens that may come in this text; none: any.
    ///
    /// # Errors
    /// As [`decode::Engine::constrain`].
    pub fn constrain(&mut self, constraint: Option<Shared>) -> Result<()> {
        match self {
            Self::Gpu(engine) => engine.constrain(constraint),
            Self::Cpu(engine) => engine.constrain(constraint),
            Self::Server(engine) => engine.constrain(constraint.is_some()),
        }
    }

    /// From now on the draft model is one with another tokenizer.
    ///
    /// # Errors
    /// As [`decode::Engine::translate_by`].
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

    /// Bytes of a snapshot of what is cached now; a server keeps what it wants.
    pub fn snapshot_bytes(&self) -> Option<u64> {
        match self {
            Self::Gpu(engine) => Some(engine.snapshot_bytes()),
            Self::Cpu(engine) => Some(engine.snapshot_bytes()),
            Self::Server(_) => None,
        }
    }

    /// What is cached now. Of a draft model with another tokenizer nothing is kept.
    ///
    /// # Errors
    /// [`crate::Error::OutOfGpuMemory`].
    pub async fn snapshot(&mut self) -> Result<Snapshot> {
        match self {
            Self::Gpu(engine) => engine.snapshot().await.map(Snapshot::Gpu),
            Self::Cpu(engine) => Ok(Snapshot::Cpu(engine.snapshot())),
            Self::Server(_) => remote::lacks("snapshots"),
        }
    }

    /// Caches what a snapshot has, and nothing else. One that is not of this engine changes nothing.
    ///
    /// # Errors
    /// [`crate::Error::OutOfGpuMemory`]; then nothing is cached.
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

    /// The keys and values of a layer, of what is cached, in an order that is this device's own.
    ///
    /// # Errors
    /// What the device reports.
    pub async fn read_kv(&mut self, layer: usize) -> Result<Vec<u8>> {
        match self {
            Self::Gpu(engine) => engine.read_kv(layer).await,
            Self::Cpu(engine) => Ok(engine.read_kv(layer)),
            Self::Server(_) => remote::lacks("saved conversations"),
        }
    }

    /// Caches tokens whose keys and values [`Engine::read_kv`] gave, one layer after the other, and nothing else. False where they are
    /// not as large as those of this model.
    ///
    /// # Errors
    /// [`crate::Error::ContextFull`], what `read` and the device report; then nothing is cached.
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

    /// After an error that leaves open what was computed: forgets what is cached.
    ///
    /// # Errors
    /// As [`decode::Engine::reset`].
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

impl Target for Engine {
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

impl Queue for Engine {
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
