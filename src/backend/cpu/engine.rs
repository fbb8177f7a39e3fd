//! A target and an optional draft model on the CPU. A round is computed when its result is awaited.

use super::model::Model;
use super::parts::for_each_part;
use super::rows::Rows;
use super::turn::Turn;
use crate::constraint::Shared;
use crate::error::{Error, Result};
use crate::sample::{Sampling, choose, choose_draft, log_sum_exp, mask, most_likely};
use crate::target::{DRAFT_MODEL, Draft, Drafting, Logprobs, MAX_DRAFT, Plan, Queue, Target, Translate, Verified};

/// Target and optional draft model.
pub struct CpuBackend {
    pub(super) target: Model,
    pub(super) draft: Option<Model>,
    sampling: Sampling,
    /// Rule for the tokens that may be chosen.
    constraint: Option<Shared>,
    pub(super) cached: Vec<u32>,
    /// State of the draft model; unused without one.
    pub(super) drafting: Drafting,
    submitted: Option<(u32, Draft)>,
    turn: Turn,
}

impl CpuBackend {
    /// Creates an engine that decodes greedily until [`CpuBackend::sample_by`].
    pub fn new(target: Model, draft: Option<Model>) -> Self {
        let capacity = draft.as_ref().map(|model| model.blueprint().capacity);
        let (chunk, context) = capacity.map_or((0, 0), |capacity| (capacity.prefill_chunk, capacity.max_context));
        Self {
            target,
            draft,
            sampling: Sampling::default(),
            constraint: None,
            cached: Vec::new(),
            drafting: Drafting::new(chunk, context),
            submitted: None,
            turn: Turn::new(),
        }
    }

    /// Returns the target model.
    pub fn target(&self) -> &Model {
        &self.target
    }

    /// Returns the draft model.
    pub fn draft(&self) -> Option<&Model> {
        self.draft.as_ref()
    }

    /// Sets how target and draft model choose tokens.
    pub fn sample_by(&mut self, sampling: &Sampling) -> Result<()> {
        self.sampling = sampling.clone();
        Ok(())
    }

    /// Restricts target and draft model to tokens that the constraint allows; `None`: no restriction.
    pub fn constrain(&mut self, constraint: Option<Shared>) -> Result<()> {
        self.constraint = constraint;
        Ok(())
    }

    /// Declares that the draft model has another tokenizer. It then drafts greedily, because noise and biases apply to the target's ids.
    pub fn translate_by(&mut self, translate: Box<dyn Translate>) -> Result<()> {
        self.drafting.translate_by(translate);
        Ok(())
    }

    /// Clears the cache.
    pub fn reset(&mut self) -> Result<()> {
        self.truncate(0);
        self.drafting.forget();
        Ok(())
    }

    pub(super) fn room(&self, more: usize) -> Result<()> {
        let (need, limit) = (self.cached.len() + more, self.capacity());
        if need > limit { Err(Error::ContextFull { need, limit }) } else { Ok(()) }
    }

    /// Appends `tokens` to the cache, `rows` at a time, and returns the logits of each [tokens, vocab], flattened: for tests and
    /// perplexities.
    pub fn logits(&mut self, tokens: &[u32], rows: usize) -> Result<Vec<f32>> {
        self.room(tokens.len())?;
        let mut all = Vec::new();
        for chunk in tokens.chunks(rows.max(1)) {
            let logits = self.target.forward(chunk, self.cached.len(), 0..chunk.len())?;
            (0..logits.len()).for_each(|row| all.extend_from_slice(logits.row(row)));
            self.cached.extend_from_slice(chunk);
        }
        Ok(all)
    }

