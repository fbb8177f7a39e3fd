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
#![cfg_attr(
    not(feature = "internals"),
    allow(dead_code, unused_imports, reason = "the browser, the program and the tests use different parts")
)]

mod checkpoint;
#[cfg(feature = "cli")]
#[doc(hidden)]
pub mod cli;
mod constraint;
mod cpu;
mod decode;
mod device;
#[cfg(not(target_arch = "wasm32"))]
mod engine;
mod error;
#[cfg(not(target_arch = "wasm32"))]
mod files;
mod gpu;
#[cfg(feature = "grammar")]
mod grammar;
#[cfg(feature = "hub")]
mod hub;
mod load;
mod model;
mod options;
mod parallel;
#[cfg(feature = "internals")]
mod reference;
mod sample;
mod session;
#[cfg(feature = "simulator")]
pub mod simulate;
mod speculate;
mod target;
mod text;
#[cfg(target_arch = "wasm32")]
mod wasm;
mod weights;

pub use constraint::ResponseFormat;
#[cfg(not(target_arch = "wasm32"))]
pub use engine::{Answer, CancelToken, Chat, Engine, EngineBuilder, Writing};
pub use error::{Error, Result, WeightsRule};
pub use gpu::DeviceInfo;
pub use options::{
    Acceptance, Arithmetic, ArithmeticChoice, ChatOptions, ContextOptions, ContextPolicy, DeviceChoice, DoSample,
    DrafterChoice, DraftingOptions, GenerateOptions, KvDtype, LoadOptions, LookupRule, Pooling, SamplingOptions,
    SamplingValues, Schedule, Speculation, WeightDtype,
};
pub use session::{Embedding, FinishReason, Generation, Prompt, Score, Token, TokenLogprob};
pub use speculate::{Distributed, Origin, RoundsBy, Speculating, Stats, Times};
pub use text::Message;

/// The inside, for this crate's own tests: nothing here is stable.
#[cfg(feature = "internals")]
#[allow(missing_docs, reason = "each module says in its file what it is")]
pub mod internals {
    macro_rules! modules {
        ($($module:ident)*) => {
            $(pub mod $module {
                pub use crate::$module::*;
            })*
        };
    }

    modules! { checkpoint constraint cpu decode device gpu load model options parallel reference sample session speculate target text weights }
    #[cfg(feature = "grammar")]
    modules! { grammar }
    #[cfg(feature = "hub")]
    modules! { hub }
}

/// The README's example compiles.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;
