//! Start with [`Engine`], the handle of a model.
#![doc = include_str!("../docs/library.md")]
//!
//! # Models
//!
//! A model is a folder (`config.json`, `*.safetensors`, `tokenizer.json`), a GGUF file or, with the feature `hub`, the name of a
//! model on the Hugging Face Hub: `owner/name`, `owner/name@revision`, `owner/name:file.gguf`. Downloads are kept in the cache of
//! Python's `huggingface_hub`. Set `HF_TOKEN` for gated models. [`Engine::builder`] sets everything else:
//!
//! ```no_run
//! use foretoken::{Engine, LoadOptions, WeightDtype};
//!
//! let engine = Engine::builder("HuggingFaceTB/SmolLM2-1.7B-Instruct")
//!     .assistant_model("HuggingFaceTB/SmolLM2-135M-Instruct")
//!     .options(LoadOptions::new().dtype(WeightDtype::Q4).max_context(8192))
//!     .on_progress(|done, all| eprint!("\r{done} of {all} bytes"))
//!     .load()?;
//! println!("on {}", engine.device().name);
//! for warning in engine.warnings() {
//!     eprintln!("{warning}");
//! }
//! # Ok::<(), foretoken::Error>(())
//! ```
//!
//! An [`Engine`] is a handle: any thread may hold and clone it. The models have their own thread, which answers calls in order.
//! Dropping the last clone frees the models.
//!
//! # Options
//!
//! [`GenerateOptions`] set how a text is generated, [`LoadOptions`] how a model is loaded. Both have chained methods and Hugging
//! Face's names, and can be read from JSON. The fields are in groups: [`SamplingOptions`], [`DraftingOptions`] and
//! [`ChatOptions`], and [`ContextOptions`] for loading.
//!
//! ```
//! let options = foretoken::GenerateOptions::new().do_sample(true).temperature(0.8).seed(7);
//! assert_eq!(options.sampling.seed, Some(7));
//! ```
//!
//! [`Engine::generate`] takes the most likely token by default; a [`Chat`] draws as the model's files recommend
//! (`do_sample(DoSample::Model)`). A temperature above 0 draws too. The same seed gives the same text, whichever drafter is used.
//!
//! # Streaming
//!
//! [`Engine::generate`] returns a [`Writing`], which is both a blocking iterator of [`Token`]s and an asynchronous
//! [`Stream`](futures_core::Stream). [`wait`](Writing::wait) and [`complete`](Writing::complete) return the whole [`Generation`].
//!
//! ```
//! use foretoken::{Engine, FinishReason, GenerateOptions};
//!
//! let engine = Engine::load("models/tales/target")?;
//! let options = GenerateOptions::new().max_new_tokens(400);
//! let mut story = engine.generate("Once upon a time", options);
//! let enough = story.cancel_token(); // for any other thread
//! let mut text = String::new();
//! for token in story.by_ref() {
//!     text += &token?.text;
//!     if text.len() > 20 {
//!         enough.cancel();
//!     }
//! }
//! let story = story.generation().expect("it has ended");
//! assert_eq!(story.finish_reason, FinishReason::Aborted);
//! # Ok::<(), foretoken::Error>(())
//! ```
//!
//! [`on_progress`](Writing::on_progress) reports the reading of a long prompt. A [`CancelToken`] also cancels a load.
//!
//! # Chats
//!
//! A [`Chat`] keeps the messages of a conversation; the model's chat template renders them. The conversation stays cached, even
//! while others alternate with it, so an answer reads only the new messages. A clone of a chat is a branch of it.
//!
//! ```
//! use foretoken::{Engine, GenerateOptions, Message};
//!
//! let engine = Engine::load("models/tales/target")?;
//! let options = GenerateOptions::new().max_new_tokens(8);
//! let system = Message::new("system", "You tell tales.");
//! let mut chat = engine.chat(options).with_messages([system]);
//! chat.send("Continue the tale: The fox went into the wood.").wait()?;
//! let mut branch = chat.clone();
//! let answer = branch.send("And then?").wait()?;
//! assert!(answer.stats.num_cached_tokens > 20);
//! assert_eq!((chat.messages().len(), branch.messages().len()), (3, 5));
//! # Ok::<(), foretoken::Error>(())
//! ```
//!
//! # Constrained text
//!
//! With the feature `grammar` a text can be constrained: only tokens that a [`ResponseFormat`] allows are chosen, here those of a
//! JSON schema. A constraint makes speculation faster: if it leaves no choice, the next tokens are known in advance.
//!
//! ```
//! use foretoken::{Engine, GenerateOptions, ResponseFormat};
//! use serde_json::json;
//!
//! # if cfg!(feature = "grammar") {
//! let engine = Engine::load("models/tales/target")?;
//! let form = ResponseFormat::json_schema(json!({ "enum": ["fox", "wolf", "hare"] }));
//! let options = GenerateOptions::new().response_format(form);
//! let answer = engine.generate("The old animal was a ", options).wait()?;
//! assert!(answer.text.starts_with('"'));
//! # }
//! # Ok::<(), foretoken::Error>(())
//! ```
//!
//! # Speculation
//!
//! Drafters are a small or a trained model ([`assistant_model`](EngineBuilder::assistant_model)), the MTP layer of some models,
//! lookups in this text and in earlier ones ([`lookup_memory`](LoadOptions::lookup_memory)), and a
//! [`prediction`](GenerateOptions::prediction) by the caller. The drafter and the number of draft tokens are chosen by measurement
//! during the text; if no drafter helps, none is used. [`DraftingOptions`] can override this. [`Stats`] report the results.
//!
//! [`Stats::speculating`] gives the choices and their reasons, [`Stats::times`] the time spent, [`Token::origin`] the source of a
//! token. With [`sp_degree`](LoadOptions::sp_degree) several instances of the model verify in parallel, each on its own GPU or all on the CPU. With
//! [`draft_device`](LoadOptions::draft_device) the CPU drafts while the GPU verifies. Both are distributed speculative inference.
//!
//! # Embeddings and scores
//!
//! ```
//! use foretoken::{Engine, Pooling};
//!
//! let engine = Engine::load("models/tales/target")?;
//! let text = "The fox went into the wood.";
//! let place = engine.embed(text, Pooling::Mean, true).wait()?;
//! let length: f32 = place.embedding.iter().map(|x| x * x).sum();
//! assert!((length - 1.0).abs() < 1e-4);
//! let scores = engine.score("Once upon a", [" time", " stone"]).wait()?;
//! assert!(scores[0].logprob > scores[1].logprob);
//! # Ok::<(), foretoken::Error>(())
//! ```
//!
//! # Errors
//!
//! Every failure is an [`Error`]. Its text gives the remedy, and its [`code`](Error::code) is stable. The engine stays usable
//! after an error. If the GPU is lost, it is set up again, and the text continues as if nothing had happened.
//!
//! # Features
//!
//! | feature | content |
//! |---|---|
//! | `hub` (on by default) | models of the Hugging Face Hub, by name |
//! | `grammar` | constrained texts: JSON schemas, regular expressions, grammars |
//! | `remote` | targets on vLLM or SGLang servers ([`EngineBuilder::target_url`]) |

