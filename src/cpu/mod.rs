//! The CPU as a device: the same plan, interpreted, and a [`crate::decode::Target`] made of it.
//!
//! A product of two rows is summed in one order, whatever else is computed beside it, and each row attends to its own positions, in
//! their order: so a row's bits depend on its token, its position and the tokens before it alone, as on the GPU.

mod attention;
mod engine;
mod matrix;
mod model;
mod parts;
mod pointwise;
mod rows;
mod simd;

pub use engine::Engine;
pub use model::Model;
