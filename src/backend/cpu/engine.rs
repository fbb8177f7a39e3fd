//! A target and an optional draft model on the CPU. A round is computed when its result is awaited.

use super::model::CpuModel;
use super::parts::for_each_part;
use super::pass::CpuPass;
use super::rows::Rows;
use super::turn::Turn;
use crate::backend::{drafting, rollback};
use crate::constraint::Shared;
use crate::error::{Error, Result};
use crate::sample::{Sampling, choose, choose_draft, log_sum_exp, mask, most_likely};
use crate::target::{DRAFT_MODEL, Draft, Drafting, Logprobs, MAX_DRAFT, Queue, Rollback, Target, Verified};
use async_trait::async_trait;
use std::slice;

/// Target and optional draft model.
pub struct CpuBackend {
    pub(super) target: CpuModel,
    pub(super) draft: Option<CpuModel>,
    sampling: Sampling,
    /// Rule for the tokens that may be chosen.
    pub(super) constraint: Option<Shared>,
    pub(super) cached: Vec<u32>,
    /// Lengths to which the cached text can be cut.
    pub(super) rollback: Rollback,
    /// State of the draft model; unused without one.
    pub(super) drafting: Drafting,
    submitted: Option<(u32, Draft)>,
    /// See [`Target::end_drafts_below`].
    least_acceptance: f64,
    pub(super) turn: Turn,
}

impl CpuBackend {
    /// Creates an engine that decodes greedily until [`Target::sample_by`].
    pub fn new(target: CpuModel, draft: Option<CpuModel>) -> Self {
        let drafting = drafting(draft.as_ref().map(CpuModel::blueprint));
        let turn = Turn::new(target.processor().longest_wait);
        Self {
            rollback: rollback(target.blueprint()),
            target,
            draft,
            sampling: Sampling::default(),
            constraint: None,
            cached: Vec::new(),
            drafting,
            submitted: None,
            least_acceptance: 0.0,
            turn,
        }
    }

    /// Lets the draft model read the hidden states that a pass of `rows` rows would replace.
    pub(super) fn read_due(&mut self, rows: usize) -> Result<()> {
        let Some(model) = &mut self.draft else { return Ok(()) };
        while let Some((position, chunk)) = self.drafting.due(&self.cached, rows) {
            let states = self.drafting.chunk(position, chunk.len());
            model.read_text(&chunk, position, states)?;
        }
        Ok(())
    }

