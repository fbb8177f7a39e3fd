//! What is of chats alone.

use super::GenerateOptions;
use super::declare::options;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

options! {
    /// Of chats alone: what the model's template is given besides the messages, and what to do with a chat that is too long.
    pub struct ChatOptions set by GenerateOptions.chat {
        /// The functions that the model may call, described as its template wants it.
        tools: Vec<Map<String, Value>> = Vec::new(),
        /// Texts that the model is to answer from.
        documents: Vec<Map<String, Value>> = Vec::new(),
        /// Other variables of the template, such as `enable_thinking` or `date_string`.
        chat_template_kwargs: Map<String, Value> = Map::new(),
        /// Whether the last message, the assistant's, is the beginning of the answer.
        continue_final_message: bool = false,
        /// Whether the prompt ends where an answer begins. None: unless the last message is continued.
        add_generation_prompt: Option<bool> = None,
        /// What to do with a chat that is longer than the context.
        context: ContextPolicy = ContextPolicy::Error,
    }
}

impl ChatOptions {
    /// The first option given that means nothing where the prompt is no chat, and its value.
    pub(crate) fn given(&self) -> Option<(&'static str, String)> {
        let count = |list: usize| (list > 0).then(|| format!("{list} given"));
        let flag = |value: Option<bool>| value.map(|value| value.to_string());
        let given = [
            ("tools", count(self.tools.len())),
            ("documents", count(self.documents.len())),
            ("chat_template_kwargs", count(self.chat_template_kwargs.len())),
            ("continue_final_message", flag(self.continue_final_message.then_some(true))),
            ("add_generation_prompt", flag(self.add_generation_prompt)),
        ];
        given.into_iter().find_map(|(name, value)| Some((name, value?)))
    }
}

/// What to do with a chat that is longer than the context.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
#[serde(rename_all = "snake_case")]
pub enum ContextPolicy {
    /// An error that says so.
    Error,
    /// The oldest turns after the system message are dropped, until the chat and an answer of `max_new_tokens` (or of a
    /// quarter of the context) fit: about half of the chat at once, so that the next turns find the rest cached. The last
    /// turn stays: too long by itself, it is an error. So are a text and token ids, which have no turns.
    Shift,
}
