//! A target and an optional draft model on one GPU. A round is one submission and one readback, or two of each if the draft model
//! has another tokenizer.

use super::dims::Step;
use super::forward::GpuModel;
use super::round::{BEFORE, BIAS_WORDS, CHUNK, DRAFTS, IDS, PENDING, RoundBuffers, Seen, logprob_words, read_logprobs};
use super::sampler::{NOT_DRAFTED, Recipe, Sampler, bias_words, block, check_finite};
use super::shape::{Ahead, DIRECT, Flight, Shape};
use crate::backend::{drafting, rollback};
use crate::constraint::Shared;
use crate::error::{Error, Result};
use crate::gpu::{Call, Done, Gpu, Readback};
use crate::options::MAX_TOP_LOGPROBS;
use crate::sample::{Processors, Sampling};
use crate::target::{DRAFT_MODEL, Draft, Drafting, MAX_DRAFT, Queue, Rollback, Target, Verified};
use async_trait::async_trait;
use bytemuck::Zeroable;
use std::collections::VecDeque;
use std::rc::Rc;

/// Target and optional draft model.
pub struct GpuBackend {
    pub(super) gpu: Rc<Gpu>,
    pub(super) buffers: RoundBuffers,
    pub(super) sampler: Sampler,
    seen: Option<Seen>,
    /// Rule for the tokens that the target may choose.
    pub(super) constraint: Option<Shared>,
    /// Two, because two rounds can be queued.
    pub(super) readbacks: [Readback; 2],
    pub(super) follow: Call,
    pub(super) target: GpuModel,
    pub(super) draft: Option<GpuModel>,
    pub(super) cached: Vec<u32>,
    /// Lengths to which the cached text can be cut.
    pub(super) rollback: Rollback,
    /// State of the draft model; unused without one.
    pub(super) drafting: Drafting,
    /// End of the latest submitted prefill chunk.
    pub(super) chunk: Option<Done>,
    /// Submitted rounds, at most two. The device computes the first.
    pub(super) flights: VecDeque<Flight>,
    pub(super) ahead: Ahead,
}

impl GpuBackend {
    /// Creates an engine of models loaded with `buffers`. It decodes greedily until [`Target::sample_by`].
    pub fn new(gpu: &Rc<Gpu>, buffers: RoundBuffers, target: GpuModel, draft: Option<GpuModel>) -> Result<Self> {
        let readbacks = [Self::readback(gpu)?, Self::readback(gpu)?];
        let recipe = Recipe::for_sampling(&Sampling::default(), false, false);
        let sampler = Sampler::new(gpu, recipe, &buffers, &target, draft.as_ref())?;
        let follow = Self::follow(gpu, &buffers, &target, draft.as_ref())?;
        if let Some(draft) = &draft {
            // A draft model's bits do not change the text, so its kernels are not compared.
            draft.learn(draft.variants().best(draft.chunk()), false);
        }
        let drafting = drafting(draft.as_ref().map(GpuModel::blueprint));
        let rollback = rollback(target.blueprint());
        let (gpu, cached) = (gpu.clone(), Vec::new());
        let (seen, constraint, chunk, flights, ahead) = (None, None, None, VecDeque::new(), Ahead::default());
        Ok(Self {
            gpu,
            buffers,
            sampler,
            seen,
            constraint,
            readbacks,
            follow,
            target,
            draft,
            cached,
            rollback,
            drafting,
            chunk,
            flights,
            ahead,
        })
    }

    fn readback(gpu: &Gpu) -> Result<Readback> {
        let words = CHUNK - DRAFTS + (MAX_DRAFT + 1) * logprob_words(MAX_TOP_LOGPROBS);
        Readback::new(gpu, 4 * words as u64)
    }

    /// Replaces a readback whose bytes will not be waited for.
    pub(super) fn renew_readback(&mut self, index: usize) -> Result<()> {
        self.readbacks[index] = Self::readback(&self.gpu)?;
        self.ahead = Ahead::default();
        Ok(())
    }

    pub(super) fn set_sampler(&mut self, recipe: Recipe) -> Result<()> {
        self.sampler = Sampler::new(&self.gpu, recipe, &self.buffers, &self.target, self.draft.as_ref())?;
        self.ahead = Ahead::default();
        Ok(())
    }

    /// Returns the device.
    pub fn gpu(&self) -> &Rc<Gpu> {
        &self.gpu
    }

    /// Returns the target model.
    pub fn target(&self) -> &GpuModel {
        &self.target
    }

    /// Returns the draft model.
    pub fn draft(&self) -> Option<&GpuModel> {
        self.draft.as_ref()
    }

