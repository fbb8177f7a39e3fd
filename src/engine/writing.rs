//! A text that is being written.

use super::answer::broken_down;
use super::chat::Reply;
use super::{Engine, Worker};
use crate::error::Result;
use crate::options::GenerateOptions;
use crate::session::{Generation, Progress, Prompt, Token};
use futures_channel::mpsc::{UnboundedReceiver, unbounded};
use futures_core::Stream;
use std::future::poll_fn;
use std::ops::ControlFlow;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

/// Ends a text from anywhere; clones end the same one.
#[derive(Debug, Clone, Default)]
pub struct CancelToken(Arc<Cancelling>);

#[derive(Debug, Default)]
struct Cancelling {
    is_cancelled: AtomicBool,
    /// What writes the text, which may wait for a server.
    task: Mutex<Option<Waker>>,
}

impl CancelToken {
    /// The text ends behind the token that comes next, or before its first one; where a server is waited for, at once.
    pub fn cancel(&self) {
        self.0.is_cancelled.store(true, Ordering::SeqCst);
        let task = self.0.task.lock().unwrap_or_else(PoisonError::into_inner).take();
        task.into_iter().for_each(Waker::wake);
    }

    /// Wakes this task where it is called.
    fn wakes(&self, task: &Waker) {
        *self.0.task.lock().unwrap_or_else(PoisonError::into_inner) = Some(task.clone());
    }

    /// Whether it was called.
    pub fn is_cancelled(&self) -> bool {
        self.0.is_cancelled.load(Ordering::SeqCst)
    }
}

enum Event {
    Token(Token),
    End(Box<Result<Generation>>),
}

/// A text that is being written: an iterator that blocks and a stream that does not, both of its tokens. Dropping it ends the text; of an
/// answer in a [`Chat`](super::Chat), what there is of it stays in the conversation.
#[must_use = "dropping it ends the text"]
pub struct Writing<'chat> {
    events: UnboundedReceiver<Event>,
    cancel: CancelToken,
    generation: Option<Generation>,
    has_ended: bool,
    reply: Option<Reply<'chat>>,
    /// The thread that writes it, which lives until it is done.
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
        // What comes of it is the last event; without one, the thread broke down.
        drop(engine.call(move |writer| {
            let mut hear = |progress: Progress<'_>| {
                if let Progress::Token(token) = progress {
                    // Nobody listens any more: then it was cancelled, too.
                    let _ = sender.unbounded_send(Event::Token(token.clone()));
                }
                if cancelled.is_cancelled() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            };
            let mut generating = pin!(writer.generate(&prompt, &options, &mut hear));
            let generation = pollster::block_on(poll_fn(|context| {
                cancelled.wakes(context.waker());
                generating.as_mut().poll(context)
            }));
            let _ = sender.unbounded_send(Event::End(Box::new(generation)));
            Ok(())
        }));
        Self { events, cancel, generation: None, has_ended: false, reply, _worker: engine.worker.clone() }
    }

    /// What ends it, for other threads.
    pub fn cancel_token(&self) -> CancelToken {
        self.cancel.clone()
    }

    /// Blocks until the text is complete.
    ///
    /// # Errors
    /// [`BadOption`](crate::Error::BadOption), [`ContextFull`](crate::Error::ContextFull), [`GpuBlocked`](crate::Error::GpuBlocked), and
    /// what text and device report; [`Internal`](crate::Error::Internal) where the engine's thread broke down.
    pub fn wait(self) -> Result<Generation> {
        pollster::block_on(self.complete())
    }

    /// The complete text.
    ///
    /// # Errors
    /// As [`Writing::wait`].
    pub async fn complete(mut self) -> Result<Generation> {
        while let Some(token) = self.next_token().await {
            token?;
        }
        self.generation.take().ok_or_else(broken_down)
    }

    /// The next token; none behind the last one.
    ///
    /// # Errors
    /// As [`Writing::wait`], once.
    pub async fn next_token(&mut self) -> Option<Result<Token>> {
        poll_fn(|context| Pin::new(&mut *self).poll_next(context)).await
    }

    /// What came of it, once the last token was taken.
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
                Some(Event::Token(token)) => {
                    if let Some(reply) = &mut self.reply {
                        reply.hear(&token.text);
                    }
                    return Some(Ok(token));
                }
                Some(Event::End(end)) => *end,
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
