//! Which draft tokens count, and which tokens a round emits.

/// What a round emits: `emitted` tokens of the target's ids, all but the last of them accepted draft tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Accepted {
    /// Draft tokens that the draft had, up to its first end of text.
    pub drafted: usize,
    /// Draft tokens that count.
    pub accepted: usize,
    /// The last emitted token ends the text.
    pub ended: bool,
}

/// Greedy and coupled acceptance: the longest common prefix of the draft tokens [k] and the target's ids [k + 1], then
/// one token of the target. `room` cuts what is wanted, `ends` says which tokens end the text.
///
/// Every round emits exactly one token of the target's own, its last: where a cut or an end of text falls on an
/// agreed draft token, that token counts as the target's, as in transformers.
pub fn accept(draft: &[u32], ids: &[u32], room: usize, ends: impl Fn(u32) -> bool) -> Accepted {
    let drafted = draft.iter().position(|&id| ends(id)).map_or(draft.len(), |end| end + 1);
    let agreed = draft.iter().zip(ids).take(drafted).take_while(|(guess, id)| guess == id).count();
    let wanted = (agreed + 1).min(room).min(ids.len());
    let end = ids.iter().take(wanted).position(|&id| ends(id));
    let emitted = end.map_or(wanted, |end| end + 1);
    Accepted { drafted, accepted: emitted.saturating_sub(1), ended: end.is_some() }
}
