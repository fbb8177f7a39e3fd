//! A target and, where there is one, its draft model on the CPU: rounds that are computed when they are waited for.

use super::model::Model;
use super::rows::Rows;
use crate::decode::{DRAFT_MODEL, Draft, MAX_DRAFT, Target, Verified};
use crate::error::{Error, Result};
use crate::sample::{Sampling, choose, choose_draft};

/// Tokens that a draft model reads in a round before it drafts.
const MISSED: usize = 16;

/// Models on the CPU.
pub struct Engine {
    target: Model,
    draft: Option<Model>,
    sampling: Sampling,
    cached: Vec<u32>,
    draft_cached: usize,
    submitted: Option<(u32, Draft)>,
}

impl Engine {
    /// Chooses greedily until [`Engine::sample_by`].
    pub fn new(target: Model, draft: Option<Model>) -> Self {
        Self { target, draft, sampling: Sampling::default(), cached: Vec::new(), draft_cached: 0, submitted: None }
    }

    /// The target model.
    pub fn target(&self) -> &Model {
        &self.target
    }

    /// The draft model.
    pub fn draft(&self) -> Option<&Model> {
        self.draft.as_ref()
    }

    /// From now on target and draft model choose their tokens like this.
    pub fn sample_by(&mut self, sampling: &Sampling) {
        self.sampling = sampling.clone();
    }

    fn room(&self, more: usize) -> Result<()> {
        let (need, limit) = (self.cached.len() + more, self.capacity());
        if need > limit { Err(Error::ContextFull { need, limit }) } else { Ok(()) }
    }

    /// Caches `tokens` behind the cached ones, so many rows at a time, and returns the logits of each [tokens, vocab], flattened: for
    /// tests and perplexities.
    ///
    /// # Errors
    /// [`Error::ContextFull`].
    pub fn logits(&mut self, tokens: &[u32], rows: usize) -> Result<Vec<f32>> {
        self.room(tokens.len())?;
        let mut all = Vec::new();
        for chunk in tokens.chunks(rows.max(1)) {
            let logits = self.target.forward(chunk, self.cached.len(), 0..chunk.len());
            (0..logits.len()).for_each(|row| all.extend_from_slice(logits.row(row)));
            self.cached.extend_from_slice(chunk);
        }
        Ok(all)
    }

    /// So many tokens of the draft model behind the cached ones and the pending one, with what each was drawn from.
    fn draft_tokens(&mut self, pending: u32, count: usize) -> Result<(Vec<u32>, Vec<Vec<f32>>)> {
        let position = self.cached.len();
        let (mut tokens, mut logits) = (Vec::new(), Vec::new());
        let Some(model) = &mut self.draft else { return Ok((tokens, logits)) };
        let reach = model.blueprint().capacity.max_context.saturating_sub(position);
        if position - self.draft_cached > MISSED {
            return Ok((tokens, logits));
        }
        let mut history = [&self.cached[..], &[pending]].concat();
        let mut from = self.draft_cached;
        for _ in 0..count.min(reach) {
            let fresh = &history[from..];
            let rows = model.forward(fresh, from, fresh.len() - 1..fresh.len());
            let mut row = rows.row(0).to_vec();
            let (id, confident) = choose_draft(&mut row, &self.sampling, &history)
                .ok_or(Error::NonFiniteLogits { model: DRAFT_MODEL.into(), position: history.len() - 1 })?;
            from = history.len();
            history.push(id);
            tokens.push(id);
            logits.push(row);
            if !confident {
                break;
            }
        }
        Ok((tokens, logits))
    }

    /// The target's ids behind the pending token and each draft token.
    fn ids(&self, logits: &Rows, pending: u32, draft: &[u32], drawn_from: &[Vec<f32>]) -> Result<Vec<u32>> {
        let mut history = [&self.cached[..], &[pending]].concat();
        let mut ids = Vec::new();
        for row in 0..logits.len() {
            let proposed = draft.get(row).map(|&id| (id, drawn_from.get(row).map(|logits| &logits[..])));
            let id = choose(&mut logits.row(row).to_vec(), &self.sampling, &history, proposed)
                .ok_or(Error::NonFiniteLogits { model: "target".into(), position: history.len() - 1 })?;
            ids.push(id);
            history.extend(draft.get(row));
        }
        Ok(ids)
    }
}

impl Target for Engine {
    fn cached(&self) -> &[u32] {
        &self.cached
    }

    fn draft_cached(&self) -> usize {
        self.draft_cached
    }

    fn capacity(&self) -> usize {
        self.target.blueprint().capacity.max_context
    }

    fn truncate(&mut self, len: usize) {
        self.submitted = None;
        self.cached.truncate(len);
        self.draft_cached = self.draft_cached.min(len);
    }

    fn prefill_chunk(&self) -> usize {
        self.target.blueprint().capacity.prefill_chunk
    }

    async fn prefill(&mut self, tokens: &[u32]) -> Result<()> {
        self.truncate(self.cached.len());
        self.room(tokens.len())?;
        for chunk in tokens.chunks(self.prefill_chunk()) {
            self.target.forward(chunk, self.cached.len(), 0..0);
            self.cached.extend_from_slice(chunk);
        }
        Ok(())
    }

    async fn catch_up(&mut self, _pending: u32) -> Result<usize> {
        let Some(model) = &mut self.draft else { return Ok(0) };
        let capacity = model.blueprint().capacity;
        let from = self.draft_cached;
        let count = self.cached.len().saturating_sub(from + MISSED).min(capacity.prefill_chunk);
        if count > 0 && self.cached.len() < capacity.max_context {
            model.forward(&self.cached[from..from + count], from, 0..0);
            self.draft_cached += count;
            return Ok(count);
        }
        Ok(0)
    }

    async fn submit(&mut self, pending: u32, draft: &Draft) -> Result<()> {
        let draft = draft.clone().cut(MAX_DRAFT);
        self.room(1 + if let Draft::Tokens(tokens) = &draft { tokens.len() } else { 0 })?;
        self.submitted = Some((pending, draft));
        Ok(())
    }

    async fn finish(&mut self) -> Result<Verified> {
        let Some((pending, draft)) = self.submitted.take() else { return Ok(Verified::default()) };
        let position = self.cached.len();
        let (tokens, drawn_from, by_model) = match draft {
            Draft::Tokens(tokens) => (tokens, Vec::new(), false),
            Draft::Model(count) => {
                let (tokens, logits) = self.draft_tokens(pending, count.min(self.capacity() - position - 1))?;
                (tokens, logits, true)
            }
        };
        let rows = [&[pending], &tokens[..]].concat();
        let logits = self.target.forward(&rows, position, 0..rows.len());
        let ids = self.ids(&logits, pending, &tokens, &drawn_from)?;
        self.cached.extend(rows);
        if by_model && !tokens.is_empty() {
            // It has read all but its own last token.
            self.draft_cached = position + tokens.len();
        }
        Ok(Verified { draft: tokens, ids, waited: 0.0 })
    }
}
