//! Lengths to which a text can be cut if its model keeps recurrent state, and the states that a forward pass reads and writes.

use std::ops::Range;

/// Fewest tokens between two states that rounds save. A drafter may write a token per round; the states must then lead back to all of its
/// draft. Repeating a few rows costs little.
const APART: usize = 4;

/// The lengths to which a cached text can be cut. Keys and values can be cut anywhere.
#[derive(Debug, Clone, Default)]
pub struct Rollback(Kept);

#[derive(Debug, Clone, Default)]
enum Kept {
    /// Keys and values alone.
    #[default]
    Anywhere,
    /// Inputs of convolutions: those of the latest positions, and of checkpoints.
    Inputs {
        /// Earlier positions that a row depends on.
        before: usize,
        /// Latest positions whose inputs are kept.
        reach: usize,
        /// Positions between checkpoints.
        interval: usize,
        /// First position whose inputs are kept, apart from checkpoints.
        first: usize,
    },
    /// States of delta nets.
    States(States),
}

/// States, each after some tokens, and the inputs that lead from one to later ones.
#[derive(Debug, Clone)]
struct States {
    /// Number of tokens before each state. Rounds save in the first slots in turn, chunks of a prompt in the others.
    slots: Vec<Option<usize>>,
    /// Number of slots for rounds.
    rounds: usize,
    /// Slot that a round saved last.
    latest: usize,
    /// Positions whose inputs are kept.
    inputs: Range<usize>,
    /// Most positions whose inputs are kept.
    reach: usize,
}

/// States that a forward pass reads and writes. Without recurrent states there is nothing to read, and what is written is not used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StatePass {
    /// Slot of the state that the pass starts from.
    pub slot: usize,
    /// Number of tokens before this state; 0: it is zero, and not in the slot.
    pub base: usize,
    /// Slot to write.
    pub save_slot: usize,
    /// Number of tokens before the state to write; `None`: none is written.
    pub save_at: Option<usize>,
}

impl StatePass {
    /// Returns the states of the next pass of a draft, which writes none: most of a draft may be rejected.
    pub fn next_of_draft(self) -> Self {
        match self.save_at {
            Some(base) => Self { slot: self.save_slot, base, save_at: None, ..self },
            None => self,
        }
    }

    /// Returns the slot that is written, if there is one.
    pub fn saved(self) -> Option<usize> {
        self.save_at.map(|_| self.save_slot)
    }
}

impl Rollback {
    /// Describes inputs of convolutions for an empty text.
    pub fn of_inputs(before: usize, reach: usize, interval: usize) -> Self {
        Self(Kept::Inputs { before, reach, interval, first: 0 })
    }

    /// Describes states of delta nets for an empty text: their number, that for rounds, and the positions whose inputs are kept.
    pub fn of_states(slots: usize, rounds: usize, reach: usize) -> Self {
        Self(Kept::States(States { slots: vec![None; slots], rounds, latest: 0, inputs: 0..0, reach }))
    }

    /// Cuts a text of `from` tokens to at most `len`. Returns the length from which it can continue.
    pub fn cut(&mut self, from: usize, len: usize) -> usize {
        let len = len.min(from);
        match &mut self.0 {
            Kept::Anywhere => len,
            Kept::Inputs { before, reach, interval, first } => {
                *first = (*first).max(from.saturating_sub(*reach));
                let is_kept = |position| position >= *first || position % *interval + *before >= *interval;
                let kept = if (len.saturating_sub(*before)..len).all(is_kept) { len } else { len - len % *interval };
                *first = (*first).min(kept);
                kept
            }
            Kept::States(states) => {
                let kept = if states.source(len).is_some() { len } else { states.latest_before(len) };
                states.slots.iter_mut().for_each(|slot| *slot = slot.filter(|base| *base <= kept));
                let Range { start, end } = states.inputs;
                states.inputs = start.min(kept)..end.min(kept);
                kept
            }
        }
    }

    /// Records that a copy of a text of `len` tokens was restored. The first slot has the state before its last token.
    pub fn restored(&mut self, len: usize) {
        match &mut self.0 {
            Kept::Anywhere => {}
            Kept::Inputs { before, first, .. } => *first = len.saturating_sub(*before),
            Kept::States(states) => {
                states.slots.fill(None);
                states.slots[0] = Some(len.saturating_sub(1));
                states.inputs = len.saturating_sub(1)..len;
            }
        }
    }

    /// Begins a round, or a draft, at `position`: saves the state before it, unless there is a state shortly before.
    /// [`Rollback::computed`] must follow.
    pub fn round(&mut self, position: usize) -> StatePass {
        let Kept::States(states) = &mut self.0 else { return StatePass::default() };
        let (slot, base) = states.begin(position);
        if position - base < APART {
            states.latest = slot;
            return StatePass { slot, base, save_slot: slot, save_at: None };
        }
        StatePass { slot, base, save_slot: states.next(slot), save_at: Some(position) }
    }

    /// Begins a round whose position only the device knows yet, after another one. Returns the slot that it saves, if there are states.
    pub fn repeat(&mut self) -> Option<usize> {
        match &mut self.0 {
            Kept::States(states) => Some(states.next(states.latest)),
            Kept::Anywhere | Kept::Inputs { .. } => None,
        }
    }

