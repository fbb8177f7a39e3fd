//! The buffers of a round, which target and draft model share: token ids, and how tokens are chosen.

use super::dims::SamplingBlock;
use super::memory::remaining_tokens;
use crate::error::Result;
use crate::gpu::{Buffer, Gpu};
use crate::model::Capacity;
use crate::options::MAX_TOP_LOGPROBS;
use crate::target::{Logprobs, MAX_DRAFT, READ_IN_ROUND};

/// Token ids on the GPU, in u32: tokens before the pending one | the pending token | draft tokens | the target's ids | a
/// prefill chunk, or the log-probabilities of a round. Draft tokens, ids and those are neighbours, so that one copy brings all.
pub(super) const BEFORE: usize = READ_IN_ROUND;
pub(super) const PENDING: usize = BEFORE;
pub(super) const DRAFTS: usize = PENDING + 1;
pub(super) const IDS: usize = DRAFTS + MAX_DRAFT;
pub(super) const CHUNK: usize = IDS + MAX_DRAFT + 1;

/// Room for biases, in words of 4 bytes: a bias takes up to 6, and 1 for each token that must stand before.
pub const BIAS_WORDS: usize = 1 << 14;
/// Most tokens that may have to stand before a biased one.
pub const MAX_AFTER: usize = BEFORE + 1;

/// Words of a row's log-probabilities, where so many tokens of it are told: that of the chosen token, of the draft token, and the
/// tokens, each with its own.
pub(super) fn logprob_words(top: usize) -> usize {
    2 + 2 * top.max(1)
}

/// What `shaders/logprobs.wgsl` wrote, row by row: with ids below `vocab`, because there may be fewer than were asked for.
pub(super) fn read_logprobs(words: &[u32], top: usize, vocab: usize) -> Vec<Logprobs> {
    let of_row = |words: &[u32]| {
        let of = |at: usize| f32::from_bits(words[at]);
        let ids = (2..words.len()).step_by(2).take(top).take_while(|at| (words[*at] as usize) < vocab);
        Logprobs { chosen: of(0), drafted: of(1), top: ids.map(|at| (words[at], of(at + 1))).collect() }
    };
    words.chunks_exact(logprob_words(top)).map(of_row).collect()
}

/// The buffers.
#[derive(Clone)]
pub struct RoundBuffers {
    pub(super) tokens: Buffer,
    pub(super) sampling: Buffer,
    /// A bit for each id that the text has, pending included.
    pub(super) seen: Buffer,
    /// For each id how often it was generated.
    pub(super) counts: Buffer,
    /// The text, pending included.
    pub(super) text: Buffer,
    pub(super) biases: Buffer,
    /// Tokens that may remain in each row, by segments [rows, vocab in whole segments].
    pub(super) found: Buffer,
    /// Rows of tokens, one after the other [rows, vocab].
    pub(super) list: Buffer,
}

impl RoundBuffers {
    /// With room for what a target of `vocab` tokens reads.
    ///
    /// # Errors
    /// As [`Gpu::buffer`].
    pub fn new(gpu: &Gpu, capacity: &Capacity, vocab: usize) -> Result<Self> {
        let behind_ids = capacity.prefill_chunk.max((MAX_DRAFT + 1) * logprob_words(MAX_TOP_LOGPROBS));
        // Lists that no binding holds are left out: the most likely tokens are found without them.
        let limit = gpu.info().max_binding_size;
        let [found, list] = remaining_tokens(vocab).map(|bytes| if bytes <= limit { bytes } else { 0 });
        Ok(Self {
            found: gpu.buffer("the sampler", found)?,
            list: gpu.buffer("the sampler", list)?,
            tokens: gpu.buffer("round", 4 * (CHUNK + behind_ids) as u64)?,
            sampling: gpu.buffer("sampling", size_of::<SamplingBlock>() as u64)?,
            seen: gpu.buffer("seen tokens", 4 * vocab.div_ceil(32) as u64)?,
            counts: gpu.buffer("generated tokens", 4 * vocab as u64)?,
            text: gpu.buffer("text", 4 * capacity.max_context as u64)?,
            biases: gpu.buffer("biases", 4 * BIAS_WORDS as u64)?,
        })
    }
}

/// What the GPU knows of the text so far: its tokens, which ids it has, and how often each was generated.
#[derive(Default)]
pub(super) struct Seen {
    bits: Vec<u32>,
    counts: Vec<u32>,
    /// Leading tokens of the text that are known.
    marked: usize,
    /// Leading tokens that were not generated.
    pub prompt_len: usize,
    /// Whether the device has marked some behind them.
    pub marked_ahead: bool,
}

impl Seen {
    /// Of no text yet; one behind so many tokens of a prompt.
    pub fn behind(prompt_len: usize) -> Self {
        Self { prompt_len, ..Self::default() }
    }

    /// Marks the tokens of a text that are not marked yet: the cached ones and the pending one.
    pub fn mark(&mut self, gpu: &Gpu, buffers: &RoundBuffers, cached: &[u32], pending: u32) {
        let whole = self.marked == 0;
        if whole {
            let zeros = |buffer: &Buffer| vec![0; (buffer.size() / 4) as usize];
            (self.bits, self.counts) = (zeros(&buffers.seen), zeros(&buffers.counts));
        }
        let fresh: Vec<u32> = cached.iter().copied().chain([pending]).skip(self.marked).collect();
        for (at, &id) in (self.marked..).zip(&fresh) {
            let (word, bit) = (id as usize / 32, 1 << (id % 32));
            let generated = u32::from(at >= self.prompt_len);
            let [Some(bits), Some(count)] = [self.bits.get_mut(word), self.counts.get_mut(id as usize)] else {
                continue;
            };
            (*bits, *count) = (*bits | bit, *count + generated);
            if !whole {
                gpu.write(&buffers.seen, 4 * word as u64, &bits.to_le_bytes());
                gpu.write(&buffers.counts, 4 * u64::from(id), &count.to_le_bytes());
            }
        }
        if whole {
            gpu.write(&buffers.seen, 0, bytemuck::cast_slice(&self.bits));
            gpu.write(&buffers.counts, 0, bytemuck::cast_slice(&self.counts));
        }
        gpu.write(&buffers.text, 4 * self.marked as u64, bytemuck::cast_slice(&fresh));
        self.marked += fresh.len();
    }

    /// The text now has only its first `len` tokens.
    pub fn truncate(&mut self, len: usize) {
        if len < self.marked || self.marked_ahead {
            *self = Self::behind(self.prompt_len);
        }
    }
}