    /// Appends `tokens` to the cache. Returns the hidden states of the last `wanted` tokens after the final norm [wanted, hidden],
    /// flattened.
    pub async fn hidden(&mut self, tokens: &[u32], wanted: usize) -> Result<Vec<f32>> {
        self.room(tokens.len())?;
        let mut all = Vec::new();
        let unwanted = tokens.len().saturating_sub(wanted);
        for (at, chunk) in tokens.chunks(self.prefill_chunk()).enumerate() {
            self.turn.give().await;
            let first = unwanted.saturating_sub(at * self.prefill_chunk()).min(chunk.len());
            let hidden = self.target.hidden(chunk, self.cached.len(), first..chunk.len())?;
            (0..hidden.len()).for_each(|row| all.extend_from_slice(hidden.row(row)));
            self.cached.extend_from_slice(chunk);
        }
        Ok(all)
    }

    /// Drafts at most `count` tokens after the cached ones and the pending one. Returns the draft in tokens of the target, at most `room`,
    /// and the logits that each was drawn from (empty for a translated draft).
    fn draft_tokens(&mut self, pending: u32, count: usize, room: usize) -> Result<(Vec<u32>, Vec<Vec<f32>>)> {
        let Some(plan) = self.drafting.plan(&self.cached, pending, [count, room])? else {
            return Ok(Default::default());
        };
        let Some(model) = &mut self.draft else { return Ok(Default::default()) };
        let (position, translated, likely) = (plan.position, self.drafting.is_translated(), Sampling::default());
        // Noise, biases and masks apply to the target's ids.
        let (vocab, sampling, constraint) = match translated {
            true => (usize::MAX, &likely, None),
            false => (self.target.blueprint().spec.vocab_size, &self.sampling, self.constraint.as_ref()),
        };
        let text = [&self.cached[..], &[pending]].concat();
        let (drafted, mut logits) = continue_text(model, plan, text, vocab, sampling, constraint)?;
        if translated {
            logits.clear();
        }
        Ok((self.drafting.wrote(position, drafted, room)?, logits))
    }

    /// Returns the target's ids after the pending token and after each draft token.
    fn ids(&self, logits: &Rows, pending: u32, draft: &[u32], drawn_from: &[Vec<f32>]) -> Result<Vec<u32>> {
        let text = [&self.cached[..], &[pending], draft].concat();
        let position = self.cached.len();
        let masks = match &self.constraint {
            Some(constraint) => constraint.borrow_mut().masks(&text[..=position], draft)?,
            None => Vec::new(),
        };
        let (words, sampling) = (masks.len() / logits.len(), &self.sampling);
        let mut ids = vec![None; logits.len()];
        for_each_part(&mut ids, 1, |row, id| {
            let proposed = draft.get(row).map(|&id| (id, drawn_from.get(row).map(|logits| &logits[..])));
            let mut processed = logits.row(row).to_vec();
            if words > 0 {
                mask(&mut processed, &masks[row * words..][..words]);
            }
            id.fill(choose(&mut processed, sampling, &text[..=position + row], proposed));
        });
        let finite = |(row, id): (usize, Option<u32>)| {
            id.ok_or(Error::NonFiniteLogits { model: "target".into(), position: position + row })
        };
        ids.into_iter().enumerate().map(finite).collect()
    }

    /// Returns log-probabilities of the target's ids and of the draft tokens there, if requested.
    fn logprobs(&self, logits: &Rows, ids: &[u32], draft: &[u32]) -> Vec<Logprobs> {
        let Some(top) = self.sampling.logprobs else { return Vec::new() };
        let of_row = |(row, id): (usize, &u32)| {
            let row_logits = logits.row(row);
            let all = log_sum_exp(row_logits);
            let of = |id: u32| row_logits.get(id as usize).map_or(f32::NEG_INFINITY, |logit| logit - all);
            let top = most_likely(row_logits, top).into_iter().map(|id| (id, of(id))).collect();
            Logprobs { chosen: of(*id), drafted: draft.get(row).map_or(0.0, |id| of(*id)), top }
        };
        ids.iter().enumerate().map(of_row).collect()
    }
}

impl Target for CpuBackend {
    fn cached(&self) -> &[u32] {
        &self.cached
    }

    fn draft_cached(&self) -> usize {
        self.drafting.read()
    }

    fn capacity(&self) -> usize {
        self.target.blueprint().capacity.max_context
    }