mod backend;
mod cancel;
mod checkpoint;
mod constraint;
#[cfg(not(target_arch = "wasm32"))]
mod engine;
mod error;
#[cfg(not(target_arch = "wasm32"))]
mod files;
mod gpu;
#[cfg(feature = "grammar")]
mod grammar;
mod http;
#[cfg(feature = "hub")]
mod hub;
mod json;
mod load;
mod model;
mod options;
mod parallel;
mod sample;
mod session;
mod speculate;
mod target;
mod text;
mod weights;

pub use cancel::CancelToken;
pub use constraint::ResponseFormat;
#[cfg(not(target_arch = "wasm32"))]
pub use engine::{Answer, Chat, Engine, EngineBuilder, PrefillProgress, Writing};
pub use error::{Error, Result, WeightsRule};
pub use foretoken_dsi as dsi;
pub use gpu::DeviceInfo;
pub use options::{
    Acceptance, Arithmetic, ArithmeticChoice, ChatOptions, ContextOptions, ContextPolicy, DeviceChoice, DoSample,
    DrafterChoice, DraftingOptions, GenerateOptions, KvDtype, LoadOptions, LookupRule, Pooling, SamplingOptions,
    SamplingValues, Schedule, Speculation, UseMtp, WeightDtype,
};
pub use session::{Embedding, FinishReason, Generation, Prompt, Score, Token, TokenLogprob};
pub use speculate::{Distributed, Origin, RoundsBy, Speculating, Stats, Times};
pub use target::Traffic;
pub use text::Message;

/// Internal modules, for the program, the exports for JavaScript and the tests; nothing in them is stable. Rustdoc would check their links.
#[cfg(not(doc))]
#[doc(hidden)]
#[allow(missing_docs, reason = "each module says in its file what it is")]
pub mod internals {
    macro_rules! modules {
        ($($module:ident)*) => {
            $(pub mod $module {
                pub use crate::$module::*;
            })*
        };
    }

    modules! { backend checkpoint constraint gpu json load model options parallel sample session speculate target text weights }
    #[cfg(not(target_arch = "wasm32"))]
    modules! { files }
    #[cfg(feature = "grammar")]
    modules! { grammar }
    #[cfg(feature = "hub")]
    modules! { hub }
}

/// Compiles the examples of the documents.
#[cfg(all(doctest, feature = "testing"))]
#[doc = include_str!("../README.md")]
#[doc = include_str!("../docs/chat.md")]
#[doc = include_str!("../docs/drafters.md")]
#[doc = include_str!("../docs/json.md")]
pub struct Documents;
