//! Drafting from the text itself: what followed the last tokens where they stood before (prompt lookup, Saxena 2023).

use super::ngram::keys;
use super::{Drafter, Origin, Round};
use crate::options::LookupRule;
use crate::target::{Draft, MAX_DRAFT};
use std::collections::HashMap;

/// Proposes what followed an earlier occurrence of the last n tokens, for n from `max_ngram` down to 1. The text is read
/// once: a round costs the time of its new tokens, however long the text is.
pub struct PromptLookup {
    num_tokens: usize,
    max_ngram: usize,
    rule: LookupRule,
    ends: Vec<u32>,
    index: HashMap<u64, Places>,
    indexed: usize,
}

/// Where an n-gram ends, first and last, as the number of tokens up to there.
struct Places {
    first: u32,
    last: u32,
}

impl PromptLookup {
    /// Proposes `num_tokens` tokens at a time, fewer before the end of the text and before any of `ends`.
    pub fn new(num_tokens: usize, max_ngram: usize, rule: LookupRule, ends: &[u32]) -> Self {
        let ends = ends.to_vec();
        Self { num_tokens, max_ngram, rule, ends, index: HashMap::new(), indexed: 0 }
    }

    /// Enters the n-grams that end before the last token: whatever they match then has a token behind it.
    fn read(&mut self, tokens: &[u32]) {
        let known = tokens.len().saturating_sub(1);
        if known < self.indexed {
            self.index.clear();
            self.indexed = 0;
        }
        for end in self.indexed + 1..=known {
            for key in keys(&tokens[..end], self.max_ngram) {
                let end = end as u32;
                self.index
                    .entry(key)
                    .and_modify(|places| places.last = end)
                    .or_insert(Places { first: end, last: end });
            }
        }
        self.indexed = known;
    }

    /// What follows the occurrence of the last `n` tokens that the rule chooses.
    fn followers<'a>(&self, tokens: &'a [u32], n: usize, places: &Places) -> Option<&'a [u32]> {
        let place = match self.rule {
            LookupRule::Leftmost | LookupRule::Whole => places.first,
            LookupRule::MostRecent => places.last,
        } as usize;
        // Different n-grams may share a key.
        if tokens.get(place.checked_sub(n)?..place) != tokens.get(tokens.len() - n..) {
            return None;
        }
        let followers = tokens.get(place..)?;
        let whole = followers.len() >= self.num_tokens && place < tokens.len() - n;
        (self.rule != LookupRule::Whole || whole).then_some(followers)
    }
}

impl Drafter for PromptLookup {
    fn draft(&mut self, tokens: &[u32], room: usize) -> Draft {
        self.read(tokens);
        if room == 1 {
            return Draft::Tokens(Vec::new());
        }
        let longest = self.max_ngram.min(tokens.len().saturating_sub(1));
        let keys: Vec<u64> = keys(tokens, longest).collect();
        for (shorter, key) in keys.iter().enumerate().rev() {
            let places = self.index.get(key);
            if let Some(followers) = places.and_then(|places| self.followers(tokens, shorter + 1, places)) {
                let count = self.num_tokens.min(MAX_DRAFT).min(followers.len());
                let end = followers[..count].iter().position(|id| self.ends.contains(id)).unwrap_or(count);
                return Draft::Tokens(followers[..end].to_vec());
            }
        }
        Draft::Tokens(Vec::new())
    }

    fn learn(&mut self, _round: &Round) {}

