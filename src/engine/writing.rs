//! A generation in progress.

use super::answer::thread_ended;
use super::chat::Reply;
use super::{Engine, Worker, closed};
use crate::cancel::CancelToken;
use crate::error::Result;
use crate::options::GenerateOptions;
use crate::session::{Generation, Progress, Prompt, Token};
use futures_channel::mpsc::{UnboundedReceiver, unbounded};
use futures_core::Stream;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

enum WritingEvent {
    Prefill(PrefillProgress),
    Token(Token),
    End(Box<Result<Generation>>),
}

/// Progress of reading a prompt, reported after each chunk except the last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PrefillProgress {
    /// Prompt tokens read so far, cached ones included.
    pub loaded: usize,
    /// Prompt tokens to read.
    pub total: usize,
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
    on_progress: Box<dyn FnMut(PrefillProgress) + Send + 'chat>,
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
        let (cancelled, closing) = (cancel.clone(), engine.worker.closing.clone());
        // The last event is the result; if the channel closes without one, the thread has panicked.
        engine.worker.send(Box::new(move |generator| {
            let generation = generator.and_then(|generator| {
                let mut report = |progress: Progress<'_>| {
                    let event = match progress {
                        Progress::Token(token) => Some(WritingEvent::Token(token.clone())),
                        Progress::Prefill { done, of } => {
                            Some(WritingEvent::Prefill(PrefillProgress { loaded: done, total: of }))
                        }
                        Progress::Waiting => None,
                    };
                    // This fails only if the receiver was dropped, which also cancels.
                    event.into_iter().for_each(|event| drop(sender.unbounded_send(event)));
                    cancelled.flow()
                };
                let generating = generator.generate(&prompt, &options, &mut report);
                let generation = pollster::block_on(cancelled.watch(generating, closing.cancelled()));
                if closing.is_cancelled() { Err(closed()) } else { generation }
            });
            let _ = sender.unbounded_send(WritingEvent::End(Box::new(generation)));
        }));
        let (on_progress, _worker) = (Box::new(|_| ()), engine.worker.clone());
        Self { events, cancel, generation: None, has_ended: false, reply, on_progress, _worker }
    }

    /// Sets a callback for the progress of reading a long prompt, called while the first token is awaited.
    pub fn on_progress(mut self, report: impl FnMut(PrefillProgress) + Send + 'chat) -> Self {
        self.on_progress = Box::new(report);
        self
    }

    /// Returns a token that cancels the generation, for other threads.
    pub fn cancel_token(&self) -> CancelToken {
        self.cancel.clone()
    }

    /// Blocks until the text is complete.
    ///
    /// # Errors
    /// [`BadOption`](crate::Error::BadOption), [`ContextFull`](crate::Error::ContextFull),
    /// [`GpuBlocked`](crate::Error::GpuBlocked), and errors of text and device; [`Aborted`](crate::Error::Aborted) if the engine is
    /// closed; [`Internal`](crate::Error::Internal) if its thread has panicked.
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
        self.generation.take().ok_or_else(thread_ended)
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
        loop {
            let end = match ready!(Pin::new(&mut self.events).poll_next(context)) {
                Some(WritingEvent::Prefill(progress)) => {
                    (self.on_progress)(progress);
                    continue;
                }
                Some(WritingEvent::Token(token)) => {
                    if let Some(reply) = &mut self.reply {
                        reply.push(&token.text);
                    }
                    return Poll::Ready(Some(Ok(token)));
                }
                Some(WritingEvent::End(end)) => *end,
                None => Err(thread_ended()),
            };
            self.has_ended = true;
            return Poll::Ready(match end {
                Ok(generation) => {
                    self.generation = Some(generation);
                    None
                }
                Err(error) => Some(Err(error)),
            });
        }
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
