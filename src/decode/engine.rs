//! A target and, where there is one, its draft model on one device: rounds of one submission and one readback, or of two
//! where the draft model has another tokenizer.

use super::dims::Step;
use super::flight::{Ahead, DIRECT, Flight, Shape};
use super::forward::Model;
use super::memory::FEW_ROWS;
use super::round::{BEFORE, BIAS_WORDS, CHUNK, DRAFTS, IDS, PENDING, RoundBuffers, Seen};
use super::sampler::{NOT_DRAFTED, Recipe, Sampler, bias_words, block, check_finite};
use super::target::{Draft, MAX_DRAFT, Target, Verified};
use super::translate::{Translate, Translated, Translation};
use crate::error::{Error, Result};
use crate::gpu::{Call, Gpu, Readback};
use crate::sample::Sampling;
use std::collections::VecDeque;
use std::rc::Rc;

/// Models on one device.
pub struct Engine {
    pub(super) gpu: Rc<Gpu>,
    pub(super) buffers: RoundBuffers,
    pub(super) sampler: Sampler,
    seen: Option<Seen>,
    /// Two, for rounds behind each other.
    pub(super) readbacks: [Readback; 2],
    pub(super) follow: Call,
    pub(super) target: Model,
    pub(super) draft: Option<Model>,
    pub(super) cached: Vec<u32>,
    /// Leading cached tokens that the draft model's cache holds too.
    draft_cached: usize,
    /// Of a draft model with another tokenizer.
    pub(super) translation: Option<Translation>,
    /// At most two; the device computes the first.
    pub(super) flights: VecDeque<Flight>,
    pub(super) ahead: Ahead,
}

impl Engine {
    /// An engine of models that were loaded with these buffers. It chooses greedily until [`Engine::sample_by`].
    ///
    /// # Errors
    /// As [`Gpu::buffer`].
    pub fn new(gpu: &Rc<Gpu>, buffers: RoundBuffers, target: Model, draft: Option<Model>) -> Result<Self> {
        let readbacks = [Self::readback(gpu)?, Self::readback(gpu)?];
        let recipe = Recipe::of(&Sampling::default(), false);
        let sampler = Sampler::new(gpu, recipe, &buffers, &target, draft.as_ref())?;
        let follow = Self::follow(gpu, &buffers, &target, draft.as_ref())?;
        let (gpu, cached) = (gpu.clone(), Vec::new());
        let (seen, translation, flights) = (None, None, VecDeque::new());
        let (draft_cached, ahead) = (0, Ahead::default());
        Ok(Self {
            gpu,
            buffers,
            sampler,
            seen,
            readbacks,
            follow,
            target,
            draft,
            cached,
            draft_cached,
            translation,
            flights,
            ahead,
        })
    }

    fn readback(gpu: &Gpu) -> Result<Readback> {
        Readback::new(gpu, 4 * (CHUNK - DRAFTS) as u64)
    }

    /// In place of one whose bytes nobody will wait for.
    pub(super) fn renew_readback(&mut self, index: usize) -> Result<()> {
        self.readbacks[index] = Self::readback(&self.gpu)?;
        self.ahead = Ahead::default();
        Ok(())
    }

    fn set_sampler(&mut self, recipe: Recipe) -> Result<()> {
        self.sampler = Sampler::new(&self.gpu, recipe, &self.buffers, &self.target, self.draft.as_ref())?;
        self.ahead = Ahead::default();
        Ok(())
    }

    /// From now on the draft model is one with another tokenizer. Its rounds take two submissions and two readbacks, and it
    /// always drafts its most likely tokens: noise and biases belong to the target's ids.
    ///
    /// # Errors
    /// As [`Gpu::buffer`].
    pub fn translate_by(&mut self, translate: Box<dyn Translate>) -> Result<()> {
        let mut recipe = self.sampler.recipe();
        recipe.translated = true;
        self.set_sampler(recipe)?;
        self.translation = Some(Translation { by: translate, cached: Vec::new() });
        Ok(())
    }

