//! Memory bandwidth of the device.

use super::backend::{Effort, median};
use super::parts::Limit;
use foretoken::Result;
use foretoken::internals::backend::Device;
use foretoken::internals::gpu::{Buffer, Call, Gpu, Kernel, Readback};
use foretoken::internals::weights::{Float, Format};
use rayon::ThreadPool;
use rayon::prelude::*;
use std::hint::black_box;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// Buffer size, larger than the caches of most devices. On some server CPUs and GPUs it fits the cache, and the result exceeds the
/// bandwidth of memory.
const BYTES: u64 = 256 << 20;
/// Reads that are timed together, so that the cost of submission is negligible.
const READS: u64 = 8;
/// Workgroups of a read: enough threads to fill any GPU.
const GROUPS: u32 = 4096;
/// Numbers that a thread reads at a time.
const PORTION: usize = 1 << 16;
/// Time and repeats of a probe outside of a bench.
const SHORT: (Duration, usize) = (Duration::from_millis(600), 3);
/// Buffer size for software adapters outside of a bench. Arithmetic limits them, not memory.
const SOFTWARE_BYTES: u64 = 16 << 20;

/// A buffer, with the calls that read it.
enum Probe {
    Gpu {
        gpu: Rc<Gpu>,
        bytes: u64,
        out: Buffer,
        read: Call,
        readback: Readback,
    },
    /// `None`: the global pool reads.
    Cpu(Vec<u64>, Option<ThreadPool>),
}

impl Probe {
    fn on_gpu(gpu: &Rc<Gpu>, most: u64) -> Result<Self> {
        let bytes = most.min(gpu.info().max_binding_size).min(gpu.info().max_buffer_size);
        let (data, out) = (gpu.buffer("probe", bytes)?, gpu.buffer("probe result", 16)?);
        let fill = gpu.call(Kernel::Fill(Format::Float(Float::F32)), &[(0, data.whole())]);
        let read = gpu.call(Kernel::Probe, &[(0, data.whole()), (1, out.whole())]);
        let mut recorder = gpu.record();
        recorder.dispatch(&fill, [GROUPS, 1, 1]);
        recorder.submit(None);
        Ok(Self::Gpu { gpu: gpu.clone(), bytes, out, read, readback: Readback::new(gpu, 16)? })
    }

    fn on_cpu(pool: Option<ThreadPool>) -> Self {
        Self::Cpu(vec![1; BYTES as usize / size_of::<u64>()], pool)
    }

    fn bytes(&self) -> u64 {
        match self {
            Self::Gpu { bytes, .. } => *bytes,
            Self::Cpu(..) => BYTES,
        }
    }

    /// Reads the buffer `reads` times. Returns the time of one read.
    async fn time(&mut self, reads: u64) -> Result<Duration> {
        let began = Instant::now();
        match self {
            Self::Gpu { gpu, out, read, readback, .. } => {
                let mut recorder = gpu.record();
                (0..reads).for_each(|_| recorder.dispatch(read, [GROUPS, 1, 1]));
                let submitted = recorder.submit(Some((out, 0, 4, readback)));
                readback.read_words(gpu, 4, submitted).await?;
            }
            Self::Cpu(data, pool) => {
                let read = || {
                    let portions = data.par_chunks(PORTION);
                    portions.map(|part| part.iter().fold(0, |sum, more| sum ^ more)).reduce(|| 0, |a, b| a ^ b)
                };
                for _ in 0..reads {
                    black_box(pool.as_ref().map_or_else(read, |pool| pool.install(read)));
                }
            }
        }
        Ok(began.elapsed() / reads as u32)
    }

    /// Returns the GB/s after a warm-up and up to `repeats` measurements of `reads` reads. `leaves` is called with the time of the latest
    /// one, before each but the first; `false` ends them.
    async fn measure(mut self, reads: u64, repeats: usize, mut leaves: impl FnMut(Duration) -> bool) -> Result<f64> {
        let (mut seconds, mut latest) = (Vec::new(), Duration::ZERO);
        for repeat in 0..=repeats {
            if !seconds.is_empty() && !leaves(latest * reads as u32) {
                break;
            }
            latest = self.time(reads).await?;
            if repeat > 0 {
                seconds.push(latest.as_secs_f64());
            }
        }
        Ok(self.bytes() as f64 / median(seconds) / 1e9)
    }
}

/// Returns the GB/s of reading a large buffer once, from start to end.
pub(super) async fn run(gpu: Option<&Rc<Gpu>>, effort: Effort, limit: &Limit) -> Result<f64> {
    let probe = gpu.map_or_else(|| Ok(Probe::on_cpu(None)), |gpu| Probe::on_gpu(gpu, BYTES))?;
    probe.measure(READS, effort.rounds, |latest| limit.leaves(latest)).await
}

/// Returns the GB/s of reading a large buffer of a device once, from start to end, measured within about a second.
///
/// # Errors
/// Errors of the device.
pub async fn bandwidth(device: &Device) -> Result<f64> {
    let mut probe = match device {
        Device::Gpu(gpu) => Probe::on_gpu(gpu, if gpu.info().software { SOFTWARE_BYTES } else { BYTES })?,
        Device::Cpu(processor) if processor.threads() == rayon::current_num_threads() => Probe::on_cpu(None),
        Device::Cpu(processor) => {
            // If the system refuses the threads, all cores read.
            Probe::on_cpu(rayon::ThreadPoolBuilder::new().num_threads(processor.threads()).build().ok())
        }
    };
    let (began, (most, repeats)) = (Instant::now(), SHORT);
    let once = probe.time(1).await?.max(Duration::from_micros(1));
    // A warm-up and at least one measurement follow.
    let reads = ((most / 4).as_nanos() / once.as_nanos()).clamp(1, READS.into()) as u64;
    probe.measure(reads, repeats, |latest| began.elapsed() + latest < most).await
}
