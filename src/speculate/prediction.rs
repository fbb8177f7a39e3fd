//! Drafting from the text that the caller expects (OpenAI's `prediction.content`).

use super::ngram::keys;
use super::{Drafter, Origin, Round};
use crate::target::{Draft, MAX_DRAFT};
use std::collections::HashMap;

/// Longest n-gram that finds the place again; so many tokens in agreement also make a place certain.
const LONGEST: usize = 4;

/// Tokens after a divergence for which a replacement of as many tokens is supposed, when nothing else is known.
const REPLACED: usize = 2;

/// Proposes what follows in the expected text. Where the output diverges from it, the place is found again by the last
/// emitted tokens: the longest n-gram first, then the nearest place at or after the last one that was certain. The
/// expected text and the output are each read once.
pub struct Prediction {
    expected: Vec<u32>,
    prompt: usize,
    /// Where each n-gram ends in the expected text, in order, as the number of tokens up to there.
    places: HashMap<u64, Vec<u32>>,
    /// Tokens of prompt and output that were followed.
    read: usize,
    /// What the next token is compared with.
    at: Option<usize>,
    /// Tokens before `at` that agree.
    agreed: usize,
    /// The last certain place: what comes before it is done with.
    certain: usize,
    /// Tokens since then.
    diverged: usize,
}

impl Prediction {
    /// The output, which begins after `num_prompt_tokens`, is expected to be like `expected`, from the start.
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

    /// Compares the last token of the output with the expected one.
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

    /// Where the output goes on in the expected text, and how many tokens before that agree.
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Rounds until `output` is written, with `most` draft tokens each.
    fn rounds(expected: &[u32], output: &[u32], most: usize) -> usize {
        let prompt = [900, 901, 902];
        let mut prediction = Prediction::new(expected.to_vec(), prompt.len());
        let mut tokens = prompt.to_vec();
        let whole = [&prompt, output].concat();
        for round in 0.. {
            if tokens == whole {
                return round;
            }
            let Draft::Tokens(draft) = prediction.draft(&tokens, 100) else { panic!("a prediction has no model") };
            let rest = &whole[tokens.len()..];
            let accepted = draft.iter().take(most.min(rest.len() - 1)).zip(rest).take_while(|(a, b)| a == b).count();
            tokens.extend_from_slice(&rest[..=accepted]);
        }
        unreachable!("a round emits a token")
    }

    /// Twelve lines of ten tokens: an indentation, words of which some come often, a line end.
    fn text() -> Vec<u32> {
        let line = |i: u32| [1, 2, 100 + i, 3, 200 + i, 4, 300 + i % 3, 5, 400 + i % 2, 6];
        (0..12).flat_map(line).collect()
    }

    fn optimal(tokens: usize, most: usize) -> usize {
        tokens.div_ceil(most + 1)
    }

    #[test]
    fn an_exact_prediction_takes_the_fewest_rounds() {
        for most in [1, 4, 10, 31] {
            assert_eq!(rounds(&text(), &text(), most), optimal(text().len(), most));
        }
    }

    #[test]
    fn a_renamed_word_costs_one_round_each_time() {
        let renamed: Vec<u32> = text().into_iter().map(|id| if id == 300 { 77 } else { id }).collect();
        let places = text().iter().filter(|&&id| id == 300).count();
        assert!(rounds(&text(), &renamed, 31) <= optimal(120, 31) + places);
    }

    #[test]
    fn a_word_renamed_to_more_or_fewer_tokens_costs_a_few_rounds() {
        for (from, to) in
            [(&[300][..], &[77, 78][..]), (&[300, 5], &[77]), (&[300, 5], &[77, 78]), (&[300], &[77, 78, 79])]
        {
            let text = text();
            let at = text.windows(from.len()).position(|window| window == from).unwrap();
            let renamed = [&text[..at], to, &text[at + from.len()..]].concat();
            let rounds = rounds(&text, &renamed, 31);
            assert!(rounds <= optimal(120, 31) + 1 + to.len(), "{from:?} to {to:?}: {rounds}");
        }
    }

    #[test]
    fn an_inserted_line_costs_its_tokens_and_two_rounds() {
        for line in [[1, 2, 50, 51, 52, 53, 54, 55, 56, 6], [1, 2, 50, 3, 51, 4, 300, 5, 52, 6]] {
            let inserted = [&text()[..40], &line, &text()[40..]].concat();
            let rounds = rounds(&text(), &inserted, 31);
            assert!(rounds <= optimal(120, 31) + line.len() + 2, "{rounds}");
        }
    }

    #[test]
    fn a_deleted_line_costs_two_rounds() {
        for lines in [1, 3] {
            let deleted = [&text()[..40], &text()[40 + 10 * lines..]].concat();
            let rounds = rounds(&text(), &deleted, 31);
            assert!(rounds <= optimal(120 - 10 * lines, 31) + 2, "{rounds}");
        }
    }

    #[test]
    fn a_prediction_of_another_text_costs_nothing_but_its_rows() {
        let output: Vec<u32> = (500..560).collect();
        assert_eq!(rounds(&text(), &output, 31), 60);
        assert_eq!(rounds(&[], &output, 31), 60);
    }

    #[test]
    fn an_output_that_begins_with_words_of_its_own_is_found() {
        let output = [&[70, 71, 72, 73, 74, 75][..], &text()].concat();
        assert!(rounds(&text(), &output, 31) <= 6 + 2 + optimal(120, 31));
    }

    #[test]
    fn chance_matches_do_not_lose_the_place() {
        // A word of the inserted text comes again at the very end of the expected one.
        let expected = [&text()[..], &[60, 61]].concat();
        let output = [&text()[..30], &[60, 80], &text()[30..], &[60, 61]].concat();
        assert!(rounds(&expected, &output, 31) <= optimal(124, 31) + 4);
    }
}
