//! START HERE. A session continues a prompt: prefill, then rounds of draft, verify, accept and emit, until the text ends.
//! ARCHITECTURE.md, "Overview", draws it.

mod call;
mod constrained;
mod emit;
mod generator;
mod logprobs;
mod measure;
mod prompt_cache;
mod prompts;
mod rounds;
mod saved;
pub(crate) mod setup;
pub mod shift;
mod single;
mod timing;

use crate::speculate::{Origin, Stats};
pub(crate) use call::TextCall;
pub use emit::Sink;
pub(crate) use emit::{Emitter, unless_cancelled};
pub use generator::{Executor, Generator};
pub use logprobs::TokenLogprob;
pub use measure::{Embedding, Score};
pub(crate) use prompt_cache::PromptCache;
pub use prompts::Prompt;
pub(crate) use prompts::Prompts;
pub use rounds::{Run, rounds};
use serde::Serialize;
pub(crate) use setup::Learned;
pub use setup::other_device;
pub use single::Single;
pub(crate) use single::{Building, Origination};

/// A loaded model pair on one device.
pub type Session = Generator<Single>;

/// Event passed to the callback of a running generation; each call may abort the generation.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Progress<'a> {
    /// The target has read `done` prompt tokens, cached ones included. A prompt of one chunk is not reported. A draft model reads
    /// the prompt after the target; meanwhile `done` equals `of`.
    Prefill {
        /// Tokens read.
        done: usize,
        /// Tokens to read: all but the prompt's last token.
        of: usize,
    },
    /// A new token.
    Token(&'a Token),
    /// No new data yet from a target on a server, or of a long pass on the CPU. To abort, wake the task: then this event is reported again.
    Waiting,
}

/// A generated token.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Token {
    /// Token id.
    pub id: u32,
    /// Text that the token completes: empty in the middle of a character, or while a stop string may have begun.
    pub text: String,
    /// Source of the token.
    pub origin: Origin,
    /// Log-probabilities of the token and of the most likely alternatives, if requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub logprobs: Option<TokenLogprob>,
}

/// Reason for the end of a generation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[non_exhaustive]
#[serde(rename_all = "snake_case")]
pub enum FinishReason {
    /// An end-of-text token or a stop string, or the `response_format` is complete.
    Stop,
    /// `max_new_tokens` reached, or the context is full.
    Length,
    /// Aborted by the caller.
    Aborted,
}

/// A finished generation.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Generation {
    /// Text without the token or string that ended it.
    pub text: String,
    /// All generated tokens, including the token that ended the text.
    pub token_ids: Vec<u32>,
    /// Log-probabilities of each token, if requested.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub logprobs: Vec<TokenLogprob>,
    /// Reason for the end.
    pub finish_reason: FinishReason,
    /// Statistics of the run.
    pub stats: Stats,
}
