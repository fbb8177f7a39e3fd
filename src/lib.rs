//! Language models on the user's own GPU, made fast by speculation: the text is the one that the target model alone
//! would have written, token for token.
//!
//! ```no_run
//! use foretoken::{Engine, GenerateOptions};
//!
//! let engine = Engine::builder("HuggingFaceTB/SmolLM2-1.7B-Instruct")
//!     .assistant_model("HuggingFaceTB/SmolLM2-135M-Instruct")
//!     .load()?;
//! let mut chat = engine.chat(GenerateOptions::new().max_new_tokens(200));
//! for token in chat.send("Why is the sky blue?") {
//!     print!("{}", token?.text);
//! }
//! # Ok::<(), foretoken::Error>(())
//! ```
//!
//! [`Engine`] is what programs use: a handle that any thread may hold, blocking or awaited. [`GenerateOptions`] say how a text is
//! written and who guesses, [`LoadOptions`] how models are loaded; [`Error`] what went wrong and what to do. The features: `hub`
//! (models by their names on the Hugging Face Hub), `cli` (the program).
//!
//! Underneath is a [`Session`], which belongs to one thread:
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
#[cfg(not(target_arch = "wasm32"))]
mod engine;
pub mod error;
#[cfg(not(target_arch = "wasm32"))]
mod files;
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
pub mod remote;
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
#[cfg(not(target_arch = "wasm32"))]
pub use engine::{Answer, CancelToken, Chat, Engine, EngineBuilder, Turn, Writing};
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
