//! The only code that uses wgpu: device and limits, kernels, buffers, recording, readback.

mod buffers;
#[cfg(target_arch = "wasm32")]
mod compile;
mod counters;
mod device;
mod fragments;
mod kernels;
mod readback;
mod record;
mod wait;

pub use crate::options::{Arithmetic, KvDtype};
pub use buffers::{Buffer, Slice, Uniforms};
pub use counters::Counters;
pub use device::{DeviceFailure, DeviceInfo, Gpu, GpuOptions};
pub use kernels::{Epilogue, Epilogues, Kernel, Noise, Subnormals, Tokens};
pub use readback::Readback;
pub use record::{Call, Prepared, Recorder, Submitted, split_grid};
pub use wait::Done;
