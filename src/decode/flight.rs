//! Rounds that the device computes, and the commands of those that may come after them.

use super::dims::Step;
use super::engine::Engine;
use super::forward::Model;
use super::node::Positions;
use super::round::{CHUNK, DRAFTS, IDS, PENDING, RoundBuffers, logprob_words};
use super::sampler::NOT_DRAFTED;
use crate::error::Result;
use crate::gpu::{Call, Gpu, Kernel, Prepared, Recorder};
use crate::target::Plan;
use web_time::Instant;

/// Shapes of rounds for which commands are kept ready: those of the latest rounds. Behind a draft of the draft model that was
/// accepted as a whole it has one token more to read than behind another, and schedules change a draft's length.
const KEPT: usize = 4;

/// The readback of a round whose beginning the CPU knows. Each round behind another has the other readback.
pub(super) const DIRECT: usize = 0;
/// Under a constraint no round is behind another: then it has the tokens of the draft model.
const DRAFTED: usize = 1 - DIRECT;

/// What decides which commands a round consists of, besides its position.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Shape {
    /// Draft tokens that the caller knew.
    pub known: usize,
    /// Draft steps of the draft model.
    pub steps: usize,
    /// Tokens before the pending one that the draft model reads first.
    pub missed: usize,
}

impl Shape {
    pub fn drafted(self) -> usize {
        self.known + self.steps
    }

    pub fn rows(self) -> usize {
        self.drafted() + 1
    }

    /// The first token of the round's buffer that comes back: with tokens that the CPU knows, only the target's ids.
    pub fn first_read(self) -> usize {
        if self.steps > 0 { DRAFTS } else { IDS }
    }
}

/// A round that was submitted.
#[derive(Default)]
pub(super) struct Flight {
    pub shape: Shape,
    /// Tokens cached before it, and the pending one; behind another round, not known before that is read.
    pub position: usize,
    pub pending: u32,
    pub known: Vec<u32>,
    pub waited: f64,
    /// Whether another like it may be submitted behind it.
    pub repeats: bool,
    pub readback: usize,
}

/// What decides which commands a round consists of.
#[derive(PartialEq, Eq)]
struct Key {
    shape: Shape,
    /// Blocks of positions that attention computes, by pass.
    blocks: Vec<u32>,
}

/// What is ready for the rounds behind the one that the device computes. Token ids and positions are written when a round
/// is submitted, and attention grids change only every block of positions, so a wrong guess of how many draft tokens will
/// be accepted often does not matter.
#[derive(Default)]
pub(super) struct Ahead {
    /// Commands of submissions that follow each other, and which.
    prepared: Vec<(Key, Vec<Prepared>)>,
    /// The same for a round behind the one in flight.
    repeat: Option<(Flight, Prepared)>,
    /// The shapes of the latest rounds: what was used is used again.
    shapes: Vec<Shape>,
    /// Position of the latest round, and its distance from the one before.
    position: usize,
    advance: usize,
}

impl Ahead {
    /// A round is submitted.
    pub fn enter(&mut self, shape: Shape, position: usize) {
        self.shapes.retain(|kept| *kept != shape);
        // The draft model catches up once.
        if shape.missed <= 1 {
            self.shapes.push(shape);
        }
        if self.shapes.len() > KEPT {
            self.shapes.remove(0);
        }
        self.advance = position.saturating_sub(self.position).max(1);
        self.position = position;
    }

    /// The rounds that may come after the one in flight, with their positions.
    fn guesses(&self, flight: &Flight) -> Vec<(Shape, usize)> {
        let whole = flight.shape.drafted() + 1;
        let guess = |&shape: &Shape| {
            let advance = match shape {
                Shape { missed: 1, .. } => whole,
                Shape { steps: 1.., .. } => self.advance.min(flight.shape.drafted()).max(1),
                _ => self.advance.min(whole),
            };
            (shape, flight.position + advance)
        };
        self.shapes.iter().map(guess).collect()
    }
}

impl Engine {
    /// Tells the draft model's kernels where a draft starts and how many tokens they read first.
    pub(super) fn set_draft_step(&self, plan: &Plan) {
        let Some(model) = &self.draft else { return };
        let missed = plan.missed();
        model.set_step(Step {
            position: (plan.position - missed) as u32,
            rows: (missed + 1) as u32,
            token: (PENDING - missed) as u32,
            logit_row: missed as u32,
            out: DRAFTS as u32,
            draft_row: 0,
        });
    }

