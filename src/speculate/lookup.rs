//! Prompt lookup (Saxena 2023): drafting from earlier occurrences of the last tokens in the text itself.

use super::ngram::keys;
use super::{Drafter, Origin, Round};
use crate::options::LookupRule;
use crate::target::{Draft, MAX_DRAFT};
use std::collections::HashMap;

/// Drafter that proposes the tokens after an earlier occurrence of the last n tokens, for n from `max_ngram` down to 1. The text is read
/// once: the time of a round depends on its new tokens, not on the length of the text.
pub struct PromptLookup {
    num_tokens: usize,
    max_ngram: usize,
    rule: LookupRule,
    ends: Vec<u32>,
    index: HashMap<u64, Places>,
    indexed: usize,
}

/// Ends of the first and last occurrence of an n-gram, as the number of tokens up to there.
struct Places {
    first: u32,
    last: u32,
}

impl PromptLookup {
    /// Creates a lookup of up to `num_tokens` tokens at a time; fewer at the end of the text or before any of `ends`.
    pub fn new(num_tokens: usize, max_ngram: usize, rule: LookupRule, ends: &[u32]) -> Self {
        let ends = ends.to_vec();
        Self { num_tokens, max_ngram, rule, ends, index: HashMap::new(), indexed: 0 }
    }

    /// Indexes the n-grams that end before the last token, so that each match has a token after it.
    fn index_tokens(&mut self, tokens: &[u32]) {
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

    /// Returns the tokens after the occurrence of the last `n` tokens that the rule selects.
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
        self.index_tokens(tokens);
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
