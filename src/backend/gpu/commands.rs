//! Recording and submission of a round's commands, in advance if possible.

use super::dims::Step;
use super::engine::GpuBackend;
use super::forward::GpuModel;
use super::node::Positions;
use super::round::{CHUNK, DRAFTS, IDS, PENDING, RoundBuffers, logprob_words};
use super::sampler::NOT_DRAFTED;
use super::shape::{DIRECT, DRAFTED, Flight, Shape, ShapeKey};
use crate::error::Result;
use crate::gpu::{Call, Gpu, Kernel, Prepared, Recorder};
use crate::target::DraftPlan;
use bytemuck::Zeroable;
use web_time::Instant;

impl GpuBackend {
    /// Writes the draft model's [`Step`]: start of a draft, and tokens to read first.
    pub(super) fn set_draft_step(&self, plan: &DraftPlan) {
        let Some(model) = &self.draft else { return };
        let (position, missed) = (plan.position as u32, plan.missed() as u32);
        let ahead = self.drafting.missed_ahead(plan.steps) as u32;
        let reads_context = model.context_step().is_some();
        if reads_context {
            let step = Step { position: position - missed, rows: missed, missed: ahead, ..Step::zeroed() };
            model.set_reading_step(step);
        }
        let (missed, ahead) = if reads_context { (0, 0) } else { (missed, ahead) };
        let at_once = model.spec().at_once;
        let masks = at_once.map_or(0, |at_once| at_once.rows(plan.steps) - 1) as u32;
        let skipped = at_once.map_or(0, |at_once| at_once.skipped) as u32;
        let step = Step {
            position: position - missed,
            rows: missed + 1 + masks,
            masks,
            token: PENDING as u32 - missed,
            logit_row: missed + skipped,
            out: DRAFTS as u32,
            missed: ahead,
            skipped,
            lead: self.drafting.lead() as u32,
            ..Step::zeroed()
        };
        model.set_step(step.with_states(plan.states));
    }

    /// Records draft steps, after [`GpuBackend::set_draft_step`]. `positions`: possible positions of the pending token in the draft model's
    /// text.
    pub(super) fn record_draft(
        &self,
        recorder: &mut Recorder<'_>,
        model: &GpuModel,
        missed: usize,
        positions: Positions,
        steps: usize,
    ) {
        let after = |first: isize| {
            let [start, end] =
                [positions.start(), positions.end()].map(|position| position.saturating_add_signed(first));
            start..=end
        };
        if model.context_step().is_some() && missed > 0 {
            model.record_reading(recorder, missed, &after(-(missed as isize)));
        }
        let guesses = if model.spec().at_once.is_some() { steps } else { 1 };
        for (first, rows) in self.drafting.passes(missed, steps) {
            model.record_body(recorder, rows, &after(first));
            model.record_head(recorder, guesses);
            match model.spec().markov {
                None => self.sampler.record_draft(recorder, guesses),
                Some(markov) => {
                    let confides = markov.has_confidence && self.sampler.recipe().confides;
                    if confides {
                        model.record_final_norm(recorder, guesses);
                    }
                    for _ in 0..guesses {
                        model.record_markov(recorder, confides);
                        self.sampler.record_draft(recorder, 1);
                    }
                }
            }
        }
    }

    fn bytes_read(&self, shape: Shape) -> u64 {
        let end = match self.sampler.recipe().logprobs {
            None => IDS + shape.rows(),
            Some(top) => CHUNK + shape.rows() * logprob_words(top),
        };
        4 * (end - shape.first_read()) as u64
    }

    fn key(&self, shape: Shape, position: usize) -> ShapeKey {
        let Shape { steps, missed, .. } = shape;
        let mut blocks: Vec<u32> = self.target.blocks(shape.rows(), position).collect();
        if let Some(model) = self.draft.as_ref().filter(|_| steps > 0) {
            let position = position - self.drafting.lead();
            for (first, rows) in self.drafting.passes(missed, steps) {
                blocks.extend(model.blocks(rows, position.saturating_add_signed(first)));
            }
        }
        ShapeKey { shape, blocks }
    }

