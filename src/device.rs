//! Where models run: on a GPU or, natively, on the CPU; and the models there, as one target.

#[cfg(not(target_arch = "wasm32"))]
use crate::cpu;
use crate::decode;
use crate::error::Result;
#[cfg(not(target_arch = "wasm32"))]
use crate::gpu::GpuOptions;
use crate::gpu::{Counters, DeviceInfo, Gpu};
use crate::model::Memory;
use crate::model::ModelSpec;
#[cfg(not(target_arch = "wasm32"))]
use crate::options::DeviceChoice;
use crate::sample::Sampling;
use crate::target::{Draft, Queue, Target, Translate, Verified};
use std::rc::Rc;

/// Where models run.
#[derive(Clone)]
pub enum Device {
    /// On this one.
    Gpu(Rc<Gpu>),
    /// On the processor, all of its cores.
    #[cfg(not(target_arch = "wasm32"))]
    Cpu,
}

impl From<&Rc<Gpu>> for Device {
    fn from(gpu: &Rc<Gpu>) -> Self {
        Self::Gpu(gpu.clone())
    }
}

#[cfg(not(target_arch = "wasm32"))]
impl Device {
    /// The device that is wanted, and in words why it is none of the GPUs, where nobody asked for the CPU.
    ///
    /// # Errors
    /// As [`Gpu::open`], where a GPU was asked for.
    pub async fn open(wanted: DeviceChoice) -> Result<(Self, Option<String>)> {
        let options = GpuOptions::default();
        let open = Gpu::open(&options);
        match wanted {
            DeviceChoice::Cpu => Ok((Self::Cpu, None)),
            DeviceChoice::Webgpu => Ok((Self::Gpu(open.await?), None)),
            DeviceChoice::Auto => Ok(match open.await {
                Ok(gpu) if !gpu.info().software => (Self::Gpu(gpu), None),
                Ok(gpu) => {
                    let name = &gpu.info().name;
                    (Self::Cpu, Some(format!("the models run on the CPU: the only adapter is {name}, which is no GPU")))
                }
                Err(error) => (Self::Cpu, Some(format!("the models run on the CPU: {error}"))),
            }),
        }
    }
}

/// A target and, where there is one, its draft model on a device.
pub enum Engine {
    /// On a GPU.
    Gpu(Box<decode::Engine>),
    /// On the CPU.
    #[cfg(not(target_arch = "wasm32"))]
    Cpu(Box<cpu::Engine>),
}

/// The same of whichever it is.
macro_rules! either {
    ($self:expr, $engine:ident => $of:expr) => {
        match $self {
            Self::Gpu($engine) => $of,
            #[cfg(not(target_arch = "wasm32"))]
            Self::Cpu($engine) => $of,
        }
    };
}

impl Engine {
    /// The one on a GPU, if that is it.
    pub fn on_gpu(&self) -> Option<&decode::Engine> {
        match self {
            Self::Gpu(engine) => Some(engine),
            #[cfg(not(target_arch = "wasm32"))]
            Self::Cpu(_) => None,
        }
    }

    /// The GPU, if that is it.
    pub fn gpu(&self) -> Option<&Rc<Gpu>> {
        self.on_gpu().map(decode::Engine::gpu)
    }

    /// As [`Engine::on_gpu`].
    pub fn on_gpu_mut(&mut self) -> Option<&mut decode::Engine> {
        match self {
            Self::Gpu(engine) => Some(engine),
            #[cfg(not(target_arch = "wasm32"))]
            Self::Cpu(_) => None,
        }
    }

    /// What was asked of a GPU so far; of the CPU, nothing.
    pub fn counters(&self) -> Counters {
        self.gpu().map(|gpu| gpu.counters()).unwrap_or_default()
    }

    /// Which device it is.
    pub fn device(&self) -> &DeviceInfo {
        match self {
            Self::Gpu(engine) => engine.gpu().info(),
            #[cfg(not(target_arch = "wasm32"))]
            Self::Cpu(_) => cpu::info(),
        }
    }

    /// What the target is.
    pub fn spec(&self) -> &ModelSpec {
        either!(self, engine => engine.target().spec())
    }

    /// Bytes planned for the target.
    pub fn memory(&self) -> Memory {
        either!(self, engine => engine.target().memory())
    }

    /// Bytes planned for the draft model, where there is one.
    pub fn draft_memory(&self) -> Option<Memory> {
        either!(self, engine => engine.draft().map(|draft| draft.memory()))
    }

    /// What was found out about the device as it computed.
    pub fn warning(&self) -> Option<&'static str> {
        self.on_gpu().and_then(|engine| engine.target().variants().warning())
    }

    /// From now on target and draft model choose their tokens like this.
    ///
    /// # Errors
    /// As [`decode::Engine::sample_by`].
    pub fn sample_by(&mut self, sampling: &Sampling) -> Result<()> {
        either!(self, engine => engine.sample_by(sampling))
    }

    /// From now on the draft model is one with another tokenizer.
    ///
    /// # Errors
    /// As [`decode::Engine::translate_by`].
    pub fn translate_by(&mut self, translate: Box<dyn Translate>) -> Result<()> {
        either!(self, engine => engine.translate_by(translate))
    }

    /// After an error that leaves open what was computed: forgets what is cached.
    ///
    /// # Errors
    /// As [`decode::Engine::reset`].
    pub fn reset(&mut self) -> Result<()> {
        either!(self, engine => engine.reset())
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

    fn keep(&mut self, len: usize) {
        either!(self, engine => engine.keep(len));
    }
}
