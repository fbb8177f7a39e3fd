//! Reads bytes from the GPU, through a reusable staging buffer.

use super::buffers::{Buffer, Slice};
use super::device::Gpu;
use super::record::Submitted;
use crate::error::{Error, Result};
use futures_channel::oneshot;

/// A reusable staging buffer.
pub struct Readback {
    staging: Buffer,
    /// Bytes that a submission copies into the buffer; 0: none.
    due: u64,
    submission: Option<wgpu::SubmissionIndex>,
    mapping: Option<Mapping>,
}

struct Mapping {
    receiver: oneshot::Receiver<Mapped>,
    arrived: Option<Mapped>,
}

type Mapped = std::result::Result<(), wgpu::BufferAsyncError>;

impl Readback {
    /// Creates a readback of up to `bytes` bytes.
    pub fn new(gpu: &Gpu, bytes: u64) -> Result<Self> {
        let usage = wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST;
        Ok(Self { staging: gpu.create("readback", bytes, usage)?, due: 0, submission: None, mapping: None })
    }

    pub(super) fn raw(&self) -> &wgpu::Buffer {
        self.staging.raw()
    }

    /// Announces that a submission copies `bytes` bytes.
    pub fn expect(&mut self, bytes: u64, submitted: Submitted) {
        self.due = bytes;
        self.submission = Some(submitted.0);
    }

    /// Returns true if expected bytes were not waited for. The next submission then needs another readback: when a buffer is
    /// unmapped and mapped again, wgpu may complete the mapping when the earlier submission is done.
    pub fn is_due(&self) -> bool {
        self.due > 0
    }

    /// Starts the mapping. Separate from [`Readback::expect`], so that the device is already computing.
    fn map(&mut self) {
        if self.is_due() && self.mapping.is_none() {
            let (sender, receiver) = oneshot::channel();
            self.raw().map_async(wgpu::MapMode::Read, 0..self.due, move |result| {
                // The receiver is gone only if the caller gave up waiting.
                let _ = sender.send(result);
            });
            self.mapping = Some(Mapping { receiver, arrived: None });
        }
    }

    /// Returns true if the bytes have not arrived. A browser detects arrival only during a wait, so it is always true there.
    pub fn is_coming(&mut self, gpu: &Gpu) -> bool {
        self.map();
        let Some(mapping) = &mut self.mapping else { return false };
        // A lost device is reported by the wait.
        let _ = gpu.device.poll(wgpu::PollType::Poll);
        if let Ok(Some(arrived)) = mapping.receiver.try_recv() {
            mapping.arrived = Some(arrived);
        }
        mapping.arrived.is_none()
    }

    /// Waits for the bytes and returns them as u32; empty if none are expected.
    pub async fn wait(&mut self, gpu: &Gpu) -> Result<Vec<u32>> {
        let lost = |reason: String| Error::DeviceLost { reason };
        self.map();
        let bytes = self.due;
        let Some(mapping) = &mut self.mapping else { return Ok(Vec::new()) };
        gpu.count(|counters| {
            counters.blocking_readbacks += 1;
            counters.readback_bytes += bytes;
        });
        let mapped = match mapping.arrived.take() {
            Some(arrived) => arrived,
            None => gpu.reported(&mut mapping.receiver, self.submission.take()).await?,
        };
        gpu.check()?;
        mapped.map_err(|error| lost(error.to_string()))?;
        let view = self.raw().get_mapped_range(0..bytes).map_err(|error| lost(error.to_string()))?;
        let words = view.chunks_exact(4).map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]])).collect();
        drop(view);
        self.raw().unmap();
        (self.due, self.mapping) = (0, None);
        Ok(words)
    }

    /// Waits for a submission's copy and returns its first `bytes` bytes as u32.
    pub async fn read_words(&mut self, gpu: &Gpu, bytes: u64, submitted: Submitted) -> Result<Vec<u32>> {
        self.expect(bytes, submitted);
        self.wait(gpu).await
    }
}

impl Slice {
    /// Reads the first `bytes` bytes as u32, like [`Gpu::read_buffer`].
    pub async fn read_words(&self, gpu: &Gpu, bytes: u64) -> Result<Vec<u32>> {
        gpu.read_buffer(&self.buffer, self.offset, bytes).await
    }
}

impl Gpu {
    /// Reads `bytes` bytes of a buffer from `offset`, for tests and checks; creates its own staging buffer.
    pub async fn read_buffer(&self, buffer: &Buffer, offset: u64, bytes: u64) -> Result<Vec<u32>> {
        let mut readback = Readback::new(self, bytes)?;
        let submitted = self.record().submit(Some((buffer, offset, bytes, &readback)));
        readback.read_words(self, bytes, submitted).await
    }
}
