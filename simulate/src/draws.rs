//! Random draws of the accepted draft tokens of each repeat, reproducible by seed.

use super::MOST;
use foretoken::{Error, Result};

/// Maximum number of draws: 80 MB.
const MOST_NUMBERS: usize = 10_000_000;

/// A uniform number in [0, 1) for every position of every repeat. Each position is a Latin hypercube sample: each of `repeats` equal
/// intervals contains one of its numbers. So the share of accepted tokens is exact at every position, up to one repeat, and means need far
/// fewer repeats than with independent draws.
#[derive(Debug, Clone)]
pub struct Draws {
    tokens: usize,
    numbers: Vec<f64>,
    /// Match lengths of [`Self::with_matches`].
    matches: Vec<usize>,
}

impl Draws {
    /// Draws numbers for texts of `tokens` tokens.
    ///
    /// # Errors
    /// [`Error::BadOption`] for 0 repeats or too many.
    pub fn new(tokens: usize, repeats: usize, seed: u64) -> Result<Self> {
        let most = (MOST_NUMBERS / tokens.max(1)).clamp(1, MOST);
        if !(1..=most).contains(&repeats) || tokens > MOST {
            let allowed = format!("1 to {most} for {tokens} tokens");
            return Err(Error::BadOption { option: "repeats".into(), value: repeats.to_string(), allowed });
        }
        let mut random = SplitMix(seed);
        let mut numbers = vec![0.0; tokens * repeats];
        let mut order: Vec<usize> = (0..repeats).collect();
        for position in 0..tokens {
            random.shuffle(&mut order);
            for (repeat, &interval) in order.iter().enumerate() {
                numbers[repeat * tokens + position] = (interval as f64 + random.uniform()) / repeats as f64;
            }
        }
        Ok(Self { tokens, numbers, matches: Vec::new() })
    }

    /// Composes texts of observed matches: `length` right tokens, then a wrong one. All matches are used in random order before any
    /// repeats. Without `lengths`, each token is right with the same probability.
    pub fn with_matches(self, lengths: &[usize]) -> Self {
        Self { matches: lengths.to_vec(), ..self }
    }

    /// Returns the number of texts.
    pub fn repeats(&self) -> usize {
        self.numbers.len() / self.tokens.max(1)
    }

    /// Returns for each repeat, by position, whether the drafter's token is right. With matches, `acceptance` is ignored.
    pub fn agreements(&self, acceptance: f64) -> impl Iterator<Item = Vec<bool>> {
        let repeats = self.numbers.chunks(self.tokens.max(1));
        repeats.map(move |numbers| {
            if self.matches.is_empty() {
                return numbers.iter().map(|&number| number < acceptance).collect();
            }
            let mut random = SplitMix(numbers[0].to_bits());
            let mut matches = self.matches.clone();
            let mut agreements = Vec::new();
            for at in (0..matches.len()).cycle() {
                if at == 0 {
                    random.shuffle(&mut matches);
                }
                let right = matches[at].min(numbers.len());
                agreements.extend(std::iter::repeat_n(true, right).chain([false]));
                if agreements.len() >= numbers.len() {
                    break;
                }
            }
            agreements.truncate(numbers.len());
            agreements
        })
    }
}

/// The SplitMix generator (Steele, Lea and Flood 2014).
pub(super) struct SplitMix(pub(super) u64);

impl SplitMix {
    pub(super) fn uniform(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }

    fn shuffle<T>(&mut self, all: &mut [T]) {
        for last in (1..all.len()).rev() {
            all.swap(last, (self.uniform() * (last + 1) as f64) as usize);
        }
    }
}
