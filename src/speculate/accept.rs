//! Acceptance: which draft tokens count, and which tokens a round emits.

/// Result of a round. It emits `accepted` draft tokens and then one token of the target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Accepted {
    /// Draft tokens up to and including the first that ends the text.
    pub drafted: usize,
    /// Draft tokens that were accepted.
    pub accepted: usize,
    /// True if the last emitted token ends the text.
    pub ended: bool,
}

/// Accepts the longest common prefix of the draft tokens [k] and the target's ids [k + 1], then one token of the target: greedy and coupled
/// acceptance. `room`: most tokens to emit. `ends`: true for tokens that end the text.
///
/// The last token of a round always counts as the target's own. This includes an agreed draft token at which `room` or an end of text
/// stops, as in transformers.
pub fn accept(draft: &[u32], ids: &[u32], room: usize, ends: impl Fn(u32) -> bool) -> Accepted {
    let drafted = draft.iter().position(|&id| ends(id)).map_or(draft.len(), |end| end + 1);
    let agreed = draft.iter().zip(ids).take(drafted).take_while(|(guess, id)| guess == id).count();
    let wanted = (agreed + 1).min(room).min(ids.len());
    let end = ids.iter().take(wanted).position(|&id| ends(id));
    let emitted = end.map_or(wanted, |end| end + 1);
    Accepted { drafted, accepted: emitted.saturating_sub(1), ended: end.is_some() }
}
