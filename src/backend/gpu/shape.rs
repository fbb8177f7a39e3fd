//! Rounds in flight and commands prepared for the next ones. A round submitted ahead is queued before the previous one's tokens were
//! read.

use super::round::{DRAFTS, IDS};
use crate::gpu::Prepared;

/// Number of latest round shapes for which commands are kept ready. Schedules change the draft length, and after a fully accepted
/// draft the draft model reads one more token.
const KEPT: usize = 4;

/// Readback of a round whose position the CPU knows. Rounds submitted ahead alternate between the two.
pub(super) const DIRECT: usize = 0;
/// Readback of the draft model's tokens under a constraint, where no round is submitted ahead.
pub(super) const DRAFTED: usize = 1 - DIRECT;

/// Properties that, with the position, determine a round's commands.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Shape {
    /// Draft tokens supplied by the caller.
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

    /// Returns the index of the first token read back. If the CPU knows the draft, only the target's ids are.
    pub fn first_read(self) -> usize {
        if self.steps > 0 { DRAFTS } else { IDS }
    }
}

/// A submitted round.
#[derive(Default)]
pub(super) struct Flight {
    pub shape: Shape,
    /// Tokens cached before the round. For a round submitted ahead, `position` and `pending` are set when the previous one is read.
    pub position: usize,
    pub pending: u32,
    pub known: Vec<u32>,
    pub waited: f64,
    /// True if a round of equal shape may be submitted after this one.
    pub repeats: bool,
    pub readback: usize,
    /// Slots in which target and draft model save the recurrent state before the round, if they do.
    pub saved: [Option<usize>; 2],
}

/// Everything that determines the commands of a round.
#[derive(PartialEq, Eq)]
pub(super) struct ShapeKey {
    pub shape: Shape,
    /// Blocks of positions that attention computes, per pass.
    pub blocks: Vec<u32>,
}

/// Commands prepared for the next rounds. Token ids and positions are written at submission, and attention grids change only with
/// each block of positions. A wrong guess of the number of accepted tokens therefore often does not matter.
#[derive(Default)]
pub(super) struct Ahead {
    /// Commands of a round's consecutive submissions, by key.
    pub prepared: Vec<(ShapeKey, Vec<Prepared>)>,
    /// A round to be submitted ahead, with its commands.
    pub repeat: Option<(Flight, Prepared)>,
    /// Shapes of the latest rounds, which are likely to recur.
    shapes: Vec<Shape>,
    /// Position of the latest round; `advance`: its distance from the previous one.
    position: usize,
    advance: usize,
}

impl Ahead {
    /// Records that a round is submitted.
    pub fn enter(&mut self, shape: Shape, position: usize) {
        self.shapes.retain(|kept| *kept != shape);
        // A long catch-up of the draft model does not recur.
        if shape.missed <= shape.steps.max(1) {
            self.shapes.push(shape);
        }
        if self.shapes.len() > KEPT {
            self.shapes.remove(0);
        }
        self.advance = position.saturating_sub(self.position).max(1);
        self.position = position;
    }

    /// Returns the likely shapes of the round after `flight`, with positions.
    pub fn guesses(&self, flight: &Flight) -> Vec<(Shape, usize)> {
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
