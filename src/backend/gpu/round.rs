//! Buffers of a round, shared by target and draft model: token ids, and sampling parameters.

use super::dims::SamplingBlock;
use super::memory::{remaining_tokens, seen_tokens};
use crate::error::Result;
use crate::gpu::{Buffer, Gpu};
use crate::model::Capacity;
use crate::options::MAX_TOP_LOGPROBS;
use crate::target::{Logprobs, MAX_DRAFT, READ_IN_ROUND};

/// Token ids on the GPU, as u32: tokens before the pending one | pending token | draft tokens | the target's ids | prefill chunk,
/// or log-probabilities of a round. The last three are adjacent, so that one copy reads draft, ids and log-probabilities.
pub(super) const BEFORE: usize = READ_IN_ROUND;
pub(super) const PENDING: usize = BEFORE;
pub(super) const DRAFTS: usize = PENDING + 1;
pub(super) const IDS: usize = DRAFTS + MAX_DRAFT;
pub(super) const CHUNK: usize = IDS + MAX_DRAFT + 1;

/// Room for biases, in words of 4 bytes. A bias takes up to 6, and 1 per token that must precede it.
pub const BIAS_WORDS: usize = 1 << 14;
/// Maximum number of tokens that a bias can require before its token.
pub const MAX_AFTER: usize = BEFORE + 1;

/// Returns the number of words of a row's log-probabilities: chosen token, draft token, then `top` pairs of token and
/// log-probability.
pub(super) fn logprob_words(top: usize) -> usize {
    2 + 2 * top.max(1)
}

/// Reads the output of `shaders/logprobs.wgsl`, row by row. Ids from `vocab` on are padding, if fewer tokens were found.
pub(super) fn read_logprobs(words: &[u32], top: usize, vocab: usize) -> Vec<Logprobs> {
    let of_row = |words: &[u32]| {
        let of = |at: usize| f32::from_bits(words[at]);
        let ids = (2..words.len()).step_by(2).take(top).take_while(|at| (words[*at] as usize) < vocab);
        Logprobs { chosen: of(0), drafted: of(1), top: ids.map(|at| (words[at], of(at + 1))).collect() }
    };
    words.chunks_exact(logprob_words(top)).map(of_row).collect()
}

/// Buffers of target and draft model.
#[derive(Clone)]
pub struct RoundBuffers {
    pub(super) tokens: Buffer,
    pub(super) sampling: Buffer,
    /// A bit for each id in the text, pending token included.
    pub(super) seen: Buffer,
    /// Number of times that each id was generated.
    pub(super) counts: Buffer,
    /// The text, pending token included.
    pub(super) text: Buffer,
    pub(super) biases: Buffer,
    /// Tokens that may remain in each row, by segment [rows, vocab in whole segments].
    pub(super) found: Buffer,
    /// Remaining tokens of each row, compacted [rows, vocab].
    pub(super) list: Buffer,
}

impl RoundBuffers {
    /// Creates the buffers for a target of `vocab` tokens.
    pub fn new(gpu: &Gpu, capacity: &Capacity, vocab: usize) -> Result<Self> {
        let behind_ids = capacity.prefill_chunk.max((MAX_DRAFT + 1) * logprob_words(MAX_TOP_LOGPROBS));
        // Lists that exceed a binding are omitted: the most likely tokens are found without them.
        let limit = gpu.info().max_binding_size;
        let [found, list] = remaining_tokens(vocab).map(|bytes| if bytes <= limit { bytes } else { 0 });
        let [seen, counts] = seen_tokens(vocab);
        Ok(Self {
            found: gpu.buffer("the sampler", found)?,
            list: gpu.buffer("the sampler", list)?,
            tokens: gpu.buffer("round", 4 * (CHUNK + behind_ids) as u64)?,
            sampling: gpu.buffer("sampling", size_of::<SamplingBlock>() as u64)?,
            seen: gpu.buffer("seen tokens", seen)?,
            counts: gpu.buffer("generated tokens", counts)?,
            text: gpu.buffer("text", 4 * capacity.max_context as u64)?,
            biases: gpu.buffer("biases", 4 * BIAS_WORDS as u64)?,
        })
    }
}

/// The GPU's copy of the text so far: its tokens, a bit per id, and how often each id was generated.
#[derive(Default)]
pub(super) struct Seen {
    bits: Vec<u32>,
    counts: Vec<u32>,
    /// Leading tokens of the text that are marked.
    marked: usize,
    /// Leading tokens that were not generated.
    pub prompt_len: usize,
    /// True if the device has marked tokens after the first `marked`.
    pub marked_ahead: bool,
}

impl Seen {
    /// Returns an empty state for a text with this prompt length.
    pub fn behind(prompt_len: usize) -> Self {
        Self { prompt_len, ..Self::default() }
    }

    /// Marks the tokens that are not marked yet, of the cached ones and the pending one.
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
                gpu.write_buffer(&buffers.seen, 4 * word as u64, &bits.to_le_bytes());
                gpu.write_buffer(&buffers.counts, 4 * u64::from(id), &count.to_le_bytes());
            }
        }
        if whole {
            gpu.write_buffer(&buffers.seen, 0, bytemuck::cast_slice(&self.bits));
            gpu.write_buffer(&buffers.counts, 0, bytemuck::cast_slice(&self.counts));
        }
        gpu.write_buffer(&buffers.text, 4 * self.marked as u64, bytemuck::cast_slice(&fresh));
        self.marked += fresh.len();
    }

    /// Truncates the text to its first `len` tokens.
    pub fn truncate(&mut self, len: usize) {
        if len < self.marked || self.marked_ahead {
            *self = Self::behind(self.prompt_len);
        }
    }
}
