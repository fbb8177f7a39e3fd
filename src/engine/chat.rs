//! A conversation: its messages, and the calls that continue it.

use super::{Engine, Writing};
use crate::error::{Error, Result};
use crate::options::GenerateOptions;
use crate::session::Prompt;
use crate::text::Message;

/// A conversation with a model. A clone is an independent branch.
#[derive(Clone)]
pub struct Chat {
    engine: Engine,
    options: GenerateOptions,
    messages: Vec<Message>,
}

impl Chat {
    pub(super) fn new(engine: Engine, mut options: GenerateOptions) -> Self {
        options.sampling.as_recommended();
        Self { engine, options, messages: Vec::new() }
    }

    /// Appends messages, such as a system message.
    #[must_use]
    pub fn with_messages(mut self, messages: impl IntoIterator<Item = Message>) -> Self {
        self.messages.extend(messages);
        self
    }

    /// Returns all messages, the oldest first.
    pub fn messages(&self) -> &[Message] {
        &self.messages
    }

    /// Drops all but the first `len` messages.
    pub fn truncate(&mut self, len: usize) {
        self.messages.truncate(len);
    }

    /// Sends a message of the user; the model answers. If the answer is empty, the message is removed again.
    pub fn send(&mut self, message: impl Into<String>) -> Writing<'_> {
        self.messages.push(Message::new("user", message));
        self.answer(None)
    }

    /// Replaces the last answer by a new one. If the new answer is empty, the former one is kept.
    ///
    /// # Errors
    /// [`Error::BadOption`] if the last message is not the assistant's.
    pub fn regenerate(&mut self) -> Result<Writing<'_>> {
        match self.messages.pop_if(|last| last.role() == "assistant") {
            Some(former) => Ok(self.answer(Some(former))),
            None => Err(Error::BadOption {
                option: "messages".into(),
                value: "no answer at the end".into(),
                allowed: "a conversation whose last message is the assistant's".into(),
            }),
        }
    }

    fn answer(&mut self, former: Option<Message>) -> Writing<'_> {
        let prompt = Prompt::Chat(self.messages.clone());
        let reply = Reply { messages: &mut self.messages, former, text: String::new() };
        Writing::begin(&self.engine, prompt, self.options.clone(), Some(reply))
    }
}

/// Answer in progress: added to the conversation when dropped.
pub(super) struct Reply<'chat> {
    messages: &'chat mut Vec<Message>,
    /// Answer that this one replaces.
    former: Option<Message>,
    text: String,
}

impl Reply<'_> {
    /// Appends text to the answer.
    pub fn push(&mut self, text: &str) {
        self.text.push_str(text);
    }
}

impl Drop for Reply<'_> {
    fn drop(&mut self) {
        if !self.text.is_empty() {
            self.messages.push(Message::new("assistant", std::mem::take(&mut self.text)));
        } else if let Some(former) = self.former.take() {
            self.messages.push(former);
        } else {
            self.messages.pop();
        }
    }
}
