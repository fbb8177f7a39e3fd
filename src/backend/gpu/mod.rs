//! Models on the GPU, and a [`crate::backend::Backend`] that runs them.

mod arithmetic;
mod backend;
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
mod upload;
mod variants;

pub use engine::GpuBackend;
pub use forward::GpuModel;
pub use memory::sampler_bytes;
pub use round::{MAX_AFTER, RoundBuffers};
pub use sampler::bias_words;
pub use variants::Variants;
