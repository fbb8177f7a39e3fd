//! Drafting from the text that the caller expects (OpenAI's `prediction.content`).

use super::ngram::keys;
use super::{Drafter, Origin, Round};
use crate::target::{Draft, MAX_DRAFT};
use std::collections::HashMap;

/// Longest n-gram used to find the place again. A place is also certain after this many matching tokens.
const LONGEST: usize = 4;

/// For this many tokens after a divergence, a one-for-one replacement is assumed if no n-gram matches.
const REPLACED: usize = 2;

/// Drafter that proposes the continuation of the expected text. If the output diverges, the place is found again by the last emitted
/// tokens: the longest n-gram first, then the nearest place at or after the last certain one. The expected text and the output are each
/// read once.
pub struct Prediction {
    expected: Vec<u32>,
    prompt: usize,
    /// Ends of each n-gram in the expected text, in order, as the number of tokens up to there.
    places: HashMap<u64, Vec<u32>>,
    /// Tokens of prompt and output that were compared.
    read: usize,
    /// Index of the expected token to compare next; `None`: the place is lost.
    at: Option<usize>,
    /// Tokens before `at` that match.
    agreed: usize,
    /// The last certain place. Earlier places are not searched.
    certain: usize,
    /// Mismatches since the last certain place.
    diverged: usize,
}

impl Prediction {
    /// Creates a drafter for an output that begins after `num_prompt_tokens` and should resemble `expected`, from its start.
    pub fn new(expected: Vec<u32>, num_prompt_tokens: usize) -> Self {
        let mut places: HashMap<u64, Vec<u32>> = HashMap::new();
        for end in 1..=expected.len() {
            for key in keys(&expected[..end], LONGEST) {
                places.entry(key).or_default().push(end as u32);
            }
        }
        let (read, at, agreed, certain, diverged) = (num_prompt_tokens, Some(0), LONGEST, 0, 0);
        Self { expected, prompt: num_prompt_tokens, places, read, at, agreed, certain, diverged }
    }

    /// Compares the last token of the output with the expected token.
    fn follow(&mut self, output: &[u32]) {
        let expected = self.at.and_then(|at| self.expected.get(at));
        if let (Some(at), true) = (self.at, expected == output.last()) {
            self.at = Some(at + 1);
            self.agreed += 1;
        } else {
            self.diverged += 1;
            let supposed = (self.diverged <= REPLACED).then_some((self.certain + self.diverged, 0));
            let found = self.find(output).or(supposed);
            self.at = found.map(|(at, _)| at);
            self.agreed = found.map_or(0, |(_, agreed)| agreed);
        }
        if let (Some(at), LONGEST..) = (self.at, self.agreed) {
            self.certain = at;
            self.diverged = 0;
        }
    }

    /// Returns the place in the expected text where the output continues, and the matching tokens before it.
    fn find(&self, output: &[u32]) -> Option<(usize, usize)> {
        let keys: Vec<u64> = keys(output, LONGEST).collect();
        keys.iter().enumerate().rev().find_map(|(shorter, key)| {
            let n = shorter + 1;
            let places = self.places.get(key)?;
            let next = places.partition_point(|&end| (end as usize) < self.certain);
            let end = *places.get(next)? as usize;
            (output.get(output.len() - n..) == self.expected.get(end.checked_sub(n)?..end)).then_some((end, n))
        })
    }
}

impl Drafter for Prediction {
    fn draft(&mut self, tokens: &[u32], _room: usize) -> Draft {
        if tokens.len() < self.read {
            // Tokens were taken back: the output is compared again from its start.
            (self.read, self.at, self.agreed, self.certain, self.diverged) = (0, Some(0), LONGEST, 0, 0);
        }
        for read in self.read.max(self.prompt)..tokens.len() {
            self.follow(&tokens[self.prompt..=read]);
        }
        self.read = tokens.len();
        let rest = self.at.and_then(|at| self.expected.get(at..)).unwrap_or_default();
        Draft::Tokens(rest[..rest.len().min(MAX_DRAFT)].to_vec())
    }

    fn learn(&mut self, _round: &Round) {}

    fn origin(&self) -> Origin {
        Origin::Prediction
    }
}
