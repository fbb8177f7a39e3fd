//! A model that can step and roll back: the [`Target`] trait, and models on the GPU that implement it.

mod engine;
mod forward;
mod memory;
mod target;
mod upload;

pub use engine::Engine;
pub use forward::{Blueprint, Model, Step};
pub use memory::{Capacity, Memory};
pub use target::{Draft, MAX_DRAFT, Target, Verified};
pub use upload::{Matrix, Piece};
