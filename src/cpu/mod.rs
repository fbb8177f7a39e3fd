//! The CPU as a device: the same plan, interpreted, and a [`crate::target::Target`] made of it.
//!
//! A product of two rows is summed in one order, whatever else is computed beside it, and each row attends to its own positions, in
//! their order: so a row's bits depend on its token, its position and the tokens before it alone, as on the GPU.

mod attention;
mod engine;
mod floats;
mod instructions;
mod integers;
mod matrix;
mod model;
mod parts;
mod pointwise;
mod processor;
mod rows;
mod share;
mod simd;
mod snapshot;
mod team;
mod turn;

pub use engine::Engine;
pub use matrix::Matrix;
pub use model::Model;
pub use processor::Processor;
pub use rows::Rows;
pub use share::{Question, Share, What, Words};
pub use snapshot::Snapshot;
pub use team::{Distributed, Full, Others, Team};