    /// Records a round whose pending token is at one of `positions`, as one submission. Under a constraint, draft steps and choice
    /// of tokens are separate submissions: masks depend on the draft and precede the choice.
    fn record_round<'a>(
        &'a self,
        mut recorder: Recorder<'a>,
        shape: Shape,
        positions: Positions,
        readback: usize,
    ) -> Vec<Prepared> {
        let Shape { steps, missed, .. } = shape;
        let mut parts = Vec::new();
        let mut part = |recorder: &mut Recorder<'a>, copy| {
            if self.constraint.is_some() {
                parts.push(std::mem::replace(recorder, self.gpu.record()).encode(copy));
            }
        };
        if let Some(model) = self.draft.as_ref().filter(|_| steps > 0) {
            let lead = self.drafting.lead();
            let own = positions.start() - lead..=positions.end() - lead;
            self.record_draft(&mut recorder, model, missed, own, steps);
            let drafted = &self.readbacks[DRAFTED];
            part(&mut recorder, Some((&self.buffers.tokens, 4 * DRAFTS as u64, 4 * steps as u64, drafted)));
        }
        self.target.record_body(&mut recorder, shape.rows(), &positions);
        self.target.record_head(&mut recorder, shape.rows());
        part(&mut recorder, None);
        self.sampler.record_verify(&mut recorder, shape.rows(), steps > 0);
        let readback = &self.readbacks[readback];
        let ids = (&self.buffers.tokens, 4 * shape.first_read() as u64, self.bytes_read(shape), readback);
        parts.push(recorder.encode(Some(ids)));
        parts
    }

    fn record_direct(&self, shape: Shape, position: usize) -> Vec<Prepared> {
        self.record_round(self.gpu.record(), shape, position..=position, DIRECT)
    }

    /// Submits a round, with prepared commands if available. Under a constraint, computes masks during the forward pass. Returns
    /// the seconds spent waiting for the draft model.
    pub(super) async fn submit_round(&mut self, shape: Shape, pending: u32, known: &[u32]) -> Result<f64> {
        let position = self.cached.len();
        if self.constraint.is_some() && self.readbacks[DRAFTED].is_due() {
            self.renew_readback(DRAFTED)?;
        }
        let key = self.key(shape, position);
        let ready = self.ahead.prepared.iter().position(|(ready, _)| *ready == key);
        let submit = if ready.is_some() { Gpu::submit_prepared } else { Gpu::submit };
        let parts = match ready {
            Some(index) => self.ahead.prepared.swap_remove(index).1,
            None => self.record_direct(shape, position),
        };
        let (last, mut waited) = (parts.len() - 1, 0.0);
        for (i, part) in parts.into_iter().enumerate() {
            if let Some(constraint) = self.constraint.clone().filter(|_| i == last) {
                let began = Instant::now();
                let drafted = self.readbacks[DRAFTED].wait(&self.gpu).await?;
                waited = began.elapsed().as_secs_f64();
                let drafted = drafted.into_iter().take_while(|&id| id < NOT_DRAFTED);
                let draft: Vec<u32> = known.iter().copied().chain(drafted).collect();
                let text = [&self.cached[..], &[pending]].concat();
                let masks = constraint.borrow_mut().masks(&text, &draft)?;
                self.gpu.write_buffer(&self.sampler.masks, 0, bytemuck::cast_slice(&masks));
            }
            let submitted = submit(&self.gpu, part);
            if i == last {
                let bytes = self.bytes_read(shape);
                self.readbacks[DIRECT].expect(bytes, submitted);
            } else if i == 0 && shape.steps > 0 {
                self.readbacks[DRAFTED].expect(4 * shape.steps as u64, submitted);
            }
        }
        self.ahead.enter(shape, position);
        Ok(waited)
    }

    /// Encodes commands for the rounds that may follow the one in flight.
    pub(super) fn record_ahead(&mut self) {
        let Some(flight) = self.flights.front() else { return };
        let mut earlier = std::mem::take(&mut self.ahead.prepared);
        let prepare = |(shape, position)| {
            let key = self.key(shape, position);
            match earlier.iter().position(|(ready, _)| *ready == key) {
                Some(index) => earlier.swap_remove(index),
                None => (key, self.record_direct(shape, position)),
            }
        };
        self.ahead.prepared = self.ahead.guesses(flight).into_iter().map(prepare).collect();
    }

    /// Returns the kernel call that starts a round submitted ahead.
    pub(super) fn follow(
        gpu: &Gpu,
        buffers: &RoundBuffers,
        target: &GpuModel,
        draft: Option<&GpuModel>,
    ) -> Result<Call> {
        // Without a draft model this step is never read.
        let no_step = || Ok(gpu.buffer("step", target.step().size())?.whole());
        let draft_step = draft.map_or_else(no_step, |draft| Ok(draft.step().clone()))?;
        let context_step = draft.and_then(GpuModel::context_step);
        let context_step = context_step.map_or_else(no_step, |step| Ok(step.clone()))?;
        let (step, tokens, seen) = (target.step().clone(), buffers.tokens.whole(), buffers.seen.whole());
        let (counts, text) = (buffers.counts.whole(), buffers.text.whole());
        let bindings = [(0, step), (1, draft_step), (2, tokens), (3, seen), (4, counts), (5, text), (6, context_step)];
        Ok(gpu.call(Kernel::Follow, &bindings))
    }

    /// Encodes a round like the only one in flight, to submit it ahead. Returns false if that is not possible.
    pub(super) fn record_repeat(&mut self) -> bool {
        let [flight] = self.flights.make_contiguous() else { return false };
        // Masks depend on tokens that are not chosen yet.
        if self.constraint.is_some() {
            return false;
        }
        let steps = flight.shape.steps;
        let missed = if steps > 0 { self.drafting.missed_ahead(steps) } else { 0 };
        let shape = Shape { missed, ..flight.shape };
        let (rows, readback) = (shape.rows(), 1 - flight.readback);
        let positions = flight.position + 1..=flight.position + rows;
        let draft_end = if shape.steps > 0 { positions.end() + self.drafting.rows(steps) } else { 0 };
        let draft_room = self.draft.as_ref().map_or(0, GpuModel::room);
        let has_room = positions.end() + rows <= self.target.room() && draft_end <= draft_room;
        let fits = self.draft.as_ref().is_none_or(|draft| missed + steps <= draft.max_rows());
        let is_early = *positions.start() < missed + self.drafting.lead();
        let is_due = self.drafting.due(&self.cached, 2 * rows).is_some();
        if !flight.repeats || !has_room || !fits || is_early || is_due {
            return false;
        }
        if self.readbacks[readback].is_due() && self.renew_readback(readback).is_err() {
            return false;
        }
        let mut recorder = self.gpu.record();
        recorder.dispatch(&self.follow, [1, 1, 1]);
        let Some(commands) = self.record_round(recorder, shape, positions, readback).pop() else { return false };
        let flight = Flight { shape, repeats: true, readback, ..Flight::default() };
        self.ahead.repeat = Some((flight, commands));
        true
    }

    /// Submits the round that [`GpuBackend::record_repeat`] encoded.
    pub(super) fn submit_repeat(&mut self) {
        let Some((flight, commands)) = self.ahead.repeat.take() else { return };
        let submitted = self.gpu.submit_ahead(commands);
        let bytes = self.bytes_read(flight.shape);
        self.readbacks[flight.readback].expect(bytes, submitted);
        let of_draft = if flight.shape.steps > 0 { self.drafting.repeat() } else { None };
        self.flights.push_back(Flight { saved: [self.rollback.repeat(), of_draft], ..flight });
    }
}
