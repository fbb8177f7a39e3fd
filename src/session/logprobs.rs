//! Log-probabilities as they are reported: with the texts of the tokens.

use crate::target::Logprobs;
use crate::text::Tokenizer;
use serde::Serialize;

/// A token and its log-probability, under OpenAI's names.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct TokenLogprob {
    /// Token id.
    pub id: u32,
    /// Text of the token alone; U+FFFD replaces partial characters.
    pub token: String,
    /// Bytes of the token. Characters may be split between consecutive tokens.
    pub bytes: Vec<u8>,
    /// Natural logarithm of its probability, from the model's unprocessed logits.
    pub logprob: f32,
    /// Most likely tokens at this position, in descending order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub top_logprobs: Vec<TokenLogprob>,
}

impl TokenLogprob {
    /// Describes the chosen token of a position and its alternatives.
    pub(super) fn new(tokenizer: &Tokenizer, id: u32, told: &Logprobs) -> Self {
        let of = |id: u32, logprob: f32| {
            let bytes = tokenizer.token_bytes(id).unwrap_or_default();
            Self { id, token: String::from_utf8_lossy(&bytes).into_owned(), bytes, logprob, top_logprobs: Vec::new() }
        };
        let top_logprobs = told.top.iter().map(|(id, logprob)| of(*id, *logprob)).collect();
        Self { top_logprobs, ..of(id, told.chosen) }
    }
}
