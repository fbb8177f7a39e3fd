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
mod rows;
mod simd;
mod snapshot;
mod turn;

use crate::gpu::DeviceInfo;
use std::sync::LazyLock;

pub use engine::Engine;
pub use matrix::Matrix;
pub use model::Model;
pub use rows::Rows;
pub use snapshot::Snapshot;

/// The processor.
pub fn info() -> &'static DeviceInfo {
    static INFO: LazyLock<DeviceInfo> = LazyLock::new(|| {
        let threads = parts::threads();
        DeviceInfo {
            name: format!("CPU with {threads} {}", if threads == 1 { "thread" } else { "threads" }),
            backend: "Cpu".into(),
            driver: simd::level(),
            max_buffer_size: isize::MAX as u64,
            max_binding_size: isize::MAX as u64,
            software: true,
        }
    });
    &INFO
}
