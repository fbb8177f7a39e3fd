//! Turns tokens into text, applies stop strings, and calls the caller's callback.

use super::{FinishReason, Generation, Progress, Token, TokenLogprob};
use crate::constraint::Shared;
use crate::error::Result;
use crate::options::GenerateOptions;
use crate::speculate::{Origin, Stats};
use crate::target::Logprobs;
use crate::text::{StopStrings, TextStream, Tokenizer};
use std::future::poll_fn;
use std::ops::ControlFlow;
use std::pin::pin;
use std::task::Poll;

/// Receiver of emitted tokens.
pub trait Sink {
    /// Returns how many more tokens may be pushed.
    fn room(&self) -> usize;

    /// Receives the log-probabilities of the token pushed next, if requested.
    fn push_logprobs(&mut self, _logprobs: Logprobs) {}

    /// Takes a token; `last`: no token follows it. Breaks if no more tokens are needed.
    ///
    /// # Errors
    /// Errors of decoding the token's text.
    fn push(&mut self, id: u32, origin: Origin, last: bool) -> Result<ControlFlow<()>>;

    /// Returns how many of the tokens `fresh`, about to be pushed, complete the text after `before`; `None` if they do not
    /// complete it.
    ///
    /// # Errors
    /// Errors of a constraint.
    fn completes(&mut self, _before: &[u32], _fresh: &[u32]) -> Result<Option<usize>> {
        Ok(None)
    }

    /// Reports that `done` of `of` tokens of the text so far were read. Breaks to abort.
    fn prefilled(&mut self, _done: usize, _of: usize) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }

    /// Reports that the target is still awaited. Breaks to abort.
    fn waiting(&mut self) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }
}

/// Sink that turns tokens into text, applies stop strings, and calls the callback.
pub struct Emitter<'a> {
    tokenizer: &'a Tokenizer,
    on_progress: &'a mut dyn FnMut(Progress<'_>) -> ControlFlow<()>,
    stream: TextStream,
    stops: StopStrings,
    max_new_tokens: usize,
    min_new_tokens: usize,
    text: String,
    token_ids: Vec<u32>,
    logprobs: Vec<TokenLogprob>,
    /// Log-probabilities of the token pushed next.
    next_logprobs: Option<Logprobs>,
    ends: &'a [u32],
    ended_by: Option<FinishReason>,
    /// Constraint that can complete the text, in addition to the end tokens.
    pub constraint: Option<Shared>,
}

impl<'a> Emitter<'a> {
    pub fn new(
        tokenizer: &'a Tokenizer,
        prompt: &[u32],
        ends: &'a [u32],
        options: &GenerateOptions,
        on_progress: &'a mut dyn FnMut(Progress<'_>) -> ControlFlow<()>,
    ) -> Self {
        Self {
            tokenizer,
            on_progress,
            stream: TextStream::new(prompt).skipping_special(options.skip_special_tokens),
            stops: StopStrings::new(options.stop.clone()),
            max_new_tokens: options.max_new_tokens,
            min_new_tokens: options.min_new_tokens,
            text: String::new(),
            token_ids: Vec::new(),
            logprobs: Vec::new(),
            next_logprobs: None,
            ends,
            ended_by: None,
            constraint: None,
        }
    }

    /// Appends the text that is now final, and returns it and whether it completes a stop string. `last`: no text follows.
    fn settle(&mut self, mut fresh: String, last: bool) -> Result<(String, bool)> {
        if last {
            fresh += &self.stream.finish(self.tokenizer)?;
        }
        let (mut text, stopped) = self.stops.push(&fresh);
        if last && !stopped {
            text += &self.stops.finish();
        }
        self.text.push_str(&text);
        Ok((text, stopped))
    }

    /// Ends the text and returns the generation.
    pub fn finish(mut self, mut stats: Stats) -> Result<Generation> {
        // After an abort, no token was marked as the last one, so some text may be pending.
        self.settle(String::new(), true)?;
        let finish_reason = self.ended_by.unwrap_or(FinishReason::Length);
        let Self { text, token_ids, logprobs, min_new_tokens, .. } = self;
        if finish_reason == FinishReason::Stop && token_ids.len() < min_new_tokens {
            let ended = "a stop text or a complete response_format ended the text";
            stats.warnings.push(format!("{ended} before min_new_tokens, {min_new_tokens}"));
        }
        Ok(Generation { text, token_ids, logprobs, finish_reason, stats })
    }

    fn report(&mut self, progress: Progress<'_>) -> ControlFlow<()> {
        let flow = (self.on_progress)(progress);
        if flow.is_break() {
            self.ended_by = Some(FinishReason::Aborted);
        }
        flow
    }
}

impl Sink for Emitter<'_> {
    fn room(&self) -> usize {
        self.max_new_tokens - self.token_ids.len()
    }

    fn push_logprobs(&mut self, logprobs: Logprobs) {
        self.next_logprobs = Some(logprobs);
    }

    fn push(&mut self, id: u32, origin: Origin, last: bool) -> Result<ControlFlow<()>> {
        self.token_ids.push(id);
        let mut fresh = String::new();
        // The stream may skip special tokens, so they are compared with the stop strings here.
        let is_stop = self.tokenizer.special(id).is_some_and(|text| self.stops.contains(text));
        if self.ends.contains(&id) {
            self.ended_by = Some(FinishReason::Stop);
        } else if !is_stop {
            fresh = self.stream.push(self.tokenizer, id)?;
        }
        let (text, stopped) = self.settle(fresh, last || is_stop)?;
        let stopped = stopped || is_stop;
        // The end of the text is the target's decision, so the target counts as the source of this token.
        let origin = if stopped { Origin::Target } else { origin };
        let logprobs = self.next_logprobs.take().map(|next| TokenLogprob::new(self.tokenizer, id, &next));
        self.logprobs.extend(logprobs.clone());
        let flow = self.report(Progress::Token(&Token { id, text, origin, logprobs }));
        if stopped {
            self.ended_by = Some(FinishReason::Stop);
            return Ok(ControlFlow::Break(()));
        }
        Ok(flow)
    }

    fn completes(&mut self, before: &[u32], fresh: &[u32]) -> Result<Option<usize>> {
        let Some(constraint) = &self.constraint else { return Ok(None) };
        let completing = constraint.borrow_mut().completes(before, fresh)?;
        self.ended_by = self.ended_by.or(completing.map(|_| FinishReason::Stop));
        Ok(completing)
    }

    fn prefilled(&mut self, done: usize, of: usize) -> ControlFlow<()> {
        self.report(Progress::Prefill { done, of })
    }

    fn waiting(&mut self) -> ControlFlow<()> {
        self.report(Progress::Waiting)
    }
}

/// Awaits a result, unless the sink breaks first.
pub(crate) async fn unless_cancelled<T>(sink: &mut impl Sink, awaited: impl Future<Output = T>) -> ControlFlow<(), T> {
    let mut awaited = pin!(awaited);
    poll_fn(|context| match awaited.as_mut().poll(context) {
        Poll::Pending if sink.waiting().is_break() => Poll::Ready(ControlFlow::Break(())),
        polled => polled.map(ControlFlow::Continue),
    })
    .await
}
