//! A model that can step and roll back: the [`Target`] trait, and models on the GPU that implement it.

mod bind;
mod dims;
mod engine;
mod forward;
mod memory;
mod node;
mod target;
mod upload;

pub use dims::Step;
pub use engine::Engine;
pub use forward::{Blueprint, Model};
pub use memory::{Capacity, Memory};
pub use target::{Draft, MAX_DRAFT, Target, Verified};
