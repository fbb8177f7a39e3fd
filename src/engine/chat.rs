//! A conversation: what was said, and how it goes on.

use super::{Engine, Writing};
use crate::error::{Error, Result};
use crate::options::GenerateOptions;
use crate::session::Prompt;
use crate::text::Message;

/// A conversation with a model. A clone goes its own way from there.
#[derive(Clone)]
pub struct Chat {
    engine: Engine,
    options: GenerateOptions,
    messages: Vec<Message>,
}

impl Chat {
    pub(super) fn new(engine: Engine, options: GenerateOptions) -> Self {
        Self { engine, options, messages: Vec::new() }
    }

    /// The same, behind a message of the system, or other messages.
    #[must_use]
    pub fn with_messages(mut self, messages: impl IntoIterator<Item = Message>) -> Self {
        self.messages.extend(messages);
        self
    }

    /// What was said, the oldest first.
    pub fn messages(&self) -> &[Message] {
        &self.messages
    }

    /// Forgets all but the first so many messages.
    pub fn truncate(&mut self, len: usize) {
        self.messages.truncate(len);
    }

    /// The user says something, and the model answers. Where nothing comes of that, the message is taken back.
    pub fn send(&mut self, message: impl Into<String>) -> Writing<'_> {
        self.messages.push(Message::new("user", message));
        self.answer(None)
    }

    /// The model answers once more; where nothing comes of that, its former answer stays.
    ///
    /// # Errors
    /// [`Error::BadOption`] where the last message is no answer.
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

/// Where an answer belongs, once there is no more of it.
pub(super) struct Reply<'chat> {
    messages: &'chat mut Vec<Message>,
    /// The answer that this one replaces.
    former: Option<Message>,
    text: String,
}

impl Reply<'_> {
    /// The answer goes on.
    pub fn hear(&mut self, text: &str) {
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
