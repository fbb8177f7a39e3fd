//! A round that the device computes, and the commands of the rounds that may come after it.

use super::dims::Step;
use super::engine::Engine;
use super::forward::Model;
use super::round::{DRAFTS, IDS, PENDING};
use crate::gpu::{Prepared, Recorder};

/// Shapes of rounds for which commands are kept ready: those of the latest rounds. Behind a draft of the draft model that was
/// accepted as a whole it has one token more to read than behind another, and schedules change a draft's length.
const KEPT: usize = 4;

/// What decides which commands a round consists of, besides its position.
#[derive(Clone, Copy, PartialEq, Eq)]
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

    /// How many bytes come back.
    fn bytes_read(self) -> u64 {
        4 * (IDS + self.rows() - self.first_read()) as u64
    }
}

/// A round that was submitted.
pub(super) struct Flight {
    pub shape: Shape,
    /// Tokens cached before it.
    pub position: usize,
    pub pending: u32,
    pub known: Vec<u32>,
    pub caught_up: usize,
    pub waited: f64,
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
    /// Commands, and which.
    prepared: Vec<(Key, Prepared)>,
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

    /// The rounds that may follow the one in flight, with their positions.
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
    /// Writes where a draft of the draft model starts: it first reads `missed` tokens from before the pending one, which lies
    /// at `position`.
    pub(super) fn set_draft_step(&self, model: &Model, missed: usize, position: usize) {
        model.set_step(Step {
            position: (position - missed) as u32,
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
        position: usize,
        steps: usize,
    ) {
        let (mut at, mut rows) = (position - missed, missed + 1);
        for _ in 0..steps {
            model.record_body(recorder, rows, at);
            model.record_head(recorder, 1);
            self.sampler.record_draft(recorder);
            at += rows;
            rows = 1;
        }
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

    /// The commands of a round.
    fn record_round(&self, shape: Shape, position: usize) -> Prepared {
        let Shape { steps, missed, .. } = shape;
        let mut recorder = self.gpu.record();
        if let Some(model) = self.draft.as_ref().filter(|_| steps > 0) {
            self.record_draft(&mut recorder, model, missed, position, steps);
        }
        self.target.record_body(&mut recorder, shape.rows(), position);
        self.target.record_head(&mut recorder, shape.rows());
        self.sampler.record_verify(&mut recorder, shape.rows(), steps > 0);
        recorder.encode(Some((&self.buffers.tokens, 4 * shape.first_read() as u64, shape.bytes_read(), &self.readback)))
    }

    /// Submits a round: by commands that are ready, where there are.
    pub(super) fn submit_round(&mut self, shape: Shape, position: usize) {
        let key = self.key(shape, position);
        let prepared = &mut self.ahead.prepared;
        match prepared.iter().position(|(ready, _)| *ready == key) {
            Some(index) => self.gpu.submit_prepared(prepared.swap_remove(index).1),
            None => self.gpu.submit(self.record_round(shape, position)),
        }
        self.readback.expect(shape.bytes_read());
        self.ahead.enter(shape, position);
    }

    /// Encodes commands for the rounds that may follow.
    pub(super) fn record_ahead(&mut self) {
        let Some(flight) = &self.flight else { return };
        let mut earlier = std::mem::take(&mut self.ahead.prepared);
        let prepare = |(shape, position)| {
            let key = self.key(shape, position);
            match earlier.iter().position(|(ready, _)| *ready == key) {
                Some(index) => earlier.swap_remove(index),
                None => (key, self.record_round(shape, position)),
            }
        };
        self.ahead.prepared = self.ahead.guesses(flight).into_iter().map(prepare).collect();
    }
}