    fn cut(&mut self, len: usize) {
        self.cached.truncate(self.rollback.cut(self.cached.len(), len));
        self.drafting.truncate(self.cached.len());
    }

    /// Ensures room for `more` tokens after the cached ones.
    pub(super) async fn make_room(&mut self, more: usize) -> Result<()> {
        self.check_room(more)?;
        let need = self.cached.len() + more;
        if need > self.target.room() {
            // Prepared commands use buffers that are replaced. After an error some may be replaced already.
            self.ahead = Ahead::default();
            self.target.make_room(need, self.draft.as_mut()).await?;
        }
        Ok(())
    }

    /// Ensures room for `positions` in the draft model's cache; the caller keeps to its context.
    pub(super) async fn make_draft_room(&mut self, positions: usize) -> Result<()> {
        if let Some(draft) = &mut self.draft
            && positions > draft.room()
        {
            self.ahead = Ahead::default();
            draft.make_room(positions, None).await?;
        }
        Ok(())
    }
}

#[async_trait(?Send)]
impl Target for GpuBackend {
    /// Creates what the sampling needs, because rounds create nothing.
    fn sample_by(&mut self, sampling: &Sampling) -> Result<()> {
        let words = bias_words(&sampling.processors.biases);
        if words.len() > BIAS_WORDS {
            return Err(Error::BadOption {
                option: "logit_bias".into(),
                value: format!("biases and banned sequences of {} numbers", words.len()),
                allowed: format!("up to {BIAS_WORDS}, about 2,000 tokens"),
            });
        }
        let recipe = Recipe::for_sampling(sampling, self.constraint.is_some(), self.drafting.is_translated());
        if self.sampler.recipe() != recipe {
            self.set_sampler(recipe)?;
        }
        self.gpu.write_buffer(&self.buffers.sampling, 0, bytemuck::bytes_of(&block(sampling)));
        self.gpu.write_buffer(&self.buffers.biases, 0, bytemuck::cast_slice(&words));
        let Processors { prompt_len, .. } = sampling.processors;
        let known = self.seen.take().filter(|seen| seen.prompt_len == prompt_len);
        let of_text = || known.unwrap_or_else(|| Seen::behind(prompt_len));
        self.seen = sampling.processors.looks_back().then(of_text);
        Ok(())
    }

    fn cached(&self) -> &[u32] {
        &self.cached
    }

    fn draft_cached(&self) -> usize {
        self.drafting.num_read()
    }

    fn capacity(&self) -> usize {
        self.target.capacity().max_context
    }

    fn truncate(&mut self, len: usize) {
        self.flights.clear();
        self.cut(len);
        if let Some(seen) = &mut self.seen {
            seen.truncate(self.cached.len());
        }
    }

    fn cut_at(&self, len: usize) -> usize {
        self.rollback.clone().cut(self.cached.len(), len)
    }

    fn prefill_chunk(&self) -> usize {
        self.target.chunk()
    }

    async fn prefill(&mut self, tokens: &[u32]) -> Result<()> {
        self.truncate(self.cached.len());
        self.make_room(tokens.len()).await?;
        for chunk in tokens.chunks(self.target.chunk()) {
            self.read_due(chunk.len()).await?;
            let states = self.rollback.chunk(self.cached.len(), chunk.len());
            let submitted = self.submit_chunk(&self.target, chunk, self.cached.len(), states);
            self.cached.extend_from_slice(chunk);
            self.keep_up(submitted).await?;
        }
        self.gpu.check()
    }

    async fn reserve(&mut self, more: usize) -> Result<()> {
        self.make_room(more).await
    }

    async fn ready(&mut self, draft: &Draft) -> Result<bool> {
        self.get_ready(draft).await
    }

    async fn catch_up(&mut self, pending: u32) -> Result<usize> {
        self.read_missed(pending).await
    }

