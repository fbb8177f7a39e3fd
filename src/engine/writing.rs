//! A generation in progress.

use super::answer::broken_down;
use super::chat::Reply;
use super::{Engine, Worker};
use crate::error::Result;
use crate::options::GenerateOptions;
use crate::session::{CancelToken, Generation, Progress, Prompt, Token};
use futures_channel::mpsc::{UnboundedReceiver, unbounded};
use futures_core::Stream;
use std::future::{pending, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

enum WritingEvent {
    Token(Token),
    End(Box<Result<Generation>>),
}

/// A generation in progress: a blocking iterator and an asynchronous stream of its tokens. Dropping it cancels the generation; in
/// a [`Chat`](super::Chat) the part written so far stays in the conversation.
#[must_use = "dropping it ends the text"]
pub struct Writing<'chat> {
    events: UnboundedReceiver<WritingEvent>,
    cancel: CancelToken,
    generation: Option<Generation>,
    has_ended: bool,
    reply: Option<Reply<'chat>>,
    /// Thread that generates; kept alive until the generation ends.
    _worker: Arc<Worker>,
}

impl<'chat> Writing<'chat> {
    pub(super) fn begin(
        engine: &Engine,
        prompt: Prompt,
        options: GenerateOptions,
        reply: Option<Reply<'chat>>,
    ) -> Self {
        let (sender, events) = unbounded();
        let cancel = CancelToken::default();
        let cancelled = cancel.clone();
        // The last event is the result; if the channel closes without one, the thread has panicked.
        drop(engine.call(move |generator| {
            let mut hear = |progress: Progress<'_>| {
                if let Progress::Token(token) = progress {
                    // This fails only if the receiver was dropped, which also cancels.
                    let _ = sender.unbounded_send(WritingEvent::Token(token.clone()));
                }
                cancelled.flow()
            };
            let generating = generator.generate(&prompt, &options, &mut hear);
            let generation = pollster::block_on(cancelled.watch(generating, pending::<()>()));
            let _ = sender.unbounded_send(WritingEvent::End(Box::new(generation)));
            Ok(())
        }));
        Self { events, cancel, generation: None, has_ended: false, reply, _worker: engine.worker.clone() }
    }

    /// Returns a token that cancels the generation, for other threads.
    pub fn cancel_token(&self) -> CancelToken {
        self.cancel.clone()
    }

    /// Blocks until the text is complete.
    ///
    /// # Errors
    /// [`BadOption`](crate::Error::BadOption), [`ContextFull`](crate::Error::ContextFull),
    /// [`GpuBlocked`](crate::Error::GpuBlocked), and errors of text and device; [`Internal`](crate::Error::Internal) if the
    /// engine's thread has panicked.
    pub fn wait(self) -> Result<Generation> {
        pollster::block_on(self.complete())
    }

    /// Waits for the complete text.
    ///
    /// # Errors
    /// As [`Writing::wait`].
    pub async fn complete(mut self) -> Result<Generation> {
        while let Some(token) = self.next_token().await {
            token?;
        }
        self.generation.take().ok_or_else(broken_down)
    }

    /// Returns the next token; `None` after the last one.
    ///
    /// # Errors
    /// As [`Writing::wait`], but only once.
    pub async fn next_token(&mut self) -> Option<Result<Token>> {
        poll_fn(|context| Pin::new(&mut *self).poll_next(context)).await
    }

    /// Returns the generation, after its last token was taken.
    pub fn generation(&self) -> Option<&Generation> {
        self.generation.as_ref()
    }
}

impl Stream for Writing<'_> {
    type Item = Result<Token>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.has_ended {
            return Poll::Ready(None);
        }
        Pin::new(&mut self.events).poll_next(context).map(|event| {
            let end = match event {
                Some(WritingEvent::Token(token)) => {
                    if let Some(reply) = &mut self.reply {
                        reply.hear(&token.text);
                    }
                    return Some(Ok(token));
                }
                Some(WritingEvent::End(end)) => *end,
                None => Err(broken_down()),
            };
            self.has_ended = true;
            match end {
                Ok(generation) => {
                    self.generation = Some(generation);
                    None
                }
                Err(error) => Some(Err(error)),
            }
        })
    }
}

impl Iterator for Writing<'_> {
    type Item = Result<Token>;

    fn next(&mut self) -> Option<Self::Item> {
        pollster::block_on(self.next_token())
    }
}

impl Drop for Writing<'_> {
    fn drop(&mut self) {
        self.cancel.cancel();
    }
}