    fn origin(&self) -> Origin {
        Origin::Lookup
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(draft: Draft) -> Vec<u32> {
        match draft {
            Draft::Tokens(tokens) => tokens,
            Draft::Model(_) => panic!("a lookup has no model"),
        }
    }

    fn lookup(text: &[u32], num_tokens: usize, max_ngram: usize) -> Vec<u32> {
        by_rule(LookupRule::Leftmost, text, num_tokens, max_ngram)
    }

    fn by_rule(rule: LookupRule, text: &[u32], num_tokens: usize, max_ngram: usize) -> Vec<u32> {
        tokens(PromptLookup::new(num_tokens, max_ngram, rule, &[0]).draft(text, 100))
    }

    /// The rules as they are told, without an index.
    fn told(rule: LookupRule, text: &[u32], num_tokens: usize, max_ngram: usize) -> Vec<u32> {
        for n in (1..=max_ngram.min(text.len().saturating_sub(1))).rev() {
            let last = &text[text.len() - n..];
            let mut starts = (0..text.len() - n).filter(|&start| &text[start..start + n] == last);
            let start = match rule {
                LookupRule::Leftmost => starts.next(),
                LookupRule::MostRecent => starts.next_back(),
                LookupRule::Whole => {
                    starts.find(|start| start + n + num_tokens <= text.len() && start + n < text.len() - n)
                }
            };
            if let Some(start) = start {
                let followers = text[start + n..].iter().copied().take(num_tokens);
                return followers.take_while(|&id| id != 0).collect();
            }
        }
        Vec::new()
    }

    #[test]
    fn the_index_finds_what_the_rules_tell_while_a_text_grows() {
        let mut state = 1u32;
        let mut random = |most: u32| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 16) % most
        };
        for rule in [LookupRule::Leftmost, LookupRule::Whole, LookupRule::MostRecent] {
            for (kinds, max_ngram) in [(2, 1), (3, 2), (3, 5), (8, 3)] {
                let mut text = vec![1];
                let mut grown = PromptLookup::new(4, max_ngram, rule, &[0]);
                while text.len() < 150 {
                    let expected = told(rule, &text, 4, max_ngram);
                    assert_eq!(tokens(grown.draft(&text, 100)), expected, "{rule:?} {max_ngram} {text:?}");
                    assert_eq!(by_rule(rule, &text, 4, max_ngram), expected, "read at once");
                    (0..=random(3)).for_each(|_| text.push(random(kinds)));
                }
            }
        }
    }

    #[test]
    fn another_text_is_read_from_its_beginning() {
        let mut lookup = PromptLookup::new(2, 2, LookupRule::Leftmost, &[]);
        assert_eq!(tokens(lookup.draft(&[1, 2, 3, 1, 2], 100)), [3, 1]);
        assert_eq!(tokens(lookup.draft(&[2, 7, 2], 100)), [7, 2]);
    }

    #[test]
    fn the_most_recent_match_wins_where_it_should() {
        assert_eq!(by_rule(LookupRule::MostRecent, &[2, 7, 2, 8, 2], 1, 3), [8]);
    }

    #[test]
    fn a_whole_continuation_is_wanted_where_it_should() {
        assert_eq!(by_rule(LookupRule::Whole, &[4, 5, 9, 1, 4, 5], 3, 2), [9, 1, 4]);
        assert_eq!(by_rule(LookupRule::Whole, &[4, 5, 9, 1, 4, 5], 5, 2), [0u32; 0]);
    }

    #[test]
    fn the_longest_ngram_comes_first() {
        assert_eq!(lookup(&[3, 9, 1, 2, 3, 4, 2, 3], 3, 2), [4, 2, 3]);
    }

    #[test]
    fn the_leftmost_match_wins() {
        assert_eq!(lookup(&[2, 7, 2, 8, 2], 1, 3), [7]);
    }

    #[test]
    fn a_proposal_may_run_into_the_last_tokens() {
        assert_eq!(lookup(&[5, 5, 5], 10, 2), [5]);
    }

    #[test]
    fn a_proposal_stops_before_the_end_of_text() {
        assert_eq!(lookup(&[1, 2, 0, 3, 1], 10, 2), [2]);
        assert_eq!(lookup(&[1, 0, 3, 1], 10, 2), [0u32; 0]);
    }

    #[test]
    fn new_tokens_have_no_followers() {
        assert_eq!(lookup(&[1, 2, 3], 10, 3), [0u32; 0]);
        assert_eq!(lookup(&[1], 10, 3), [0u32; 0]);
    }
}