    /// Drafts at most `count` tokens after the cached ones and the pending one. Returns the draft in tokens of the target, at most `room`,
    /// and the logits that each was drawn from (empty for a translated draft).
    async fn draft_tokens(&mut self, pending: u32, count: usize, room: usize) -> Result<(Vec<u32>, Vec<Vec<f32>>)> {
        let Some(model) = &mut self.draft else { return Ok(Default::default()) };
        let (translated, likely) = (self.drafting.is_translated(), Sampling::default());
        // Noise, biases and masks apply to the target's ids.
        let (vocab, sampling, constraint) = match translated {
            true => (usize::MAX, &likely, None),
            false => (self.target.blueprint().spec.vocab_size, &self.sampling, self.constraint.as_ref()),
        };
        let (mut text, mut logits) = ([&self.cached[..], &[pending]].concat(), Vec::new());
        let mut choose_next = |row: &[f32], position: usize| {
            let mut row = row.to_vec();
            row.truncate(vocab);
            if let Some(constraint) = constraint {
                mask(&mut row, &constraint.borrow_mut().masks(&text, &[])?);
            }
            let (id, is_likely) = choose_draft(&mut row, sampling, &text)
                .ok_or(Error::NonFiniteLogits { model: DRAFT_MODEL.into(), position })?;
            let goes_on = match constraint {
                Some(constraint) => constraint.borrow_mut().goes_on(&text, id)?,
                None => true,
            };
            logits.push(row);
            text.push(id);
            Ok((id, is_likely, goes_on))
        };
        let (reads_context, least) = (self.drafting.reads_context(), self.least_acceptance);
        model.take_kv(&mut self.target, self.cached.len());
        let drafted = match model.spec().at_once {
            Some(at_once) => {
                let guess = async |mut position, mut tokens: &[u32], states, count| {
                    if reads_context && let Some((pending, missed)) = tokens.split_last() {
                        model.read_text(missed, position, states)?;
                        (position, tokens) = (position + missed.len(), slice::from_ref(pending));
                    }
                    let (last, masks) = (tokens.len() - 1, vec![at_once.mask_token; at_once.rows(count) - 1]);
                    let first = last + at_once.skipped;
                    let read = [tokens, &masks].concat();
                    let CpuPass { logits: rows, normed, .. } =
                        model.pass(&read, position, states, first..first + count, usize::MAX)?;
                    let (mut guesses, mut before, mut reached) = (Vec::<(u32, bool)>::new(), tokens[last], 1.0);
                    for row in 0..count {
                        let mut logits = rows.part(row..row + 1);
                        let confidence = model.correct(before, &normed, row, &mut logits);
                        let ends = |confidence| {
                            reached *= f64::from(confidence);
                            confidence < sampling.confidence || row > 0 && reached < least
                        };
                        if confidence.is_some_and(ends) {
                            break;
                        }
                        let (id, is_likely, goes_on) = choose_next(logits.row(0), position + last + row)?;
                        guesses.push((id, goes_on && (is_likely || confidence.is_some())));
                        // Nothing may follow the end of a constrained text.
                        if !goes_on {
                            break;
                        }
                        before = id;
                    }
                    Ok(guesses)
                };
                self.drafting.guess_tokens(&self.cached, pending, [count, room], guess).await
            }
            None => {
                let step = async |position, tokens: &[u32], states| {
                    let last = tokens.len() - 1;
                    let rows = model.pass(tokens, position, states, last..last + 1, usize::MAX)?.logits;
                    let (id, is_likely, goes_on) = choose_next(rows.row(0), position + last)?;
                    Ok((id, is_likely && goes_on))
                };
                self.drafting.draft_tokens(&self.cached, pending, [count, room], step).await
            }
        };
        if let Some(model) = &mut self.draft {
            model.give_kv(&mut self.target);
        }
        if translated {
            logits.clear();
        }
        Ok((drafted?, logits))
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

#[async_trait(?Send)]
impl Target for CpuBackend {
    fn end_drafts_below(&mut self, probability: f64) {
        self.least_acceptance = probability;
    }

    fn sample_by(&mut self, sampling: &Sampling) -> Result<()> {
        self.sampling = sampling.clone();
        Ok(())
    }

    fn cached(&self) -> &[u32] {
        &self.cached
    }

    fn draft_cached(&self) -> usize {
        self.drafting.num_read()
    }

    fn capacity(&self) -> usize {
        self.target.blueprint().capacity.max_context
    }

    fn truncate(&mut self, len: usize) {
        self.submitted = None;
        self.cached.truncate(self.rollback.cut(self.cached.len(), len));
        self.drafting.truncate(self.cached.len());
    }

    fn cut_at(&self, len: usize) -> usize {
        self.rollback.clone().cut(self.cached.len(), len)
    }

    fn prefill_chunk(&self) -> usize {
        self.target.blueprint().capacity.prefill_chunk
    }

    async fn prefill(&mut self, tokens: &[u32]) -> Result<()> {
        self.truncate(self.cached.len());
        self.check_room(tokens.len())?;
        for chunk in tokens.chunks(self.prefill_chunk()) {
            self.turn.give().await;
            self.read_due(chunk.len())?;
            let position = self.cached.len();
            let states = self.rollback.begin_chunk(position, chunk.len());
            self.target.forward(chunk, position, states, 0..0, &mut self.turn).await?;
            self.rollback.end_chunk(states);
            self.cached.extend_from_slice(chunk);
        }
        Ok(())
    }

    async fn catch_up(&mut self, pending: u32) -> Result<usize> {
        let Some(model) = &mut self.draft else { return Ok(0) };
        let read = async |position, chunk: &[u32], states| model.read_text(chunk, position, states);
        self.drafting.catch_up(&self.cached, pending, read).await
    }

    async fn submit(&mut self, pending: u32, draft: &Draft) -> Result<()> {
        let draft = draft.clone().cut(MAX_DRAFT);
        self.check_room(1 + if let Draft::Tokens(tokens) = &draft { tokens.len() } else { 0 })?;
        self.submitted = Some((pending, draft));
        Ok(())
    }

    async fn finish(&mut self) -> Result<Verified> {
        let Some((pending, draft)) = self.submitted.take() else { return Ok(Verified::default()) };
        self.turn.give().await;
        let position = self.cached.len();
        let room = (self.capacity() - position - 1).min(MAX_DRAFT);
        self.read_due(1 + draft.len().min(room))?;
        let (mut tokens, drawn_from) = match draft {
            Draft::Tokens(tokens) => (tokens, Vec::new()),
            Draft::Model(count) => self.draft_tokens(pending, count, room).await?,
        };
        if let Some(constraint) = &self.constraint {
            let text = [&self.cached[..], &[pending]].concat();
            tokens.truncate(constraint.borrow_mut().allowed(&text, &tokens)?);
        }
        let rows = [&[pending], &tokens[..]].concat();
        let states = self.rollback.round(position);
        let logits = self.target.forward(&rows, position, states, 0..rows.len(), &mut self.turn).await?;
        self.rollback.computed(states.saved(), position, rows.len());
        let ids = self.ids(&logits, pending, &tokens, &drawn_from)?;
        let logprobs = self.logprobs(&logits, &ids, &tokens);
        self.cached.extend(rows);
        Ok(Verified { draft: tokens, ids, logprobs, ..Verified::default() })
    }
}

impl Queue for CpuBackend {
    fn ends_when_dropped(&self) -> bool {
        true
    }
}
