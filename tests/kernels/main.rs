//! Kernels on a software adapter, and their twins in plain Rust.

mod kernels;
mod sample;
mod sampler;
mod shaders;
mod traffic;
