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

#[cfg(test)]
mod tests {
    use super::*;

    fn round(draft: &[u32], ids: &[u32], room: usize) -> (usize, usize, bool) {
        let Accepted { drafted, accepted, ended } = accept(draft, ids, room, |id| id == 0);
        (drafted, accepted, ended)
    }

    #[test]
    fn a_disagreement_recovers_the_target_token() {
        assert_eq!(round(&[5, 6, 7], &[5, 9, 8, 4], 100), (3, 1, false));
    }

    #[test]
    fn full_agreement_brings_a_bonus() {
        assert_eq!(round(&[5, 6], &[5, 6, 7], 100), (2, 2, false));
    }

    #[test]
    fn no_draft_is_a_plain_step() {
        assert_eq!(round(&[], &[5], 100), (0, 0, false));
    }

    #[test]
    fn an_agreed_end_of_text_counts_as_the_targets_own() {
        assert_eq!(round(&[5, 0, 6], &[5, 0, 6, 7], 100), (2, 1, true));
    }

    #[test]
    fn tokens_after_an_end_that_only_the_draft_saw_are_not_verified() {
        assert_eq!(round(&[5, 0, 6], &[5, 6, 6, 7], 100), (2, 1, false));
    }

    #[test]
    fn an_end_recovered_by_the_target_ends() {
        assert_eq!(round(&[5, 6], &[5, 0, 9], 100), (2, 1, true));
    }

    #[test]
    fn room_cuts_inside_the_draft() {
        assert_eq!(round(&[5, 6, 7], &[5, 6, 7, 8], 2), (3, 1, false));
    }
}
