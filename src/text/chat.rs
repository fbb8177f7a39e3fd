//! Conversations as input of a chat template, and answers whose beginning the caller supplies.

use serde_json::{Map, Value};

use super::{Message, message::collect};
use crate::error::{Error, Result};

/// Marks the end of the caller's beginning of an answer, as in transformers. Templates that trim the text remove the space at the end.
pub(super) const END: &str = "CONTINUE_FINAL_MESSAGE_TAG ";

/// Conversation and other input of the template.
#[derive(Debug, Clone, Copy)]
pub struct ChatInput<'a> {
    /// Messages, oldest first.
    pub messages: &'a [Message],
    /// Functions that the model may call, in the form that the template expects, mostly JSON schemas.
    pub tools: &'a [Map<String, Value>],
    /// Texts for the model to answer from.
    pub documents: &'a [Map<String, Value>],
    /// Other variables, by name.
    pub kwargs: Option<&'a Map<String, Value>>,
    /// True if the prompt ends with the start of an answer.
    pub add_generation_prompt: bool,
    /// True if the last message is the beginning of the answer. The prompt then ends with that message.
    pub continue_final_message: bool,
}

impl<'a> ChatInput<'a> {
    /// Creates a chat whose last message is to be answered.
    pub fn new(messages: &'a [Message]) -> Self {
        let (add_generation_prompt, continue_final_message) = (true, false);
        Self { messages, tools: &[], documents: &[], kwargs: None, add_generation_prompt, continue_final_message }
    }

    /// Returns every string that the caller supplied.
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

    /// Returns the message that begins the answer, if there is one.
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

/// Cuts the prompt at the end of the answer's beginning.
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
