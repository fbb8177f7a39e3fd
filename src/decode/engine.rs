//! A target and, where there is one, its draft model on one device: rounds of one submission and one readback.

use super::dims::Step;
use super::forward::Model;
use super::memory::FEW_ROWS;
use super::target::{Draft, MAX_DRAFT, Target, Verified};
use crate::error::{Error, Result};
use crate::gpu::{Buffer, Gpu, Readback};
use std::rc::Rc;

/// Token ids on the GPU, in u32:
/// tokens that the draft model missed | the pending token | draft tokens | the target's ids | a prefill chunk.
/// Draft tokens and ids are neighbours, so that one copy brings both.
const CATCH_UP: usize = 15;
const PENDING: usize = CATCH_UP;
const DRAFTS: usize = PENDING + 1;
const IDS: usize = DRAFTS + MAX_DRAFT;
const CHUNK: usize = IDS + MAX_DRAFT + 1;

/// The sampler's answer to a row with a logit that is not finite.
const NOT_FINITE: u32 = u32::MAX;

/// Models on one device.
pub struct Engine {
    gpu: Rc<Gpu>,
    round: Buffer,
    readback: Readback,
    target: Model,
    draft: Option<Model>,
    cached: Vec<u32>,
    /// Leading cached tokens that the draft model's cache holds too.
    draft_cached: usize,
}

impl Engine {
    /// The buffer of token ids that models of an engine share, with room for prefill chunks of `rows`.
    ///
    /// # Errors
    /// As [`Gpu::buffer`].
    pub fn round_buffer(gpu: &Gpu, rows: usize) -> Result<Buffer> {
        gpu.buffer("round", 4 * (CHUNK + rows.max(MAX_DRAFT + 1)) as u64)
    }

    /// An engine of models that were loaded with this round buffer.
    ///
    /// # Errors
    /// As [`Gpu::buffer`].
    pub fn new(gpu: &Rc<Gpu>, round: Buffer, target: Model, draft: Option<Model>) -> Result<Self> {
        let readback = Readback::new(gpu, 4 * (CHUNK - DRAFTS) as u64)?;
        Ok(Self { gpu: gpu.clone(), round, readback, target, draft, cached: Vec::new(), draft_cached: 0 })
    }

    /// The device.
    pub fn gpu(&self) -> &Rc<Gpu> {
        &self.gpu
    }

    /// The target model.
    pub fn target(&self) -> &Model {
        &self.target
    }

    /// The draft model.
    pub fn draft(&self) -> Option<&Model> {
        self.draft.as_ref()
    }

    /// Runs the layers of a model over a chunk of tokens at a position.
    fn run_chunk(&self, model: &Model, tokens: &[u32], position: usize) {
        self.gpu.write(&self.round, 4 * CHUNK as u64, bytemuck::cast_slice(tokens));
        model.set_step(Step {
            position: position as u32,
            rows: tokens.len() as u32,
            token: CHUNK as u32,
            logit_row: 0,
            out: IDS as u32,
        });
        let mut recorder = self.gpu.record();
        model.record_body(&mut recorder, tokens.len(), position);
        recorder.submit(None);
    }

    /// Runs a model over tokens from a position on, in chunks.
    fn run_chunks(&self, model: &Model, tokens: &[u32], mut position: usize) {
        for chunk in tokens.chunks(model.capacity().prefill_chunk.min(model.max_rows())) {
            self.run_chunk(model, chunk, position);
            position += chunk.len();
        }
    }

    fn check_room(&self, more: usize) -> Result<()> {
        let need = self.cached.len() + more;
        if need > self.capacity() {
            return Err(Error::ContextFull { need, limit: self.capacity() });
        }
        Ok(())
    }

    /// Caches `tokens` behind the cached ones, so many rows at a time (at most [`Model::max_rows`]), and returns the logits
    /// of each [tokens, vocab], flattened: for tests and perplexities.
    ///
    /// # Errors
    /// As [`Target::prefill`].
    pub async fn logits(&mut self, tokens: &[u32], rows: usize) -> Result<Vec<f32>> {
        self.check_room(tokens.len())?;
        let vocab = self.target.spec().vocab_size;
        let mut all = Vec::with_capacity(tokens.len() * vocab);
        for chunk in tokens.chunks(rows.clamp(1, self.target.max_rows())) {
            let position = self.cached.len();
            self.run_chunk(&self.target, chunk, position);
            for first in (0..chunk.len()).step_by(MAX_DRAFT + 1) {
                let rows = (chunk.len() - first).min(MAX_DRAFT + 1);
                self.target.set_step(Step {
                    position: position as u32,
                    rows: (first + rows) as u32,
                    token: CHUNK as u32,
                    logit_row: first as u32,
                    out: IDS as u32,
                });
                let mut recorder = self.gpu.record();
                self.target.record_head(&mut recorder, rows);
                recorder.submit(None);
                let words = self.gpu.read(self.target.logits(), 0, 4 * (rows * vocab) as u64).await?;
                all.extend(words.into_iter().map(f32::from_bits));
            }
            self.cached.extend_from_slice(chunk);
        }
        Ok(all)
    }

