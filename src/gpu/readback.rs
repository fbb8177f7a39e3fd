//! Bytes from the GPU to the CPU, through one staging buffer that is made once.

use super::buffers::Buffer;
use super::device::Gpu;
use crate::error::{Error, Result};
use futures_channel::oneshot;

/// A staging buffer.
pub struct Readback {
    staging: Buffer,
}

impl Readback {
    /// One for up to `bytes` bytes.
    ///
    /// # Errors
    /// [`Error::OutOfGpuMemory`].
    pub fn new(gpu: &Gpu, bytes: u64) -> Result<Self> {
        let usage = wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST;
        Ok(Self { staging: gpu.create("readback", bytes, usage)? })
    }

    pub(super) fn raw(&self) -> &wgpu::Buffer {
        self.staging.raw()
    }

    /// Waits for the last submission's copy and returns its first `bytes` bytes as u32.
    ///
    /// # Errors
    /// [`Error::DeviceLost`].
    pub async fn read(&self, gpu: &Gpu, bytes: u64) -> Result<Vec<u32>> {
        let lost = |reason: String| Error::DeviceLost { reason };
        let (sender, receiver) = oneshot::channel();
        self.raw().map_async(wgpu::MapMode::Read, 0..bytes, move |result| {
            // The receiver is gone only when the caller gave up waiting.
            let _ = sender.send(result);
        });
        // Blocks natively; in a browser it does nothing, and the event loop completes the mapping.
        gpu.device.poll(wgpu::PollType::wait_indefinitely()).map_err(|error| lost(error.to_string()))?;
        gpu.count(|counters| {
            counters.blocking_readbacks += 1;
            counters.readback_bytes += bytes;
        });
        let mapped = receiver.await;
        gpu.check()?;
        mapped.map_err(|_| lost("the mapping never completed".into()))?.map_err(|error| lost(error.to_string()))?;
        let view = self.raw().get_mapped_range(0..bytes).map_err(|error| lost(error.to_string()))?;
        let words = view.chunks_exact(4).map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]])).collect();
        drop(view);
        self.raw().unmap();
        Ok(words)
    }
}

impl Gpu {
    /// All of a buffer from `offset`, for tests and checks; makes a staging buffer of its own.
    ///
    /// # Errors
    /// [`Error::DeviceLost`], [`Error::OutOfGpuMemory`].
    pub async fn read(&self, buffer: &Buffer, offset: u64, bytes: u64) -> Result<Vec<u32>> {
        let readback = Readback::new(self, bytes)?;
        self.record().submit(Some((buffer, offset, bytes, &readback)));
        readback.read(self, bytes).await
    }
}
