//! Options that apply only to chats.

use super::GenerateOptions;
use super::choice::choice;
use super::declare::options;
use serde_json::{Map, Value};

options! {
    /// Options that apply only to chats: further inputs of the chat template, and the policy for chats that are too long.
    pub struct ChatOptions set by GenerateOptions.chat {
        /// Chats: functions that the model may call, in the form that its chat template expects.
        tools: Vec<Map<String, Value>> = Vec::new(),
        /// Chats: documents for the model to base its answer on.
        documents: Vec<Map<String, Value>> = Vec::new(),
        /// Chats: further template variables, such as `enable_thinking` or `date_string`.
        chat_template_kwargs: Map<String, Value> = Map::new(),
        /// Chats: continue the last message, which is the beginning of the assistant's answer.
        continue_final_message: bool = false,
        /// Chats: end the prompt where an answer begins.
        add_generation_prompt: Option<bool> = None => "true, unless the last message is continued",
        /// Chats: policy for messages that are longer than the context.
        context: ContextPolicy = ContextPolicy::Error,
    }
}

impl ChatOptions {
    /// Returns the first chat option that is set, and its value: these have no effect if the prompt is not a chat.
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

choice! {
    /// Policy for a chat that is longer than the context.
    pub enum ContextPolicy for "context" {
        /// Return an error.
        Error = "error",
        /// Drop the oldest turns after the system message.
        ///
        /// They are dropped until the chat and an answer of `max_new_tokens` (at most a quarter of the context) fit. About half of
        /// the chat is dropped at once, so that the next turns find the rest cached. The last turn is kept. It is an error if that
        /// is too long, or if the prompt is a text or token ids, which have no turns.
        Shift = "shift",
    }
}