    /// Computes a token's logits alone, in a batch and in a prefill chunk, and compares their bits. Shader compilers may
    /// reorder sums; where one does, one kernel variant serves all row counts from now on. Returns whether they agreed.
    ///
    /// # Errors
    /// What the device reports.
    pub async fn check_invariance(&mut self) -> Result<bool> {
        let vocab = self.target.spec().vocab_size;
        // Two blocks of positions, where there is room for them.
        let tokens: Vec<u32> = (0..self.capacity().min(70)).map(|i| (i * 37 % vocab) as u32).collect();
        let mut last = Vec::new();
        for rows in [FEW_ROWS + 1, 4, 1] {
            let before = tokens.len() - rows.min(tokens.len());
            self.truncate(before);
            self.prefill(&tokens[self.cached.len()..before]).await?;
            let logits = self.logits(&tokens[before..], rows).await?;
            last.push(logits[logits.len() - vocab..].iter().map(|logit| logit.to_bits()).collect::<Vec<_>>());
        }
        self.truncate(0);
        let agreed = last.windows(2).all(|pair| pair[0] == pair[1]);
        if !agreed {
            self.target.use_one_variant();
        }
        Ok(agreed)
    }

    /// The target's filled KV cache of a layer, as it lies in its buffer, for tests.
    ///
    /// # Errors
    /// As [`Gpu::read`].
    pub async fn kv_words(&self, layer: usize) -> Result<Vec<u32>> {
        let buffer = &self.target.kv()[layer];
        self.gpu.read(buffer, 0, buffer.size()).await
    }
}

impl Target for Engine {
    fn cached(&self) -> &[u32] {
        &self.cached
    }

    fn capacity(&self) -> usize {
        self.target.capacity().max_context
    }

    fn truncate(&mut self, len: usize) {
        self.cached.truncate(len);
        self.draft_cached = self.draft_cached.min(len);
    }

    async fn prefill(&mut self, tokens: &[u32]) -> Result<()> {
        self.check_room(tokens.len())?;
        self.run_chunks(&self.target, tokens, self.cached.len());
        self.cached.extend_from_slice(tokens);
        self.gpu.check()
    }

    async fn verify(&mut self, pending: u32, draft: &Draft) -> Result<Verified> {
        let (known, steps) = match draft {
            Draft::Tokens(tokens) => (tokens.as_slice(), 0),
            Draft::Model(steps) => (&[][..], *steps),
        };
        let position = self.cached.len();
        let most = MAX_DRAFT.min(self.target.max_rows() - 1);
        let known = &known[..known.len().min(most)];
        // A draft model with a smaller context drafts as far as it goes.
        let reach = self.draft.as_ref().map_or(0, |draft| draft.capacity().max_context.saturating_sub(position));
        let steps = steps.min(most).min(reach);
        let drafted = known.len() + steps;
        let rows = drafted + 1;
        self.check_room(rows)?;

        // The draft model first reads what it missed; more than a few tokens go in chunks of their own.
        let mut first = PENDING;
        if let Some(model) = self.draft.as_ref().filter(|_| steps > 0) {
            let missed = &self.cached[self.draft_cached..];
            let (chunked, missed) = missed.split_at(missed.len().saturating_sub(CATCH_UP));
            self.run_chunks(model, chunked, self.draft_cached);
            first = PENDING - missed.len();
        }
        let mut tokens = self.cached[position - (PENDING - first)..].to_vec();
        tokens.push(pending);
        tokens.extend_from_slice(known);
        self.gpu.write(&self.round, 4 * first as u64, bytemuck::cast_slice(&tokens));

        let mut recorder = self.gpu.record();
        if let Some(model) = self.draft.as_ref().filter(|_| steps > 0) {
            let start = position - (PENDING - first);
            let mut rows = DRAFTS - first;
            model.set_step(Step {
                position: start as u32,
                rows: rows as u32,
                token: first as u32,
                logit_row: rows as u32 - 1,
                out: DRAFTS as u32,
            });
            let mut at = start;
            for _ in 0..steps {
                model.record_body(&mut recorder, rows, at);
                model.record_head(&mut recorder, 1);
                model.record_draft_sample(&mut recorder);
                at += rows;
                rows = 1;
            }
        }
        self.target.set_step(Step {
            position: position as u32,
            rows: rows as u32,
            token: PENDING as u32,
            logit_row: 0,
            out: IDS as u32,
        });
        self.target.record_body(&mut recorder, rows, position);
        self.target.record_head(&mut recorder, rows);
        self.target.record_sample(&mut recorder, rows);
        // With tokens that the CPU knows, only the target's ids come back.
        let from = if steps > 0 { DRAFTS } else { IDS };
        let bytes = 4 * (IDS + rows - from) as u64;
        recorder.submit(Some((&self.round, 4 * from as u64, bytes, &self.readback)));
        let words = self.readback.read(&self.gpu, bytes).await?;

        let ids = words[IDS - from..].to_vec();
        let draft: Vec<u32> = if steps > 0 { words[..steps].to_vec() } else { known.to_vec() };
        for (model, tokens) in [("draft model", &draft), ("target", &ids)] {
            if let Some(row) = tokens.iter().position(|&id| id == NOT_FINITE) {
                return Err(Error::NonFiniteLogits { model, position: position + row });
            }
        }
        self.cached.push(pending);
        self.cached.extend_from_slice(&draft);
        if steps > 0 {
            // It has read all but its own last token.
            self.draft_cached = position + drafted;
        }
        Ok(Verified { draft, ids })
    }
}