    /// Records that a round with `rows` rows, at `position`, was computed, and saved its state in a slot if one is given.
    pub fn computed(&mut self, saved: Option<usize>, position: usize, rows: usize) {
        let Kept::States(States { slots, inputs, reach, .. }) = &mut self.0 else { return };
        if let Some(slot) = saved {
            slots[slot] = Some(position);
        }
        let end = position + rows;
        let start = if (inputs.start..=inputs.end).contains(&position) { inputs.start } else { position };
        *inputs = start.max(end.saturating_sub(*reach))..end;
    }

    /// Reads `rows` tokens of a prompt from `position` on, at least 1: saves the state before the last one, in the slot for chunks with the
    /// earlier state.
    pub fn chunk(&mut self, position: usize, rows: usize) -> StatePass {
        let pass = self.begin_chunk(position, rows);
        self.end_chunk(pass);
        pass
    }

    /// Begins [`Rollback::chunk`]. Without [`Rollback::end_chunk`] the pass leaves no trace.
    pub fn begin_chunk(&mut self, position: usize, rows: usize) -> StatePass {
        let end = position + rows;
        match &mut self.0 {
            Kept::Anywhere => StatePass::default(),
            Kept::Inputs { reach, first, .. } => {
                *first = (*first).max(end.saturating_sub(*reach));
                StatePass::default()
            }
            Kept::States(states) => {
                let (slot, base) = states.begin(position);
                let others = (states.rounds..states.slots.len()).filter(|other| *other != slot);
                let save_slot = others.min_by_key(|other| states.slots[*other]).unwrap_or(states.rounds);
                // The pass overwrites it layer by layer.
                states.slots[save_slot] = None;
                let Range { start, end: kept } = states.inputs;
                states.inputs = start.max(end.saturating_sub(states.reach)).min(kept)..kept;
                StatePass { slot, base, save_slot, save_at: Some(end - 1) }
            }
        }
    }

    /// Records that the pass of [`Rollback::begin_chunk`] was computed.
    pub fn end_chunk(&mut self, pass: StatePass) {
        let (Kept::States(states), Some(last)) = (&mut self.0, pass.save_at) else { return };
        states.slots[pass.save_slot] = Some(last);
        // Inputs of the other rows are not kept.
        let first = if states.inputs.end == last { states.inputs.start } else { last };
        states.inputs = first..last + 1;
    }

    /// Returns true if [`Rollback::settle`] is possible for a text of `len` tokens.
    pub fn can_settle(&self, len: usize) -> bool {
        match &self.0 {
            Kept::States(states) => len == 0 || states.source(len - 1).is_some(),
            Kept::Anywhere | Kept::Inputs { .. } => true,
        }
    }

    /// Saves the state before the last of `len` tokens in the first slot, for a copy. `None`: it is there, or there are no states.
    pub fn settle(&mut self, len: usize) -> Option<StatePass> {
        let Kept::States(states) = &mut self.0 else { return None };
        let last = len.checked_sub(1).filter(|last| states.slots[0] != Some(*last))?;
        let (slot, base) = states.source(last)?;
        states.slots[0] = Some(last);
        Some(StatePass { slot, base, save_slot: 0, save_at: Some(last) })
    }

    /// Returns a slot for comparisons of kernels, which do not need the text's state, and another one that they may overwrite.
    pub fn spare(&mut self) -> [usize; 2] {
        let Kept::States(states) = &mut self.0 else { return [0; 2] };
        [states.latest, states.next(states.latest)]
    }
}

impl States {
    /// Returns the slot of the latest state from which a text of `len` tokens can be reached, and the number of tokens before it.
    fn source(&self, len: usize) -> Option<(usize, usize)> {
        let saved = self.slots.iter().enumerate().filter_map(|(slot, base)| Some((slot, (*base)?)));
        let reaches = |(_, base): &(usize, usize)| {
            *base == len || (self.inputs.start <= *base && *base < len && len <= self.inputs.end)
        };
        // Before any token the state is zero.
        [(self.latest, 0)].into_iter().chain(saved).filter(reaches).max_by_key(|(_, base)| *base)
    }

    /// Returns the state from which a pass at `position` starts. [`Rollback::cut`] has left a length that a state leads to.
    fn begin(&self, position: usize) -> (usize, usize) {
        let source = self.source(position);
        debug_assert!(source.is_some(), "no state leads to position {position}");
        source.unwrap_or((self.latest, position))
    }

    /// Returns the number of tokens before the latest state that `len` tokens contain.
    fn latest_before(&self, len: usize) -> usize {
        self.slots.iter().flatten().copied().filter(|base| *base <= len).max().unwrap_or(0)
    }

    /// Returns the slot that the next round saves: never the one that it starts from, which its rows still read.
    fn next(&mut self, from: usize) -> usize {
        let slots = [1, 2].map(|step| (self.latest + step) % self.rounds);
        self.latest = if slots[0] == from { slots[1] } else { slots[0] };
        self.slots[self.latest] = None;
        self.latest
    }
}
