//! Drafting from the text itself: what followed the last tokens where they stood before (prompt lookup, Saxena 2023).

use super::{Drafter, Origin};
use crate::decode::{Draft, MAX_DRAFT};

/// Proposes what followed the leftmost earlier occurrence of the last n tokens, for n from `max_ngram` down to 1: the
/// rule of transformers.
pub struct PromptLookup {
    /// Tokens proposed at a time.
    pub num_tokens: usize,
    /// Longest n-gram tried.
    pub max_ngram: usize,
    /// A proposal stops before any of these.
    pub ends: Vec<u32>,
}

impl Drafter for PromptLookup {
    fn draft(&mut self, tokens: &[u32], room: usize) -> Draft {
        if room == 1 {
            return Draft::Tokens(Vec::new());
        }
        let longest = self.max_ngram.min(tokens.len().saturating_sub(1));
        for n in (1..=longest).rev() {
            let (before, last) = tokens.split_at(tokens.len() - n);
            // An occurrence that begins before the last n tokens has at least one token behind it.
            if let Some(start) = tokens.windows(n).take(before.len()).position(|window| window == last) {
                let followers = &tokens[start + n..];
                let count = self.num_tokens.min(MAX_DRAFT).min(followers.len());
                let end = followers[..count].iter().position(|id| self.ends.contains(id)).unwrap_or(count);
                return Draft::Tokens(followers[..end].to_vec());
            }
        }
        Draft::Tokens(Vec::new())
    }

    fn learn(&mut self, _drafted: usize, _accepted: usize) {}

    fn origin(&self) -> Origin {
        Origin::Lookup
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lookup(tokens: &[u32], num_tokens: usize, max_ngram: usize) -> Vec<u32> {
        match (PromptLookup { num_tokens, max_ngram, ends: vec![0] }).draft(tokens, 100) {
            Draft::Tokens(tokens) => tokens,
            Draft::Model(_) => panic!("a lookup has no model"),
        }
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
