//! Kernels on a software adapter, and their twins in plain Rust.

mod experts;
mod kernels;
mod sample;
mod sampler;
mod shaders;
mod traffic;
