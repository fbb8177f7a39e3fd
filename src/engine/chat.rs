//! A conversation: what was said, and how it goes on.

use super::{CancelToken, Engine, Writing};
use crate::error::{Error, Result};
use crate::options::GenerateOptions;
use crate::session::{Generation, Prompt, Token};
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
    pub fn send(&mut self, message: impl Into<String>) -> Turn<'_> {
        self.messages.push(Message::new("user", message));
        self.turn(None)
    }

    /// The model answers once more; where nothing comes of that, its former answer stays.
    ///
    /// # Errors
    /// [`Error::BadOption`] where the last message is no answer.
    pub fn regenerate(&mut self) -> Result<Turn<'_>> {
        match self.messages.pop_if(|last| last.role() == "assistant") {
            Some(former) => Ok(self.turn(Some(former))),
            None => Err(Error::BadOption {
                option: "messages".into(),
                value: "no answer at the end".into(),
                allowed: "a conversation whose last message is the assistant's".into(),
            }),
        }
    }

    fn turn(&mut self, former: Option<Message>) -> Turn<'_> {
        let writing = self.engine.generate(Prompt::Chat(self.messages.clone()), self.options.clone());
        Turn { chat: self, writing, former, text: String::new() }
    }
}

/// An answer that is being written: an iterator of its tokens. What there is of it when it is dropped stays in the conversation.
#[must_use = "dropping it ends the answer"]
pub struct Turn<'a> {
    chat: &'a mut Chat,
    writing: Writing,
    /// The answer that this one replaces.
    former: Option<Message>,
    text: String,
}

impl Turn<'_> {
    /// What ends it, for other threads.
    pub fn cancel_token(&self) -> CancelToken {
        self.writing.cancel_token()
    }

    /// Blocks until the answer is complete.
    ///
    /// # Errors
    /// As [`Writing::wait`].
    pub fn wait(self) -> Result<Generation> {
        pollster::block_on(self.complete())
    }

    /// The complete answer.
    ///
    /// # Errors
    /// As [`Writing::wait`].
    pub async fn complete(mut self) -> Result<Generation> {
        while let Some(token) = self.next_token().await {
            token?;
        }
        self.writing.generation().cloned().ok_or_else(super::answer::broken_down)
    }

    /// The next token; none behind the last one.
    ///
    /// # Errors
    /// As [`Writing::wait`], once.
    pub async fn next_token(&mut self) -> Option<Result<Token>> {
        let token = self.writing.next_token().await;
        if let Some(Ok(token)) = &token {
            self.text.push_str(&token.text);
        }
        token
    }
}

impl Iterator for Turn<'_> {
    type Item = Result<Token>;

    fn next(&mut self) -> Option<Self::Item> {
        pollster::block_on(self.next_token())
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let messages = &mut self.chat.messages;
        if !self.text.is_empty() {
            messages.push(Message::new("assistant", std::mem::take(&mut self.text)));
        } else if let Some(former) = self.former.take() {
            messages.push(former);
        } else {
            messages.pop();
        }
    }
}
