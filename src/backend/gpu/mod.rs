//! Models on the GPU, and a [`crate::target::Target`] that runs them.

mod arithmetic;
mod bind;
mod commands;
mod dims;
mod engine;
mod forward;
mod invariance;
mod memory;
mod node;
mod read;
mod round;
mod sampler;
mod shape;
mod snapshot;
mod upload;
mod variants;

pub use engine::GpuBackend;
pub use forward::Model;
pub use round::{MAX_AFTER, RoundBuffers};
pub use sampler::bias_words;
pub use snapshot::Snapshot;
pub use variants::Variants;
