//! Passes outside a round's submission: prefill, catch-up or translated drafts of a draft model, heads, probes for checks.

use super::dims::Step;
use super::engine::GpuBackend;
use super::forward::GpuModel;
use super::memory::logits_stride;
use super::round::{CHUNK, DRAFTS, IDS, PENDING};
use super::sampler::{NOT_DRAFTED, check_finite};
use super::shape::DIRECT;
use crate::error::Result;
use crate::gpu::{Readback, Submitted};
use crate::target::{DRAFT_MODEL, DraftPlan, MAX_DRAFT, StatePass};
use bytemuck::Zeroable;
use web_time::Instant;

impl GpuBackend {
    /// Submits a pass of a model's layers over a chunk of tokens at `position`.
    pub(super) fn submit_chunk(
        &self,
        model: &GpuModel,
        tokens: &[u32],
        position: usize,
        states: StatePass,
    ) -> Submitted {
        self.gpu.write_buffer(&self.buffers.tokens, 4 * CHUNK as u64, bytemuck::cast_slice(tokens));
        model.set_reading_step(Step { rows: tokens.len() as u32, ..chunk_step(position) }.with_states(states));
        let mut recorder = self.gpu.record();
        model.record_reading(&mut recorder, tokens.len(), &(position..=position));
        recorder.submit(None)
    }

    /// Waits for the previous chunk.
    pub(super) async fn keep_up(&mut self, submitted: Submitted) -> Result<()> {
        match self.chunk.replace(self.gpu.done(submitted)) {
            Some(before) => before.wait(&self.gpu).await,
            None => Ok(()),
        }
    }

    /// Implements [`crate::target::Target::catch_up`].
    pub(super) async fn read_missed(&mut self, pending: u32) -> Result<usize> {
        let (position, chunk) = self.drafting.missed(&self.cached, pending)?;
        if !chunk.is_empty() {
            self.read_draft_chunk(position, &chunk).await?;
        }
        Ok(chunk.len())
    }

    /// Lets the draft model read the hidden states that a pass of `rows` rows would replace.
    pub(super) async fn read_due(&mut self, rows: usize) -> Result<()> {
        while let Some((position, chunk)) = self.drafting.due(&self.cached, rows) {
            self.read_draft_chunk(position, &chunk).await?;
        }
        Ok(())
    }

    /// Lets the draft model read a chunk of its text at `position`.
    async fn read_draft_chunk(&mut self, position: usize, chunk: &[u32]) -> Result<()> {
        let Some(model) = &self.draft else { return Ok(()) };
        let (context, count) = (model.capacity().max_context, chunk.len());
        // Makes room for all missed tokens, so that the cache does not grow with each chunk. A translation may be longer.
        self.make_draft_room(self.cached.len().max(position + count).min(context)).await?;
        let Some(model) = &self.draft else { return Ok(()) };
        let states = self.drafting.chunk(position, count);
        let submitted = self.submit_chunk(model, chunk, position, states);
        self.keep_up(submitted).await
    }

    /// Drafts with a draft model that has another tokenizer, in one submission and one readback. Returns at most `room` tokens of
    /// the target, and the seconds spent waiting for the device.
    pub(super) async fn draft_translated(&mut self, plan: DraftPlan, room: usize) -> Result<(Vec<u32>, f64)> {
        let DraftPlan { tokens, position, steps, states } = &plan;
        self.make_draft_room(position + self.drafting.rows(*steps)).await?;
        let Some(model) = &self.draft else { return Ok((Vec::new(), 0.0)) };
        self.gpu.write_buffer(&self.buffers.tokens, 4 * (PENDING - plan.missed()) as u64, bytemuck::cast_slice(tokens));
        self.set_draft_step(&plan);
        let mut recorder = self.gpu.record();
        self.record_draft(&mut recorder, model, plan.missed(), *position..=*position, *steps);
        let bytes = 4 * *steps as u64;
        let readback = &mut self.readbacks[DIRECT];
        let submitted = recorder.submit(Some((&self.buffers.tokens, 4 * DRAFTS as u64, bytes, readback)));
        let began = Instant::now();
        let mut drafted = readback.read_words(&self.gpu, bytes, submitted).await?;
        let waited = began.elapsed().as_secs_f64();
        drafted.truncate(drafted.iter().position(|&id| id == NOT_DRAFTED).unwrap_or(*steps));
        check_finite(DRAFT_MODEL, &drafted, *position)?;
        let draft = self.drafting.wrote([*position, plan.missed()], states.saved(), drafted, room)?;
        Ok((draft, waited))
    }

    /// Computes the logits of `rows` rows of the latest chunk, which starts at `position`.
    #[cfg(not(target_arch = "wasm32"))]
    pub(super) fn submit_head(&self, position: usize, first: usize, rows: usize) {
        let step = chunk_step(position);
        self.target.set_step(Step { rows: (first + rows) as u32, logit_row: first as u32, ..step });
        let mut recorder = self.gpu.record();
        self.target.record_head(&mut recorder, rows);
        recorder.submit(None);
    }

    /// Returns the bits of the last token's first logits, by [`GpuModel::record_probe`] in one pass.
    pub(super) async fn probe(&self, tokens: &[u32], position: usize, states: StatePass) -> Result<Vec<u32>> {
        /// Enough to notice a difference.
        const OUTS: usize = 1024;
        let (vocab, rows) = (self.target.spec().vocab_size, tokens.len());
        let outs = OUTS.min(vocab);
        // The head has no room for more rows.
        let wanted = if rows > MAX_DRAFT + 1 { 1 } else { rows };
        self.gpu.write_buffer(&self.buffers.tokens, 4 * CHUNK as u64, bytemuck::cast_slice(tokens));
        let logit_row = (rows - wanted) as u32;
        self.target.set_step(Step { rows: rows as u32, logit_row, ..chunk_step(position) }.with_states(states));
        let (offset, bytes) = (4 * (logits_stride(vocab) * (wanted - 1)) as u64, 4 * outs as u64);
        let mut readback = Readback::new(&self.gpu, bytes)?;
        let mut recorder = self.gpu.record();
        self.target.record_probe(&mut recorder, rows, position, wanted, outs);
        let submitted = recorder.submit(Some((self.target.logits(), offset, bytes, &readback)));
        readback.read_words(&self.gpu, bytes, submitted).await
    }
}

/// Returns the step of a chunk; the caller sets `rows`.
fn chunk_step(position: usize) -> Step {
    Step { position: position as u32, token: CHUNK as u32, out: IDS as u32, ..Step::zeroed() }
}
