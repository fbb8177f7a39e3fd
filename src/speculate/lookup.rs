//! Prompt lookup (Saxena 2023): drafting from earlier occurrences of the last tokens in the text itself.

use super::ngram::keys;
use super::{Drafter, Origin, Round};
use crate::options::LookupRule;
use crate::target::{Draft, MAX_DRAFT};
use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};

/// Drafter that proposes the tokens after an earlier occurrence of the last n tokens, for n from `max_ngram` down to 1. The text is read
/// once: the time of a round depends on its new tokens, not on the length of the text. A shorter text takes back the last tokens.
pub struct PromptLookup {
    num_tokens: usize,
    max_ngram: usize,
    rule: LookupRule,
    ends: Vec<u32>,
    index: HashMap<u64, Places>,
    indexed: usize,
    /// The latest changes of the index, to take them back: end, key, and the earlier last place of the key.
    changes: VecDeque<(u32, u64, Option<u32>)>,
    /// End of the latest change that cannot be taken back.
    fixed: u32,
}

/// Changes that can be taken back: drafts of a few hundred tokens.
const CHANGES: usize = 1024;

/// Ends of the first and last occurrence of an n-gram, as the number of tokens up to there.
struct Places {
    first: u32,
    last: u32,
}

impl PromptLookup {
    /// Creates a lookup of up to `num_tokens` tokens at a time; fewer at the end of the text or before any of `ends`.
    pub fn new(num_tokens: usize, max_ngram: usize, rule: LookupRule, ends: &[u32]) -> Self {
        let ends = ends.to_vec();
        let (index, changes) = (HashMap::new(), VecDeque::new());
        Self { num_tokens, max_ngram, rule, ends, index, indexed: 0, changes, fixed: 0 }
    }

    /// Indexes the n-grams that end before the last token, so that each match has a token after it.
    fn index_tokens(&mut self, tokens: &[u32]) {
        let known = tokens.len().saturating_sub(1);
        self.forget(known);
        for end in self.indexed + 1..=known {
            for key in keys(&tokens[..end], self.max_ngram) {
                let end = end as u32;
                let before = match self.index.entry(key) {
                    Entry::Occupied(mut places) => Some(std::mem::replace(&mut places.get_mut().last, end)),
                    Entry::Vacant(entry) => {
                        entry.insert(Places { first: end, last: end });
                        None
                    }
                };
                self.changes.push_back((end, key, before));
            }
        }
        self.indexed = known;
        let old = self.changes.len().saturating_sub(CHANGES);
        self.fixed = self.changes.drain(..old).next_back().map_or(self.fixed, |(end, ..)| end);
    }

    /// Takes back what the tokens after the first `known` ones changed.
    fn forget(&mut self, known: usize) {
        if known < self.fixed as usize {
            self.index.clear();
            self.changes.clear();
            (self.indexed, self.fixed) = (0, 0);
        }
        while let Some((_, key, before)) = self.changes.pop_back_if(|(end, ..)| *end as usize > known) {
            match (before, self.index.get_mut(&key)) {
                (Some(last), Some(places)) => places.last = last,
                _ => drop(self.index.remove(&key)),
            }
        }
        self.indexed = self.indexed.min(known);
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
