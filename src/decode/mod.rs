//! Models on the GPU, and a [`crate::target::Target`] that runs them.

mod arithmetic;
mod bind;
mod dims;
mod engine;
mod flight;
mod forward;
mod invariance;
mod memory;
mod node;
mod read;
mod round;
mod sampler;
mod snapshot;
mod upload;

pub use dims::Step;
pub use engine::Engine;
pub use forward::Model;
pub use invariance::Variants;
pub use round::{BIAS_WORDS, MAX_AFTER, RoundBuffers};
pub use sampler::bias_words;
pub use snapshot::Snapshot;
