//! The text in the state machine: settled tokens, then tokens that the target has yet to verify.

/// A token.
#[derive(Debug, Clone, Copy)]
struct Slot {
    id: u32,
    is_draft: bool,
    is_verified: bool,
}

/// Effect of a token of the target on the chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    /// The token was there, and is now verified.
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
    settled: usize,
    limit: usize,
    ends: Vec<u32>,
}

impl DsiChain {
    /// Creates a chain from a prompt, which is settled. `room`: tokens wanted.
    pub(super) fn new(prompt: &[u32], room: usize, ends: Vec<u32>) -> Self {
        let slots = prompt.iter().map(|&id| Slot { id, is_draft: false, is_verified: true }).collect();
        let (prompt, limit) = (prompt.len(), prompt.len().saturating_add(room));
        Self { slots, prompt, settled: prompt, limit, ends }
    }

    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }

    /// Counts tokens that are never taken back.
    pub(super) fn settled(&self) -> usize {
        self.settled
    }

    pub(super) fn ids(&self, from: usize, to: usize) -> Vec<u32> {
        self.slots[from..to].iter().map(|slot| slot.id).collect()
    }

    /// Counts tokens that the target can be asked to continue: all but one that ends the text.
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

    /// Returns true if a token of the target at this position could change the chain.
    pub(super) fn is_open(&self, position: usize) -> bool {
        self.slots.get(position).is_none_or(|slot| !slot.is_verified)
    }

    /// Appends a draft token.
    pub(super) fn draft(&mut self, id: u32) {
        self.slots.push(Slot { id, is_draft: true, is_verified: false });
    }

    /// Enters a token of the target at a position in the text or directly after it.
    pub(super) fn verify(&mut self, position: usize, id: u32) -> Change {
        match self.slots.get_mut(position) {
            Some(slot) if slot.is_verified || slot.id == id => {
                slot.is_verified = true;
                Change::Confirmed
            }
            other => {
                let change = if other.is_some() { Change::Replaced } else { Change::Added };
                self.slots.truncate(position);
                self.slots.push(Slot { id, is_draft: false, is_verified: true });
                change
            }
        }
    }

    /// Returns the next verified token, true if it was drafted, and true if it is the last token.
    pub(super) fn settle(&mut self) -> Option<(u32, bool, bool)> {
        let slot = *self.slots.get(self.settled).filter(|slot| slot.is_verified)?;
        self.settled += 1;
        let last = self.settled >= self.limit || self.ends.contains(&slot.id);
        Some((slot.id, slot.is_draft && !last, last))
    }
}