    async fn submit(&mut self, pending: u32, draft: &Draft) -> Result<()> {
        self.truncate(self.cached.len());
        if self.readbacks[DIRECT].is_due() {
            self.renew_readback(DIRECT)?;
        }
        let position = self.cached.len();
        let room = MAX_DRAFT.min(self.capacity().saturating_sub(position + 1));
        self.read_due(1 + draft.len().min(room)).await?;
        let (mut known, mut plan, mut waited) = (Vec::new(), None, 0.0);
        match draft {
            Draft::Tokens(tokens) => known.extend(tokens.iter().take(MAX_DRAFT)),
            Draft::Model(count) => plan = self.drafting.plan(&self.cached, pending, [*count, room])?,
        }
        if let Some(plan) = plan.take_if(|_| self.drafting.is_translated()) {
            (known, waited) = self.draft_translated(plan, room).await?;
        }
        if let Some(constraint) = &self.constraint {
            // The constraint has not checked a translated draft yet.
            let text = [&self.cached[..], &[pending]].concat();
            known.truncate(constraint.borrow_mut().allowed(&text, &known)?);
        }
        let (steps, missed) = plan.as_ref().map_or((0, 0), |plan| (plan.steps, plan.missed()));
        self.make_room(known.len() + steps + 1).await?;
        if let Some(plan) = &plan {
            self.make_draft_room(position + self.drafting.rows(steps)).await?;
            self.set_draft_step(plan);
        }
        // Sequence biases need the preceding tokens even if the draft model does not read them.
        let before = BEFORE.min(position);
        let mut tokens = self.cached[position - before..].to_vec();
        tokens.push(pending);
        tokens.extend_from_slice(&known);
        self.gpu.write_buffer(&self.buffers.tokens, 4 * (PENDING - before) as u64, bytemuck::cast_slice(&tokens));
        if let Some(seen) = &mut self.seen {
            seen.mark(&self.gpu, &self.buffers, &self.cached, pending);
        }
        let shape = Shape { known: known.len(), steps, missed };
        let states = self.rollback.round(position);
        let (rows, token, out) = (shape.rows() as u32, PENDING as u32, IDS as u32);
        let step = Step { position: position as u32, rows, token, out, ..Step::zeroed() };
        self.target.set_step(step.with_states(states));
        let saved = [states.saved(), plan.and_then(|plan| plan.states.saved())];

        waited += self.submit_round(shape, pending, &known).await?;
        // A translation may have been empty this time.
        let repeats = known.is_empty() && (draft.is_empty() || !self.drafting.is_translated());
        let readback = DIRECT;
        self.flights.push_back(Flight { shape, position, pending, known, waited, repeats, readback, saved });
        Ok(())
    }

    async fn finish(&mut self) -> Result<Verified> {
        let Some(flight) = self.flights.pop_front() else { return Ok(Verified::default()) };
        let Flight { shape, position, pending, known, waited, readback, saved: [saved, of_draft], .. } = flight;
        // After an error no later round can continue.
        let behind = std::mem::take(&mut self.flights);
        let words = self.readbacks[readback].wait(&self.gpu).await?;
        let first = shape.first_read();
        let mut ids = words[IDS - first..][..shape.rows()].to_vec();
        let mut draft = if shape.steps > 0 { words[..shape.steps].to_vec() } else { known };
        let end = draft.iter().position(|&id| id == NOT_DRAFTED).unwrap_or(draft.len());
        draft.truncate(end);
        ids.truncate(end + 1);
        let logprobs = self.sampler.recipe().logprobs.map(|top| {
            let mut rows = read_logprobs(&words[CHUNK - first..], top, self.target.spec().vocab_size);
            rows.truncate(ids.len());
            rows
        });
        check_finite(DRAFT_MODEL, &draft, position)?;
        check_finite("target", &ids, position)?;
        self.cached.push(pending);
        self.cached.extend_from_slice(&draft);
        self.rollback.computed(saved, position, 1 + draft.len());
        if shape.steps > 0 {
            let position = position - self.drafting.lead();
            draft = self.drafting.wrote([position, shape.missed], of_draft, draft, shape.steps)?;
        }
        let agreed = draft.iter().zip(&ids).take_while(|(draft, id)| draft == id).count();
        let place = |flight| Flight { position: position + 1 + agreed, pending: ids[agreed], ..flight };
        self.flights = behind.into_iter().map(place).collect();
        let logprobs = logprobs.unwrap_or_default();
        Ok(Verified { draft, ids, logprobs, waited, ..Verified::default() })
    }
}

impl Queue for GpuBackend {
    fn prepare(&mut self, repeats: bool) -> bool {
        let repeats = repeats && self.record_repeat();
        if !repeats {
            self.record_ahead();
        }
        repeats
    }

    fn repeat(&mut self) {
        self.submit_repeat();
        if let Some(seen) = &mut self.seen {
            seen.marked_ahead = true;
        }
    }

    fn is_computing(&mut self) -> bool {
        let first = self.flights.front();
        first.is_some_and(|flight| self.readbacks[flight.readback].is_coming(&self.gpu))
    }

    fn keep(&mut self, len: usize) {
        let behind = self.flights.pop_front().filter(|flight| flight.position == len);
        match &behind {
            // The device itself marks seen tokens for that round.
            Some(_) => self.cut(len),
            None => self.truncate(len),
        }
        self.flights.extend(behind);
    }
}
