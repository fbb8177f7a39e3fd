//! A conversation as a chat template gets it, and how an answer that the caller began is continued.

use serde_json::{Map, Value};

use super::{Message, message::collect};
use crate::error::{Error, Result};

/// What stands where the caller's beginning of an answer ends; behind it a space, which templates that trim take away. As in
/// transformers.
pub(super) const END: &str = "CONTINUE_FINAL_MESSAGE_TAG ";

/// A conversation, and what else the template is given.
#[derive(Debug, Clone, Copy)]
pub struct Chat<'a> {
    /// The messages, oldest first.
    pub messages: &'a [Message],
    /// Functions that the model may call, described as the template wants it, mostly by JSON schemas.
    pub tools: &'a [Map<String, Value>],
    /// Texts that the model is to answer from.
    pub documents: &'a [Map<String, Value>],
    /// Other variables, by name.
    pub kwargs: Option<&'a Map<String, Value>>,
    /// Whether the prompt ends where an answer begins.
    pub add_generation_prompt: bool,
    /// Whether the last message is the beginning of the answer: the prompt ends with it.
    pub continue_final_message: bool,
}

impl<'a> Chat<'a> {
    /// Messages to be answered.
    pub fn new(messages: &'a [Message]) -> Self {
        let (add_generation_prompt, continue_final_message) = (true, false);
        Self { messages, tools: &[], documents: &[], kwargs: None, add_generation_prompt, continue_final_message }
    }

    /// Every string that the caller gave.
    pub(super) fn texts(&self) -> Vec<&'a str> {
        let mut found = Vec::new();
        let messages = self.messages.iter().map(Message::fields);
        messages
            .chain(self.tools)
            .chain(self.documents)
            .chain(self.kwargs)
            .for_each(|given| collect(given, &mut found));
        found
    }

    /// The beginning of the answer, where there is one.
    pub(super) fn beginning(&self) -> Result<Option<&'a Message>> {
        let option = "continue_final_message";
        match self.messages.last() {
            _ if !self.continue_final_message => Ok(None),
            _ if self.add_generation_prompt => refuse(
                option,
                "true",
                "false where add_generation_prompt is true: a prompt ends in one of the two ways",
            ),
            Some(last) if last.role() == "assistant" => Ok(Some(last)),
            _ => refuse(option, "true", "false unless the last message is the assistant's"),
        }
    }
}

/// The prompt up to where the beginning of the answer ends.
pub(super) fn until_the_end(mut text: String, beginning: &str) -> Result<String> {
    let Some(at) = text.rfind(END.trim_end()).filter(|_| text.contains(beginning.trim())) else {
        return refuse(
            "continue_final_message",
            "true",
            "false: the chat template does not show the last message as it is",
        );
    };
    let trimmed = !text[at..].starts_with(END);
    text.truncate(at);
    if trimmed {
        text.truncate(text.trim_end().len());
    }
    Ok(text)
}

pub(super) fn refuse<T>(option: &'static str, value: impl Into<String>, allowed: &str) -> Result<T> {
    Err(Error::BadOption { option: option.into(), value: value.into(), allowed: allowed.into() })
}
