//! The buffers of a round, which target and draft model share: token ids, and how tokens are chosen.

use super::dims::SamplingBlock;
use crate::error::Result;
use crate::gpu::{Buffer, Gpu};
use crate::target::MAX_DRAFT;

/// Token ids on the GPU, in u32: tokens before the pending one | the pending token | draft tokens | the target's ids | a
/// prefill chunk. Draft tokens and ids are neighbours, so that one copy brings both.
pub(super) const BEFORE: usize = 15;
pub(super) const PENDING: usize = BEFORE;
pub(super) const DRAFTS: usize = PENDING + 1;
pub(super) const IDS: usize = DRAFTS + MAX_DRAFT;
pub(super) const CHUNK: usize = IDS + MAX_DRAFT + 1;

/// Room for biases, in words of 4 bytes: a bias takes up to 6, and 1 for each token that must stand before.
pub const BIAS_WORDS: usize = 1 << 14;
/// Most tokens that may have to stand before a biased one.
pub const MAX_AFTER: usize = BEFORE + 1;

/// The buffers.
#[derive(Clone)]
pub struct RoundBuffers {
    pub(super) tokens: Buffer,
    pub(super) sampling: Buffer,
    pub(super) seen: Buffer,
    pub(super) biases: Buffer,
}

impl RoundBuffers {
    /// With room for prefill chunks of `rows`, for a target of `vocab` tokens.
    ///
    /// # Errors
    /// As [`Gpu::buffer`].
    pub fn new(gpu: &Gpu, rows: usize, vocab: usize) -> Result<Self> {
        Ok(Self {
            tokens: gpu.buffer("round", 4 * (CHUNK + rows.max(MAX_DRAFT + 1)) as u64)?,
            sampling: gpu.buffer("sampling", size_of::<SamplingBlock>() as u64)?,
            seen: gpu.buffer("seen tokens", 4 * vocab.div_ceil(32) as u64)?,
            biases: gpu.buffer("biases", 4 * BIAS_WORDS as u64)?,
        })
    }
}

/// Which ids the text has so far, as bits on the GPU.
#[derive(Default)]
pub(super) struct Seen {
    words: Vec<u32>,
    /// Leading tokens of the text that are marked.
    marked: usize,
    /// Whether the device has marked some behind them.
    pub marked_ahead: bool,
}

impl Seen {
    /// Marks the tokens of a text that are not marked yet: the cached ones and the pending one.
    pub fn mark(&mut self, gpu: &Gpu, buffer: &Buffer, cached: &[u32], pending: u32) {
        if self.words.is_empty() {
            self.words = vec![0; (buffer.size() / 4) as usize];
        }
        let many = self.marked == 0;
        for id in cached.iter().copied().chain([pending]).skip(self.marked) {
            let word = id as usize / 32;
            if let Some(bits) = self.words.get_mut(word) {
                *bits |= 1 << (id % 32);
                if !many {
                    gpu.write(buffer, 4 * word as u64, &bits.to_le_bytes());
                }
            }
        }
        if many {
            gpu.write(buffer, 0, bytemuck::cast_slice(&self.words));
        }
        self.marked = cached.len() + 1;
    }

    /// The text now has only its first `len` tokens.
    pub fn truncate(&mut self, len: usize) {
        if len < self.marked || self.marked_ahead {
            *self = Self::default();
        }
    }
}
