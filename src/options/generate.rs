//! Options of a generation.

use super::declare::{Options, options, read};
use super::value::bad;
use super::{ChatOptions, DraftingOptions, SamplingOptions};
use crate::constraint::ResponseFormat;
use crate::error::Result;
use serde_json::Value;

impl GenerateOptions {
    /// Returns the defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Reads options by name from an object, without groups. Missing and null options keep their defaults. `max_tokens` is OpenAI's name of
    /// `max_new_tokens`.
    ///
    /// # Errors
    /// [`Error::BadOption`](crate::Error::BadOption) for an unknown name, a value of another type, or two values of one option.
    pub fn from_json(mut given: Value) -> Result<Self> {
        const NAMES: [&str; 2] = ["max_tokens", "max_new_tokens"];
        if let Some(given) = given.as_object_mut()
            && let Some(most) = given.shift_remove(NAMES[0]).filter(|most| !most.is_null())
        {
            let own = given.entry(NAMES[1]).or_insert(Value::Null);
            if ![&Value::Null, &most].contains(&&*own) {
                return bad(NAMES[0], most, "the value of max_new_tokens, which is the same option");
            }
            *own = most;
        }
        read(&given)
    }

    /// Checks that every value is in its range.
    ///
    /// # Errors
    /// [`Error::BadOption`](crate::Error::BadOption) with the allowed range.
    pub fn validate(&self) -> Result<()> {
        self.check()?;
        if self.min_new_tokens > self.max_new_tokens {
            return bad("min_new_tokens", self.min_new_tokens, "0 to max_new_tokens");
        }
        if self.stop.iter().any(String::is_empty) {
            return bad("stop", "an empty text", "texts of one character or more");
        }
        if self.top_logprobs > 0 && !self.logprobs {
            return bad("top_logprobs", self.top_logprobs, "0, unless logprobs is true");
        }
        self.sampling.validate()?;
        self.drafting.validate()
    }
}

options! {
    /// Options of a generation. The groups are fields; the methods set the options of all groups.
    pub struct GenerateOptions set by GenerateOptions {
        /// Maximum number of tokens to generate.
        max_new_tokens: usize [1..] = 256,
        /// Forbid end-of-text tokens before this many tokens. Stop strings and a complete `response_format` can still end the
        /// text.
        min_new_tokens: usize = 0,
        /// Strings that end the text; they are not part of the result.
        stop: Vec<String> = Vec::new(),
        /// Omit special tokens from the text. The token that ends it is always omitted.
        skip_special_tokens: bool = true,
        /// Required form of the text: only tokens that it allows are chosen, and the text ends if nothing can follow. Tokens that
        /// the form leaves no choice about are drafted. A text cut by `max_new_tokens` is incomplete.
        response_format: Option<ResponseFormat> = None,
        /// Return the log-probability of each token, from the model's logits before penalties, temperature and filters.
        logprobs: bool = false,
        /// Also return the N most likely tokens at each position; requires `logprobs`.
        top_logprobs: usize [0..=MAX_TOP_LOGPROBS as u64] = 0,
    } with {
        /// Choice of tokens.
        sampling: SamplingOptions,
        /// Drafter and number of draft tokens.
        drafting: DraftingOptions,
        /// Options that apply only to chats.
        chat: ChatOptions,
    }
}

/// Maximum of `top_logprobs`, as in OpenAI's API and vLLM.
pub const MAX_TOP_LOGPROBS: usize = 20;
