//! Memory bandwidth of the device.

use super::measure::{Effort, median};
use super::parts::Limit;
use foretoken::Result;
use foretoken::internals::gpu::{Buffer, Call, Gpu, Kernel, Readback};
use foretoken::internals::weights::{Float, Format};
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

/// A buffer, with the calls that read it.
enum Probe {
    Gpu { gpu: Rc<Gpu>, bytes: u64, out: Buffer, read: Call, readback: Readback },
    Cpu(Vec<u64>),
}

impl Probe {
    fn new(gpu: Option<&Rc<Gpu>>) -> Result<Self> {
        let Some(gpu) = gpu else { return Ok(Self::Cpu(vec![1; BYTES as usize / size_of::<u64>()])) };
        let bytes = BYTES.min(gpu.info().max_binding_size).min(gpu.info().max_buffer_size);
        let (data, out) = (gpu.buffer("probe", bytes)?, gpu.buffer("probe result", 16)?);
        let fill = gpu.call(Kernel::Fill(Format::Float(Float::F32)), &[(0, data.whole())]);
        let read = gpu.call(Kernel::Probe, &[(0, data.whole()), (1, out.whole())]);
        let mut recorder = gpu.record();
        recorder.dispatch(&fill, [GROUPS, 1, 1]);
        recorder.submit(None);
        Ok(Self::Gpu { gpu: gpu.clone(), bytes, out, read, readback: Readback::new(gpu, 16)? })
    }

    fn bytes(&self) -> u64 {
        match self {
            Self::Gpu { bytes, .. } => *bytes,
            Self::Cpu(_) => BYTES,
        }
    }

    async fn read_buffer(&mut self) -> Result<()> {
        match self {
            Self::Gpu { gpu, out, read, readback, .. } => {
                let mut recorder = gpu.record();
                (0..READS).for_each(|_| recorder.dispatch(read, [GROUPS, 1, 1]));
                let submitted = recorder.submit(Some((out, 0, 4, readback)));
                readback.read_words(gpu, 4, submitted).await?;
            }
            Self::Cpu(data) => {
                for _ in 0..READS {
                    let portions = data.par_chunks(PORTION);
                    black_box(
                        portions.map(|part| part.iter().fold(0, |sum, more| sum ^ more)).reduce(|| 0, |a, b| a ^ b),
                    );
                }
            }
        }
        Ok(())
    }
}

/// Returns the GB/s of reading a large buffer once, from start to end.
pub(super) async fn run(gpu: Option<&Rc<Gpu>>, effort: Effort, limit: &Limit) -> Result<f64> {
    let mut probe = Probe::new(gpu)?;
    let (mut seconds, mut latest) = (Vec::new(), Duration::ZERO);
    for repeat in 0..=effort.rounds {
        if !seconds.is_empty() && !limit.leaves(latest) {
            break;
        }
        let began = Instant::now();
        probe.read_buffer().await?;
        latest = began.elapsed();
        if repeat > 0 {
            seconds.push(latest.as_secs_f64());
        }
    }
    Ok((READS * probe.bytes()) as f64 / median(seconds) / 1e9)
}
