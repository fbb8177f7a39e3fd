//! The CPU as a device: interprets the same plan as the GPU, with sums in one order, and offers it as a [`crate::backend::Backend`].

mod attention;
mod backend;
mod codes;
mod delta;
mod engine;
mod experts;
mod floats;
mod instructions;
mod integers;
mod kept;
mod layer;
mod matrix;
mod model;
mod parts;
mod pass;
mod pointwise;
mod processor;
mod rows;
mod scales;
mod share;
mod simd;
mod steps;
mod threads;
mod turn;

pub use engine::CpuBackend;
pub use matrix::Matrix;
pub use model::CpuModel;
pub use processor::Processor;
pub use rows::Rows;
pub use share::{MatrixOp, Question, Share, Words};
pub use steps::Matrices;
pub use threads::{DistributedMatrix, Full, Others, Threads};
