//! Logits -> a distribution -> a token: transformers' processors in their order. Noise depends only on seed, position and token, so a
//! seed gives the same text however it was computed.

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

/// Rules of token choice for target and draft model.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Sampling {
    /// Processors of the logits.
    pub processors: Processors,
    /// Method to choose a token from processed logits.
    pub draw: Draw,
    /// Key of the noise.
    pub seed: u64,
    /// Probability below which a token ends the draft; 0: none.
    pub confidence: f32,
    /// Most likely tokens to report; `None`: no log-probabilities.
    pub logprobs: Option<usize>,
}

/// Method to choose a token from processed logits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Draw {
    /// The largest logit.
    #[default]
    Greedy,
    /// The largest logit plus noise that target and draft model share: [`draw`].
    Coupled,
    /// Separate noise. The target accepts by [`accepts`], or draws from [`recovered`].
    Rejection,
}

/// Independent streams of noise for the same position and token.
pub mod stream {
    /// Noise of the target's draws.
    pub const TARGET: u32 = 0;
    /// Noise of the draft model's draws, if separate.
    pub const DRAFT: u32 = 1;
    /// Noise that decides which draft tokens are accepted.
    pub const ACCEPTANCE: u32 = 2;
}

/// Draws the token of a position: the argmax of processed logits plus Gumbel noise, which samples their softmax exactly
/// (Gumbel 1954; Maddison et al. 2014, "A* Sampling"). The lowest id wins a tie.
///
/// Draft model and target share the noise, so they agree often. A draft token is accepted if and only if the target draws it too
/// (Daliri, Musco, Suresh 2024, "Coupling without communication").
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
