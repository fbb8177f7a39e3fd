//! Logits -> a distribution -> a token: the processors of transformers in their order, and noise that depends on seed,
//! position and token alone, so that the same seed gives the same text however it was computed.

mod noise;
mod process;

pub use noise::{gumbel, threefry2x32};
pub use process::{Processors, softmax};

/// Draws the token of a position: the argmax of processed logits plus Gumbel noise, which samples their softmax exactly
/// (Gumbel 1954; Maddison et al. 2014, "A* Sampling"). The lowest id wins a tie.
///
/// Draft model and target draw with the same noise, so they agree often, and a draft token is right if and only if it
/// is the one that the target draws (Daliri, Musco, Suresh 2024, "Coupling without communication").
pub fn draw(logits: &[f32], seed: u64, position: u32) -> u32 {
    let mut best = (f32::NEG_INFINITY, 0);
    for (token, &logit) in logits.iter().enumerate().filter(|(_, logit)| **logit > f32::NEG_INFINITY) {
        let score = logit + gumbel(seed, position, token as u32);
        if score > best.0 {
            best = (score, token as u32);
        }
    }
    best.1
}
