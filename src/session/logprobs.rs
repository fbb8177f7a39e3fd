//! Log-probabilities as they are told: with the tokens' texts.

use crate::target::Logprobs;
use crate::text::Tokenizer;
use serde::Serialize;

/// A token and how likely the model finds it, under OpenAI's names.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct TokenLogprob {
    /// Its id.
    pub id: u32,
    /// Its text by itself; U+FFFD stands for parts of characters.
    pub token: String,
    /// The bytes of that text: those of tokens that follow each other make whole characters.
    pub bytes: Vec<u8>,
    /// The natural logarithm of its probability, by the model's logits before they are processed.
    pub logprob: f32,
    /// The most likely tokens in its place, the most likely first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub top_logprobs: Vec<TokenLogprob>,
}

impl TokenLogprob {
    /// The chosen token of a place.
    pub(super) fn new(tokenizer: &Tokenizer, id: u32, told: &Logprobs) -> Self {
        let of = |id: u32, logprob: f32| {
            let bytes = tokenizer.token_bytes(id).unwrap_or_default();
            Self { id, token: String::from_utf8_lossy(&bytes).into_owned(), bytes, logprob, top_logprobs: Vec::new() }
        };
        let top_logprobs = told.top.iter().map(|(id, logprob)| of(*id, *logprob)).collect();
        Self { top_logprobs, ..of(id, told.chosen) }
    }
}