    /// Records draft steps of the draft model behind [`Engine::set_draft_step`].
    pub(super) fn record_draft(
        &self,
        recorder: &mut Recorder<'_>,
        model: &Model,
        missed: usize,
        positions: Positions,
        steps: usize,
    ) {
        let (mut before, mut after, mut rows) = (missed, 0, missed + 1);
        for _ in 0..steps {
            let at = positions.start() + after - before..=positions.end() + after - before;
            model.record_body(recorder, rows, &at);
            model.record_head(recorder, 1);
            self.sampler.record_draft(recorder);
            (before, after, rows) = (0, after + 1, 1);
        }
    }

    /// How many bytes come back of a round.
    fn bytes_read(&self, shape: Shape) -> u64 {
        let end = match self.sampler.recipe().logprobs {
            None => IDS + shape.rows(),
            Some(top) => CHUNK + shape.rows() * logprob_words(top),
        };
        4 * (end - shape.first_read()) as u64
    }

    fn key(&self, shape: Shape, position: usize) -> Key {
        let Shape { steps, missed, .. } = shape;
        let mut blocks: Vec<u32> = self.target.blocks(shape.rows(), position).collect();
        if let Some(model) = self.draft.as_ref().filter(|_| steps > 0) {
            blocks.extend(model.blocks(missed + 1, position - missed));
            blocks.extend((1..steps).flat_map(|step| model.blocks(1, position + step)));
        }
        Key { shape, blocks }
    }

    /// The commands of a round, the pending token of which is at one of `positions`: one submission. Under a constraint the choice of
    /// tokens is one of its own, before which masks are written, and so are the steps of the draft model, on which masks depend.
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
            self.record_draft(&mut recorder, model, missed, positions.clone(), steps);
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

    /// Submits a round: by commands that are ready, where there are. Under a constraint, masks are made while the device computes
    /// the forward pass; returns for how many seconds the draft model was waited for before.
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
                self.gpu.write(&self.sampler.masks, 0, bytemuck::cast_slice(&masks));
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

    /// Encodes commands for the rounds that may come after the one in flight.
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

    /// The call with which a round behind another begins.
    pub(super) fn follow(gpu: &Gpu, buffers: &RoundBuffers, target: &Model, draft: Option<&Model>) -> Result<Call> {
        // Without a draft model no one reads it.
        let no_step = || Ok(gpu.buffer("step", target.step().size())?.whole());
        let draft_step = draft.map_or_else(no_step, |draft| Ok(draft.step().clone()))?;
        let (step, tokens, seen) = (target.step().clone(), buffers.tokens.whole(), buffers.seen.whole());
        let (counts, text) = (buffers.counts.whole(), buffers.text.whole());
        let bindings = [(0, step), (1, draft_step), (2, tokens), (3, seen), (4, counts), (5, text)];
        Ok(gpu.call(Kernel::Follow, &bindings))
    }

    /// Encodes commands for a round like the only one in flight, behind it. Returns whether that can be.
    pub(super) fn record_repeat(&mut self) -> bool {
        let [flight] = self.flights.make_contiguous() else { return false };
        // Masks depend on what the device chooses.
        if self.constraint.is_some() {
            return false;
        }
        let shape = Shape { missed: usize::from(flight.shape.steps > 0), ..flight.shape };
        let (rows, readback) = (shape.rows(), 1 - flight.readback);
        let positions = flight.position + 1..=flight.position + rows;
        let draft_end = if shape.steps > 0 { positions.end() + shape.steps } else { 0 };
        let draft_room = self.draft.as_ref().map_or(0, Model::room);
        if !flight.repeats || positions.end() + rows > self.target.room() || draft_end > draft_room {
            return false;
        }
        if self.readbacks[readback].is_due() && self.renew_readback(readback).is_err() {
            return false;
        }
        let mut recorder = self.gpu.record();
        recorder.dispatch(&self.follow, [1, 1, 1]);
        let Some(commands) = self.record_round(recorder, shape, positions, readback).pop() else { return false };
        self.ahead.repeat = Some((Flight { shape, repeats: true, readback, ..Flight::default() }, commands));
        true
    }

    /// Submits what [`Engine::record_repeat`] encoded.
    pub(super) fn submit_repeat(&mut self) {
        let Some((flight, commands)) = self.ahead.repeat.take() else { return };
        let submitted = self.gpu.submit_ahead(commands);
        let bytes = self.bytes_read(flight.shape);
        self.readbacks[flight.readback].expect(bytes, submitted);
        self.flights.push_back(flight);
    }
}
