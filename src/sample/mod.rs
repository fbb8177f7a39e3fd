//! Logits -> a distribution -> a token: the processors of transformers in their order, and noise that depends on seed,
//! position and token alone, so that the same seed gives the same text however it was computed.

mod choose;
mod noise;
mod process;
mod reject;
mod report;

pub use choose::{choose, choose_draft};
pub use noise::{exponential, gumbel, threefry2x32, uniform};
pub use process::{Bias, Processors, mask, softmax};
pub use reject::{accepts, recovered};
pub use report::{log_sum_exp, most_likely};

use serde::{Deserialize, Serialize};

/// How tokens are chosen, by target and draft model alike.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Sampling {
    /// What is done to the logits.
    pub processors: Processors,
    /// How a token is taken from them.
    pub draw: Draw,
    /// Key of the noise.
    pub seed: u64,
    /// A draft ends behind a token that is less likely than this; 0: never.
    pub confidence: f32,
    /// Whether log-probabilities are told, and of how many of the most likely tokens.
    pub logprobs: Option<usize>,
}

/// How a token is taken from processed logits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Draw {
    /// The largest logit.
    #[default]
    Greedy,
    /// The largest logit plus noise that target and draft model share: [`draw`].
    Coupled,
    /// Each with noise of its own; the target accepts by [`accepts`], or takes from [`recovered`].
    Rejection,
}

/// Streams of noise: numbers of the same position and token that have nothing to do with each other.
pub mod stream {
    /// What the target draws with.
    pub const TARGET: u32 = 0;
    /// What the draft model draws with, where it has noise of its own.
    pub const DRAFT: u32 = 1;
    /// Which draft tokens are accepted.
    pub const ACCEPTANCE: u32 = 2;
}

/// Draws the token of a position: the argmax of processed logits plus Gumbel noise, which samples their softmax exactly
/// (Gumbel 1954; Maddison et al. 2014, "A* Sampling"). The lowest id wins a tie.
///
/// Draft model and target draw with the same noise, so they agree often, and a draft token is right if and only if it
/// is the one that the target draws (Daliri, Musco, Suresh 2024, "Coupling without communication").
pub fn draw(logits: &[f32], seed: u64, stream: u32, position: u32) -> u32 {
    let mut best = (f32::NEG_INFINITY, 0);
    for (token, &logit) in logits.iter().enumerate().filter(|(_, logit)| **logit > f32::NEG_INFINITY) {
        let score = logit - exponential(seed, stream, position, token as u32).ln();
        if score > best.0 {
            best = (score, token as u32);
        }
    }
    best.1
}
