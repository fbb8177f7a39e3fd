//! The text in the state machine: settled tokens, then tokens that slower models have yet to confirm.

/// A token, the model that proposed it, and the slowest model that confirmed it.
#[derive(Debug, Clone, Copy)]
struct Slot {
    id: u32,
    by: usize,
    trust: usize,
}

/// Effect of a model's token on the chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    /// The token was there. This model or a slower one has now confirmed it.
    Confirmed,
    /// The token was appended.
    Added,
    /// Another token was replaced, and all tokens after it were removed.
    Replaced,
}

/// Tokens by position. A token that ends the text is always the last one.
#[derive(Debug)]
pub(super) struct DsiChain {
    slots: Vec<Slot>,
    prompt: usize,
    target: usize,
    settled: usize,
    limit: usize,
    ends: Vec<u32>,
}

impl DsiChain {
    /// Creates a chain from a prompt, which is settled. `target`: the slowest model; `room`: tokens wanted.
    pub(super) fn new(prompt: &[u32], target: usize, room: usize, ends: Vec<u32>) -> Self {
        let slots = prompt.iter().map(|&id| Slot { id, by: target, trust: target }).collect();
        let (prompt, limit) = (prompt.len(), prompt.len().saturating_add(room));
        Self { slots, prompt, target, settled: prompt, limit, ends }
    }

    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }

    /// Counts tokens that may still be replaced.
    pub(super) fn unsettled(&self) -> usize {
        self.len() - self.settled
    }

    pub(super) fn ids(&self, from: usize, to: usize) -> Vec<u32> {
        self.slots[from..to].iter().map(|slot| slot.id).collect()
    }

    /// Counts leading tokens that `model` or a slower model confirmed.
    pub(super) fn known(&self, model: usize) -> usize {
        let doubtful = self.slots[self.settled..].iter().position(|slot| slot.trust < model);
        doubtful.map_or(self.len(), |at| self.settled + at)
    }

    /// Counts tokens that a model can be asked to continue: all but one that ends the text.
    pub(super) fn continuable(&self) -> usize {
        (self.len() - usize::from(self.has_ended())).min(self.limit - 1)
    }

    /// Counts further draft tokens that can be used: the last wanted token is the target's own.
    pub(super) fn draftable(&self) -> usize {
        if self.has_ended() { 0 } else { (self.limit - 1).saturating_sub(self.len()) }
    }

    fn has_ended(&self) -> bool {
        self.len() > self.prompt && self.slots.last().is_some_and(|last| self.ends.contains(&last.id))
    }

    /// Returns true if a token of `model` at this position could change the chain.
    pub(super) fn is_open(&self, position: usize, model: usize) -> bool {
        self.slots.get(position).is_none_or(|slot| slot.trust < model)
    }

    /// Enters a model's token at a position in the text or directly after it.
    pub(super) fn enter(&mut self, position: usize, id: u32, model: usize) -> Change {
        let token = Slot { id, by: model, trust: model };
        match self.slots.get_mut(position) {
            None => {
                self.slots.push(token);
                Change::Added
            }
            Some(slot) if slot.trust >= model => Change::Confirmed,
            Some(slot) if slot.id == id => {
                slot.trust = model;
                Change::Confirmed
            }
            Some(_) => {
                self.slots.truncate(position);
                self.slots.push(token);
                Change::Replaced
            }
        }
    }

    /// Returns the next token that the target confirmed, the model that proposed it, and true if it is the last token.
    pub(super) fn settle(&mut self) -> Option<(u32, usize, bool)> {
        let slot = *self.slots.get(self.settled).filter(|slot| slot.trust >= self.target)?;
        self.settled += 1;
        let last = self.settled >= self.limit || self.ends.contains(&slot.id);
        Some((slot.id, if last { self.target } else { slot.by }, last))
    }
}
