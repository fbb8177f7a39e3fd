//! GPU buffers; all allocated bytes are counted.

use super::counters::Counters;
use super::device::Gpu;
use crate::error::{Error, Result};
use bytemuck::Pod;
use std::cell::Cell;
use std::ops::Range;
use std::rc::Rc;

/// A GPU buffer. Clones share it; dropping the last one frees it.
#[derive(Clone)]
pub struct Buffer(Rc<Inner>);

struct Inner {
    raw: wgpu::Buffer,
    counters: Rc<Cell<Counters>>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        let mut counters = self.counters.get();
        counters.allocated -= self.raw.size();
        self.counters.set(counters);
        self.raw.destroy();
    }
}

impl Buffer {
    /// Returns the size in bytes.
    pub fn size(&self) -> u64 {
        self.0.raw.size()
    }

    /// Returns the whole buffer as a slice.
    pub fn whole(&self) -> Slice {
        Slice { buffer: self.clone(), offset: 0, size: self.size() }
    }

    /// Returns a part of the buffer; the offset is a multiple of 256.
    pub fn slice(&self, offset: u64, size: u64) -> Slice {
        Slice { buffer: self.clone(), offset, size }
    }

    pub(super) fn raw(&self) -> &wgpu::Buffer {
        &self.0.raw
    }
}

/// A range of a buffer, in bytes, for a binding.
#[derive(Clone)]
pub struct Slice {
    pub(super) buffer: Buffer,
    pub(super) offset: u64,
    pub(super) size: u64,
}

impl Slice {
    /// Returns true if the slice is part of `buffer`.
    pub fn is_of(&self, buffer: &Buffer) -> bool {
        Rc::ptr_eq(&self.buffer.0, &buffer.0)
    }

    /// Returns the size in bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Writes bytes (a multiple of 4) at the start of the slice.
    pub fn write_bytes(&self, gpu: &Gpu, bytes: &[u8]) {
        gpu.write_buffer(&self.buffer, self.offset, bytes);
    }
}

/// Alignment of binding offsets that every device accepts.
const ALIGNMENT: u64 = 256;

impl Gpu {
    /// Creates a zeroed buffer of at least 16 bytes that kernels read and write.
    ///
    /// # Errors
    /// [`Error::OutOfGpuMemory`] if it exceeds the device's limits.
    pub fn buffer(&self, what: &str, bytes: u64) -> Result<Buffer> {
        use wgpu::BufferUsages as Usage;
        let limit = self.info().max_binding_size.min(self.info().max_buffer_size);
        if bytes > limit {
            return Err(Error::OutOfGpuMemory { what: what.into(), need: bytes, limit: Some(limit) });
        }
        let usage = Usage::STORAGE | Usage::UNIFORM | Usage::COPY_DST | Usage::COPY_SRC;
        self.create(what, bytes, usage)
    }

    pub(super) fn create(&self, what: &str, bytes: u64, usage: wgpu::BufferUsages) -> Result<Buffer> {
        self.check()?;
        let size = bytes.max(16).next_multiple_of(4);
        #[cfg(feature = "testing")]
        if self.memory.get().is_some_and(|most| self.counters().allocated + size > most) {
            return Err(Error::OutOfGpuMemory { what: what.into(), need: size, limit: None });
        }
        let raw = self.device.create_buffer(&wgpu::BufferDescriptor {
            label: Some(what),
            size,
            usage,
            mapped_at_creation: false,
        });
        self.count(|counters| {
            counters.creates += 1;
            counters.allocated += size;
        });
        Ok(Buffer(Rc::new(Inner { raw, counters: self.counters.clone() })))
    }

    /// Writes bytes at an offset (multiples of 4) before the next submission runs.
    pub fn write_buffer(&self, buffer: &Buffer, offset: u64, bytes: &[u8]) {
        self.queue.write_buffer(buffer.raw(), offset, bytes);
    }

    /// Copies the start of a buffer, as many bytes as fit both, after earlier submissions.
    pub fn copy(&self, from: &Buffer, to: &Buffer) {
        let mut encoder = self.device.create_command_encoder(&Default::default());
        encoder.copy_buffer_to_buffer(from.raw(), 0, to.raw(), 0, from.size().min(to.size()));
        self.queue.submit([encoder.finish()]);
    }

    /// Copies parts of a buffer to parts of another one.
    pub fn copy_parts(&self, from: &Buffer, to: &Buffer, parts: impl Iterator<Item = (Range<u64>, Range<u64>)>) {
        let mut encoder = self.device.create_command_encoder(&Default::default());
        for (part, place) in parts {
            encoder.copy_buffer_to_buffer(from.raw(), part.start, to.raw(), place.start, part.end - part.start);
        }
        self.queue.submit([encoder.finish()]);
    }

    /// Creates a buffer that holds `data`.
    pub fn buffer_of<T: Pod>(&self, what: &str, data: &[T]) -> Result<Buffer> {
        let mut bytes = bytemuck::cast_slice(data).to_vec();
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        let buffer = self.buffer(what, bytes.len() as u64)?;
        self.write_buffer(&buffer, 0, &bytes);
        Ok(buffer)
    }

    /// Runs `allocate`, which creates buffers, and waits for the driver's response. Otherwise a refusal is reported only when the
    /// buffers are used.
    ///
    /// # Errors
    /// [`Error::OutOfGpuMemory`] with `what` and `need` (bytes) if the driver refuses; errors of `allocate`.
    pub async fn allocating<T>(&self, what: &str, need: u64, allocate: impl FnOnce() -> Result<T>) -> Result<T> {
        let scope = self.device.push_error_scope(wgpu::ErrorFilter::OutOfMemory);
        let allocated = allocate();
        let refused = scope.pop().await;
        // A lost device reports no error here.
        self.check()?;
        match refused {
            Some(_) => Err(Error::OutOfGpuMemory { what: what.into(), need, limit: None }),
            None => allocated,
        }
    }
}

/// Small blocks in one buffer, each aligned for a binding; equal blocks are stored once.
#[derive(Default)]
pub struct Uniforms {
    bytes: Vec<u8>,
    blocks: Vec<(u64, u64)>,
}

impl Uniforms {
    /// Adds a block and returns its index.
    pub fn add<T: Pod>(&mut self, block: &[T]) -> usize {
        let block: &[u8] = bytemuck::cast_slice(block);
        let same = |&(offset, size): &(u64, u64)| {
            self.bytes.get(offset as usize..(offset + size) as usize).is_some_and(|bytes| bytes == block)
        };
        if let Some(index) = self.blocks.iter().position(same) {
            return index;
        }
        let offset = (self.bytes.len() as u64).next_multiple_of(ALIGNMENT);
        self.bytes.resize(offset as usize, 0);
        self.bytes.extend_from_slice(block);
        self.blocks.push((offset, block.len() as u64));
        self.blocks.len() - 1
    }

    /// Uploads the blocks; slice i is block i.
    pub fn upload(self, gpu: &Gpu, what: &str) -> Result<Vec<Slice>> {
        let buffer = gpu.buffer_of(what, &self.bytes)?;
        Ok(self.blocks.iter().map(|&(offset, size)| buffer.slice(offset, size)).collect())
    }
}
