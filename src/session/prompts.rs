//! Prompts -> tokens: the tokenizer, the chat template, and what the model allows.

use super::Prompt;
use crate::error::{Error, Result};
use crate::model::ModelSpec;
use crate::text::{ChatTemplate, Tokenizer};
use std::rc::Rc;

/// What reads prompts for a model.
pub(crate) struct Prompts {
    pub tokenizer: Rc<Tokenizer>,
    pub template: Option<ChatTemplate>,
    pub spec: ModelSpec,
    /// Positions of the KV cache.
    pub context: usize,
}

impl Prompts {
    /// The tokens of a prompt.
    ///
    /// # Errors
    /// [`Error::BadOption`] for an empty prompt, [`Error::BadTemplate`], [`Error::BadTokenizer`].
    pub fn encode(&self, prompt: &Prompt) -> Result<Vec<u32>> {
        let mut tokens = match prompt {
            Prompt::Text(text) => self.tokenizer.encode(text, true)?,
            Prompt::Tokens(tokens) => tokens.clone(),
            Prompt::Chat(messages) => match &self.template {
                Some(template) => template.encode(&self.tokenizer, messages)?,
                None => return Err(Error::BadTemplate { reason: "the model has none; use a plain prompt".into() }),
            },
        };
        if tokens.is_empty() {
            tokens.extend(self.spec.bos_token_id);
        }
        let vocab = self.spec.vocab_size;
        let bad = |value: String, allowed: String| Err(Error::BadOption { option: "prompt".into(), value, allowed });
        match tokens.iter().find(|&&id| id as usize >= vocab) {
            Some(id) => bad(format!("token {id}"), format!("token ids below {vocab}")),
            None if tokens.is_empty() => bad("an empty prompt".into(), "one token or more".into()),
            None => Ok(tokens),
        }
    }
}