    /// From now on target and draft model choose their tokens like this. What it needs is created here: rounds create
    /// nothing.
    ///
    /// # Errors
    /// [`Error::BadOption`] for more biases than there is room for; as [`Gpu::buffer`].
    pub fn sample_by(&mut self, sampling: &Sampling) -> Result<()> {
        let words = bias_words(&sampling.processors.biases);
        if words.len() > BIAS_WORDS {
            return Err(Error::BadOption {
                option: "logit_bias".into(),
                value: format!("biases and banned sequences of {} numbers", words.len()),
                allowed: format!("up to {BIAS_WORDS}, about 2,000 tokens"),
            });
        }
        let recipe = Recipe::of(sampling, self.translation.is_some());
        if self.sampler.recipe() != recipe {
            self.set_sampler(recipe)?;
        }
        self.gpu.write(&self.buffers.sampling, 0, bytemuck::bytes_of(&block(sampling)));
        self.gpu.write(&self.buffers.biases, 0, bytemuck::cast_slice(&words));
        let counts = sampling.processors.repetition_penalty != 1.0;
        self.seen = counts.then(|| self.seen.take().unwrap_or_default());
        Ok(())
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
        self.gpu.write(&self.buffers.tokens, 4 * CHUNK as u64, bytemuck::cast_slice(tokens));
        model.set_step(Step {
            position: position as u32,
            rows: tokens.len() as u32,
            token: CHUNK as u32,
            logit_row: 0,
            out: IDS as u32,
            draft_row: 0,
        });
        let mut recorder = self.gpu.record();
        model.record_body(&mut recorder, tokens.len(), &(position..=position));
        recorder.submit(None);
    }

