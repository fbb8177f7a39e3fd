//! Language models on the user's own GPU, made fast by speculation: the text is the one that the target model alone
//! would have written, token for token.
//!
//! ```text
//!  config.json ──> model::ModelSpec ──> model::Plan ─┐
//!  *.safetensors ─> weights::Weights ────────────────┴─> decode::Model on the gpu::Gpu
//!
//!  prompt ─> text::Tokenizer ─> prefill ─┐
//!            ┌───────────────────────────┘
//!            v                                                                    session::rounds
//!      tokens ──> Drafter::draft ──> draft tokens ──┐
//!         │                                         v
//!         └────> pending token ──────────> Target::submit : 1 submission, and beside it what the round before emitted
//!                                          Target::finish : 1 readback
//!                                                   │ draft tokens, target's ids
//!                                                   v
//!            ┌──── emit <── accept : longest common prefix, then one token of the target's own
//!            v
//!      text::TextStream ─> text::StopStrings ─> the caller
//! ```
//!
//! Start reading at [`session`]; the rules of acceptance are in [`speculate`].

#![forbid(unsafe_code)]

pub mod checkpoint;
#[cfg(feature = "cli")]
pub mod cli;
pub mod constraint;
pub mod cpu;
pub mod decode;
pub mod device;
pub mod error;
pub mod gpu;
#[cfg(feature = "grammar")]
pub mod grammar;
#[cfg(feature = "hub")]
pub mod hub;
mod load;
pub mod model;
pub mod options;
pub mod parallel;
pub mod reference;
pub mod sample;
pub mod session;
pub mod simulate;
pub mod speculate;
pub mod target;
pub mod text;
#[cfg(target_arch = "wasm32")]
pub mod wasm;
pub mod weights;

pub use checkpoint::Checkpoint;
pub use constraint::ResponseFormat;
pub use device::Device;
pub use error::{Error, Result};
pub use gpu::{Gpu, GpuOptions, KvDtype};
pub use load::{Inspection, ModelFiles, Share, Tensors};
pub use options::{DoSample, GenerateOptions, LoadOptions, LookupRule, Schedule, Speculation};
pub use session::{FinishReason, Generation, Progress, Prompt, Session, Token};
pub use speculate::{Origin, Stats};
pub use text::Message;

/// The README's example compiles.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;