    fn truncate(&mut self, len: usize) {
        self.submitted = None;
        self.cached.truncate(len);
        self.drafting.truncate(len);
    }

    fn prefill_chunk(&self) -> usize {
        self.target.blueprint().capacity.prefill_chunk
    }

    async fn prefill(&mut self, tokens: &[u32]) -> Result<()> {
        self.truncate(self.cached.len());
        self.room(tokens.len())?;
        for chunk in tokens.chunks(self.prefill_chunk()) {
            self.turn.give().await;
            self.target.forward(chunk, self.cached.len(), 0..0)?;
            self.cached.extend_from_slice(chunk);
        }
        Ok(())
    }

    async fn catch_up(&mut self, pending: u32) -> Result<usize> {
        let Some(model) = &mut self.draft else { return Ok(0) };
        let (position, chunk) = self.drafting.missed(&self.cached, pending)?;
        if !chunk.is_empty() {
            model.forward(&chunk, position, 0..0)?;
            self.drafting.has_read(chunk.len());
        }
        Ok(chunk.len())
    }

    async fn submit(&mut self, pending: u32, draft: &Draft) -> Result<()> {
        let draft = draft.clone().cut(MAX_DRAFT);
        self.room(1 + if let Draft::Tokens(tokens) = &draft { tokens.len() } else { 0 })?;
        self.submitted = Some((pending, draft));
        Ok(())
    }

    async fn finish(&mut self) -> Result<Verified> {
        let Some((pending, draft)) = self.submitted.take() else { return Ok(Verified::default()) };
        self.turn.give().await;
        let position = self.cached.len();
        let room = (self.capacity() - position - 1).min(MAX_DRAFT);
        let (mut tokens, drawn_from) = match draft {
            Draft::Tokens(tokens) => (tokens, Vec::new()),
            Draft::Model(count) => self.draft_tokens(pending, count, room)?,
        };
        if let Some(constraint) = &self.constraint {
            let text = [&self.cached[..], &[pending]].concat();
            tokens.truncate(constraint.borrow_mut().allowed(&text, &tokens)?);
        }
        let rows = [&[pending], &tokens[..]].concat();
        let logits = self.target.forward(&rows, position, 0..rows.len())?;
        let ids = self.ids(&logits, pending, &tokens, &drawn_from)?;
        let logprobs = self.logprobs(&logits, &ids, &tokens);
        self.cached.extend(rows);
        Ok(Verified { draft: tokens, ids, logprobs, ..Verified::default() })
    }
}

impl Queue for CpuBackend {}

/// Drafts as planned. Returns the tokens, with ids below `vocab`, and the processed logits that each was drawn from.
/// Penalties and masks use `text`, which ends with the pending token.
fn continue_text(
    model: &mut Model,
    plan: Plan,
    mut text: Vec<u32>,
    vocab: usize,
    sampling: &Sampling,
    constraint: Option<&Shared>,
) -> Result<(Vec<u32>, Vec<Vec<f32>>)> {
    let (mut drafted, mut logits) = (Vec::new(), Vec::new());
    let (mut from, mut fresh) = (plan.position - plan.missed(), plan.tokens);
    for _ in 0..plan.steps {
        let mut row = model.forward(&fresh, from, fresh.len() - 1..fresh.len())?.row(0).to_vec();
        row.truncate(vocab);
        if let Some(constraint) = constraint {
            mask(&mut row, &constraint.borrow_mut().masks(&text, &[])?);
        }
        from += fresh.len();
        let (id, confident) = choose_draft(&mut row, sampling, &text)
            .ok_or(Error::NonFiniteLogits { model: DRAFT_MODEL.into(), position: from - 1 })?;
        let goes_on = match constraint {
            Some(constraint) => constraint.borrow_mut().goes_on(&text, id)?,
            None => true,
        };
        drafted.push(id);
        logits.push(row);
        text.push(id);
        fresh = vec![id];
        if !confident || !goes_on {
            break;
        }
    }
    Ok((drafted, logits))
}