    /// Runs a model over tokens from a position on, in chunks.
    pub(super) fn run_chunks(&self, model: &Model, tokens: &[u32], mut position: usize) {
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
                    draft_row: 0,
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
            self.ahead = Ahead::default();
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

    fn draft_cached(&self) -> usize {
        self.draft_cached
    }

    fn capacity(&self) -> usize {
        self.target.capacity().max_context
    }

    fn truncate(&mut self, len: usize) {
        self.flights.clear();
        self.cached.truncate(len);
        self.draft_cached = self.draft_cached.min(len);
        if let Some(seen) = &mut self.seen {
            seen.truncate(len);
        }
    }

    fn keep(&mut self, len: usize) {
        let behind = self.flights.pop_front().filter(|flight| flight.position == len);
        match &behind {
            // The device marks as seen what that round needs.
            Some(_) => {
                self.cached.truncate(len);
                self.draft_cached = self.draft_cached.min(len);
            }
            None => self.truncate(len),
        }
        self.flights.extend(behind);
    }

    async fn prefill(&mut self, tokens: &[u32]) -> Result<()> {
        self.truncate(self.cached.len());
        self.check_room(tokens.len())?;
        self.run_chunks(&self.target, tokens, self.cached.len());
        self.cached.extend_from_slice(tokens);
        self.gpu.check()
    }

    async fn submit(&mut self, pending: u32, draft: &Draft) -> Result<()> {
        self.truncate(self.cached.len());
        if self.readbacks[DIRECT].is_due() {
            self.renew_readback(DIRECT)?;
        }
        let mut translated = Translated::default();
        let (known, steps) = match draft {
            Draft::Tokens(tokens) => (tokens.as_slice(), 0),
            Draft::Model(steps) if self.translation.is_some() => {
                translated = self.draft_translated(pending, *steps).await?;
                (translated.draft.as_slice(), 0)
            }
            Draft::Model(steps) => (&[][..], *steps),
        };
        let mut caught_up = translated.caught_up;
        let position = self.cached.len();
        let most = MAX_DRAFT.min(self.target.max_rows() - 1);
        let known = &known[..known.len().min(most)];
        // A draft model with a smaller context drafts as far as it goes.
        let reach = self.draft.as_ref().map_or(0, |draft| draft.capacity().max_context.saturating_sub(position));
        let steps = steps.min(most).min(reach);
        self.check_room(known.len() + steps + 1)?;

        // The draft model first reads what it missed; more than a few tokens go in chunks of their own.
        let mut missed = 0;
        if let Some(model) = self.draft.as_ref().filter(|_| steps > 0) {
            let behind = &self.cached[self.draft_cached..];
            let chunked = behind.len().saturating_sub(BEFORE);
            self.run_chunks(model, &behind[..chunked], self.draft_cached);
            (caught_up, missed) = (chunked, behind.len() - chunked);
            self.set_draft_step(model, missed, position);
        }
        // Biases of sequences compare the tokens before, whether or not the draft model reads them.
        let before = BEFORE.min(position);
        let mut tokens = self.cached[position - before..].to_vec();
        tokens.push(pending);
        tokens.extend_from_slice(known);
        self.gpu.write(&self.buffers.tokens, 4 * (PENDING - before) as u64, bytemuck::cast_slice(&tokens));
        if let Some(seen) = &mut self.seen {
            seen.mark(&self.gpu, &self.buffers.seen, &self.cached, pending);
        }
        let shape = Shape { known: known.len(), steps, missed };
        self.target.set_step(Step {
            position: position as u32,
            rows: shape.rows() as u32,
            token: PENDING as u32,
            logit_row: 0,
            out: IDS as u32,
            draft_row: 0,
        });

        self.submit_round(shape, position);
        let (known, waited) = (known.to_vec(), translated.waited);
        // A translation may have come to nothing this time.
        let repeats = known.is_empty() && (draft.is_empty() || self.translation.is_none());
        let readback = DIRECT;
        self.flights.push_back(Flight { shape, position, pending, known, caught_up, waited, repeats, readback });
        Ok(())
    }

    fn repeat(&mut self) {
        self.submit_repeat();
        if let Some(seen) = &mut self.seen {
            seen.marked_ahead = true;
        }
    }

    fn prepare(&mut self, repeats: bool) -> bool {
        let repeats = repeats && self.record_repeat();
        if !repeats {
            self.record_ahead();
        }
        repeats
    }

    fn is_computing(&mut self) -> bool {
        let first = self.flights.front();
        first.is_some_and(|flight| self.readbacks[flight.readback].is_coming(&self.gpu))
    }

    async fn finish(&mut self) -> Result<Verified> {
        let Some(flight) = self.flights.pop_front() else { return Ok(Verified::default()) };
        let Flight { shape, position, pending, known, caught_up, waited, readback, .. } = flight;
        // After an error there is no round to go on with.
        let behind = std::mem::take(&mut self.flights);
        let words = self.readbacks[readback].wait(&self.gpu).await?;
        let mut ids = words[IDS - shape.first_read()..].to_vec();
        let mut draft = if shape.steps > 0 { words[..shape.steps].to_vec() } else { known };
        let end = draft.iter().position(|&id| id == NOT_DRAFTED).unwrap_or(draft.len());
        draft.truncate(end);
        ids.truncate(end + 1);
        check_finite("draft model", &draft, position)?;
        check_finite("target", &ids, position)?;
        self.cached.push(pending);
        self.cached.extend_from_slice(&draft);
        if shape.steps > 0 {
            // It has read all but its own last token.
            self.draft_cached = position + draft.len();
        }
        let agreed = draft.iter().zip(&ids).take_while(|(draft, id)| draft == id).count();
        let place = |flight| Flight { position: position + 1 + agreed, pending: ids[agreed], ..flight };
        self.flights = behind.into_iter().map(place).collect();
        Ok(Verified { draft, ids, caught_up, waited })
    }
}
