//! How a prompt is continued.

use super::declare::options;
use super::read::{bad, read};
use super::{ChatOptions, DraftingOptions, SamplingOptions};
use crate::constraint::ResponseFormat;
use crate::error::Result;
use serde::Deserializer;

impl GenerateOptions {
    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// The defaults, with what an object has in their place, by the names of the options alone; null leaves the default.
    ///
    /// # Errors
    /// [`Error::BadOption`](crate::Error::BadOption) for an unknown name, or a value of another type.
    pub fn read<'de>(from: impl Deserializer<'de>) -> Result<Self> {
        read(from)
    }

    /// Whether every value is in its range.
    ///
    /// # Errors
    /// [`Error::BadOption`](crate::Error::BadOption) with the allowed range.
    pub fn validate(&self) -> Result<()> {
        if self.max_new_tokens == 0 {
            return bad("max_new_tokens", 0, "1 or more");
        }
        if self.min_new_tokens > self.max_new_tokens {
            return bad("min_new_tokens", self.min_new_tokens, "0 to max_new_tokens");
        }
        if self.stop.iter().any(String::is_empty) {
            return bad("stop", "an empty text", "texts of one character or more");
        }
        if self.top_logprobs > MAX_TOP_LOGPROBS {
            return bad("top_logprobs", self.top_logprobs, "0 to 20");
        }
        if self.top_logprobs > 0 && !self.logprobs {
            return bad("top_logprobs", self.top_logprobs, "0, unless logprobs is true");
        }
        self.sampling.validate()?;
        self.drafting.validate()
    }
}

options! {
    /// How to continue a prompt. The groups are fields; the methods set the options of all groups.
    ///
    /// ```
    /// use foretoken::{GenerateOptions, Schedule};
    ///
    /// let options = GenerateOptions::new().max_new_tokens(200).do_sample(true).temperature(0.7);
    /// assert_eq!(options.sampling.temperature, Some(0.7));
    /// assert_eq!(options.drafting.num_assistant_tokens_schedule, Schedule::Adaptive);
    /// ```
    pub struct GenerateOptions set by GenerateOptions {
        /// Most tokens to generate.
        max_new_tokens: usize = 256,
        /// No end-of-text token before this many tokens; a stop text, or a complete `response_format`, ends the text all the same.
        min_new_tokens: usize = 0,
        /// Texts that end the generation; they are not part of the result.
        stop: Vec<String> = Vec::new(),
        /// Whether the text leaves special tokens out. The one that ends it is never in it.
        skip_special_tokens: bool = true,
        /// Which form the text is to have: only tokens that it allows are chosen, and the text ends where nothing can follow. A
        /// text that is cut by `max_new_tokens` is the beginning of one.
        response_format: Option<ResponseFormat> = None,
        /// Whether log-probabilities of the tokens are told: those of the model itself, before penalties, temperature and filters.
        logprobs: bool = false,
        /// Of how many of the most likely tokens in each place besides; at most 20.
        top_logprobs: usize = 0,
    } with {
        /// How tokens are chosen.
        sampling: SamplingOptions,
        /// Who drafts, and how much.
        drafting: DraftingOptions,
        /// What is of chats alone.
        chat: ChatOptions,
    }
}

/// Most tokens of which log-probabilities are told in one place, besides the chosen one; as in OpenAI's API and in vLLM.
pub const MAX_TOP_LOGPROBS: usize = 20;
