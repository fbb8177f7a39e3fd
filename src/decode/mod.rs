//! A model that can step and roll back: the [`Target`] trait, and models on the GPU that implement it.

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
mod target;
mod translate;
mod upload;

pub use dims::Step;
pub use engine::Engine;
pub use forward::{Blueprint, Model};
pub use invariance::Variants;
pub use memory::{Capacity, Memory};
pub use round::{BIAS_WORDS, MAX_AFTER, RoundBuffers};
pub use sampler::{DRAFT_MODEL, bias_words};
pub use target::{Draft, MAX_DRAFT, Target, Timings, Verified};
pub use translate::Translate;
#[cfg(not(target_arch = "wasm32"))]
pub(crate) use translate::Translation;
#[cfg(not(target_arch = "wasm32"))]
pub(crate) use upload::{stored_rows, vector};
