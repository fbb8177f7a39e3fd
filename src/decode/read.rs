//! Reading a text outside of rounds, chunk by chunk: prefill, a draft model that catches up, logits for checks.

use super::dims::Step;
use super::engine::Engine;
use super::forward::Model;
use super::round::{BEFORE, CHUNK, IDS};
use super::target::MAX_DRAFT;
use crate::error::Result;
use crate::gpu::Submitted;

impl Engine {
    /// Runs the layers of a model over a chunk of tokens at a position.
    pub(super) fn submit_chunk(&self, model: &Model, tokens: &[u32], position: usize) -> Submitted {
        self.gpu.write(&self.buffers.tokens, 4 * CHUNK as u64, bytemuck::cast_slice(tokens));
        model.set_step(Step { rows: tokens.len() as u32, ..chunk_step(position) });
        let mut recorder = self.gpu.record();
        model.record_body(&mut recorder, tokens.len(), &(position..=position));
        recorder.submit(None)
    }

    /// Waits for the chunk before this one.
    pub(super) async fn keep_up(&mut self, submitted: Submitted) -> Result<()> {
        match self.chunk.replace(self.gpu.done(submitted)) {
            Some(before) => before.wait(&self.gpu).await,
            None => Ok(()),
        }
    }

    /// As [`super::Target::catch_up`].
    pub(super) async fn read_missed(&mut self, pending: u32) -> Result<usize> {
        let Some(model) = &self.draft else { return Ok(0) };
        let translated;
        let (text, read) = match &mut self.translation {
            None => (&self.cached[..], self.draft_cached),
            Some(translation) => {
                translated = translation.text(&self.cached, pending)?;
                (&translated.0[..translated.0.len().saturating_sub(1)], translated.1)
            }
        };
        let count = text.len().saturating_sub(read + BEFORE).min(model.chunk());
        // Where there is no room for a draft, there is nothing to read for.
        if count == 0 || text.len() >= model.capacity().max_context {
            return Ok(0);
        }
        let chunk = text[read..read + count].to_vec();
        self.make_draft_room(read + count).await?;
        let Some(model) = &self.draft else { return Ok(0) };
        let submitted = self.submit_chunk(model, &chunk, read);
        match &mut self.translation {
            None => self.draft_cached += count,
            Some(translation) => translation.cached.extend(chunk),
        }
        self.keep_up(submitted).await?;
        Ok(count)
    }

    /// Computes the logits of some rows of the chunk at a position, which was submitted last.
    fn submit_head(&self, position: usize, first: usize, rows: usize) {
        let step = chunk_step(position);
        self.target.set_step(Step { rows: (first + rows) as u32, logit_row: first as u32, ..step });
        let mut recorder = self.gpu.record();
        self.target.record_head(&mut recorder, rows);
        recorder.submit(None);
    }

    /// Caches `tokens` behind the cached ones, so many rows at a time (at most [`Model::max_rows`]), and returns the logits
    /// of each [tokens, vocab], flattened: for tests and perplexities.
    ///
    /// # Errors
    /// As [`super::Target::prefill`].
    pub async fn logits(&mut self, tokens: &[u32], rows: usize) -> Result<Vec<f32>> {
        self.make_room(tokens.len()).await?;
        let vocab = self.target.spec().vocab_size;
        let mut all = Vec::with_capacity(tokens.len() * vocab);
        for chunk in tokens.chunks(rows.clamp(1, self.target.max_rows())) {
            let position = self.cached.len();
            self.submit_chunk(&self.target, chunk, position);
            for first in (0..chunk.len()).step_by(MAX_DRAFT + 1) {
                let rows = (chunk.len() - first).min(MAX_DRAFT + 1);
                self.submit_head(position, first, rows);
                let words = self.gpu.read(self.target.logits(), 0, 4 * (rows * vocab) as u64).await?;
                all.extend(words.into_iter().map(f32::from_bits));
            }
            self.cached.extend_from_slice(chunk);
        }
        Ok(all)
    }

    /// Computes tokens at a position in one pass, with a head for as many of them as a round has, and returns the bits of the last
    /// one's logits [vocab]. What is cached before the position need not be what counts as cached.
    pub(super) async fn last_logits(&self, tokens: &[u32], position: usize) -> Result<Vec<u32>> {
        self.submit_chunk(&self.target, tokens, position);
        let rows = tokens.len().min(MAX_DRAFT + 1);
        self.submit_head(position, tokens.len() - rows, rows);
        let row = 4 * self.target.spec().vocab_size as u64;
        self.gpu.read(self.target.logits(), row * (rows as u64 - 1), row).await
    }
}

/// Of a chunk without rows.
fn chunk_step(position: usize) -> Step {
    Step { position: position as u32, rows: 0, token: CHUNK as u32, logit_row: 0, out: IDS as u32, draft_row: 0 }
}
