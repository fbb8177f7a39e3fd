//! Prompts to tokens: the tokenizer, the chat template, and the model's limits.

use crate::error::{Error, Result};
use crate::model::TokenSpec;
use crate::options::{ChatOptions, GenerateOptions, SamplingOptions};
use crate::text::{ChatInput, ChatTemplate, Message, Tokenizer};
use serde_json::Value;
use std::rc::Rc;

/// Text, tokens or messages to continue.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Prompt {
    /// Plain text; special tokens written in it are recognised.
    Text(String),
    /// Token ids.
    Tokens(Vec<u32>),
    /// Messages, rendered by the model's chat template.
    Chat(Vec<Message>),
}

impl From<&str> for Prompt {
    fn from(text: &str) -> Self {
        Self::Text(text.into())
    }
}

impl From<String> for Prompt {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<Vec<Message>> for Prompt {
    fn from(messages: Vec<Message>) -> Self {
        Self::Chat(messages)
    }
}

impl From<Vec<u32>> for Prompt {
    fn from(ids: Vec<u32>) -> Self {
        Self::Tokens(ids)
    }
}

impl Prompt {
    /// Reads a text, a list of token ids, or a list of messages.
    ///
    /// # Errors
    /// [`Error::BadOption`].
    pub fn from_json(given: Value) -> Result<Self> {
        match given {
            Value::String(text) => Ok(Self::Text(text)),
            Value::Array(list) if list.first().is_none_or(Value::is_number) => {
                list.iter().map(token).collect::<Result<_>>().map(Self::Tokens)
            }
            Value::Array(list) => list.into_iter().enumerate().map(message).collect::<Result<_>>().map(Self::Chat),
            other => bad(other, "a text, messages [{role, content}], or token ids"),
        }
    }
}

fn token(value: &Value) -> Result<u32> {
    value.as_u64().and_then(|id| id.try_into().ok()).map_or_else(|| bad(value, "token ids"), Ok)
}

/// Reads the message at index `at` of the list.
fn message((at, value): (usize, Value)) -> Result<Message> {
    Message::try_from(value).map_err(|error| match error {
        Error::BadOption { option, value, allowed } => {
            Error::BadOption { option, value: format!("message {at}: {value}"), allowed }
        }
        other => other,
    })
}

fn chat<'a>(messages: &'a [Message], options: &'a ChatOptions) -> ChatInput<'a> {
    let ChatOptions { tools, documents, chat_template_kwargs, continue_final_message, add_generation_prompt, .. } =
        options;
    ChatInput {
        messages,
        tools,
        documents,
        kwargs: Some(chat_template_kwargs),
        add_generation_prompt: add_generation_prompt.unwrap_or(!continue_final_message),
        continue_final_message: *continue_final_message,
    }
}

fn bad<T>(value: impl ToString, allowed: impl Into<String>) -> Result<T> {
    Err(Error::BadOption { option: "prompt".into(), value: value.to_string(), allowed: allowed.into() })
}

/// Settings of a model's files for prompts and sampling.
pub struct Prompts {
    pub tokenizer: Rc<Tokenizer>,
    pub template: Option<ChatTemplate>,
    pub sampling: SamplingOptions,
    pub spec: TokenSpec,
    /// Positions of the KV cache.
    pub context: usize,
}

impl Prompts {
    /// Makes the prompt settings of a model. Adds two tokens that end a text: the end-of-text token of the tokenizer's config and
    /// the end-of-turn token of the chat template. Fine-tunes of base models often have another one in `config.json`.
    pub fn new(
        tokenizer: Tokenizer,
        template: Option<ChatTemplate>,
        sampling: SamplingOptions,
        mut spec: TokenSpec,
        context: usize,
    ) -> Self {
        for id in template.iter().flat_map(|template| template.ends(&tokenizer)).flatten() {
            if tokenizer.is_special(id) && !spec.eos_token_id.contains(&id) {
                spec.eos_token_id.push(id);
            }
        }
        Self { tokenizer: Rc::new(tokenizer), template, sampling, spec, context }
    }

    /// Returns the tokens of a prompt.
    ///
    /// # Errors
    /// [`Error::BadOption`] for an empty prompt and for options that do not fit it, [`Error::BadTemplate`],
    /// [`Error::BadTokenizer`].
    pub fn encode(&self, prompt: &Prompt, options: &GenerateOptions) -> Result<Vec<u32>> {
        if let (Prompt::Text(_) | Prompt::Tokens(_), Some((option, value))) = (prompt, options.chat.given()) {
            let allowed = "none, unless the prompt is a list of messages".into();
            return Err(Error::BadOption { option: option.into(), value, allowed });
        }
        let is_empty_list = match prompt {
            Prompt::Text(_) => false,
            Prompt::Tokens(tokens) => tokens.is_empty(),
            Prompt::Chat(messages) => messages.is_empty(),
        };
        if is_empty_list {
            return bad("an empty list", "a text, or one message or token id, or more");
        }
        let mut tokens = match prompt {
            Prompt::Text(text) => self.tokenizer.encode(text, true)?,
            Prompt::Tokens(tokens) => tokens.clone(),
            Prompt::Chat(messages) => match &self.template {
                Some(template) => template.encode(&self.tokenizer, &chat(messages, &options.chat))?,
                None => return Err(Error::BadTemplate { reason: "the model has none; use a plain prompt".into() }),
            },
        };
        if tokens.is_empty() {
            tokens.extend(self.spec.bos_token_id);
        }
        match tokens.is_empty() {
            true => bad("an empty prompt", "one token or more"),
            false => self.known(tokens),
        }
    }

    /// Returns the bytes of each token, and the ids that end a text.
    pub fn vocabulary(&self) -> (Vec<Vec<u8>>, &[u32]) {
        (self.tokenizer.vocabulary(self.spec.vocab_size), &self.spec.eos_token_id)
    }

    /// Returns the tokens of a continuation of a prompt, given the prompt's tokens `head`.
    ///
    /// # Errors
    /// As [`Self::encode`], and [`Error::BadOption`] for messages.
    pub fn continuation(&self, head: &[u32], continuation: &Prompt) -> Result<Vec<u32>> {
        match continuation {
            Prompt::Text(text) => self.known(self.tokenizer.encode_behind(head, text)?),
            Prompt::Tokens(tokens) => self.known(tokens.clone()),
            Prompt::Chat(_) => bad("messages", "a text or token ids behind a prompt"),
        }
    }

    /// Returns the tokens if all of them are in the model's vocabulary.
    fn known(&self, tokens: Vec<u32>) -> Result<Vec<u32>> {
        let vocab = self.spec.vocab_size;
        match tokens.iter().find(|&&id| id as usize >= vocab) {
            Some(id) => bad(format!("token {id}"), format!("token ids below {vocab}")),
            None => Ok(tokens),
        }
    }
}
