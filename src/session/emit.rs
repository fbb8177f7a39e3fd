//! Tokens -> text, stop strings, the caller.

use super::{FinishReason, Generation, Token};
use crate::error::Result;
use crate::options::GenerateOptions;
use crate::speculate::{Origin, Stats};
use crate::text::{StopStrings, TextStream, Tokenizer};
use std::ops::ControlFlow;

/// Where emitted tokens go.
pub trait Sink {
    /// Tokens still wanted.
    fn room(&self) -> usize;

    /// Takes a token; `last` when nothing follows it. Breaks when no more are wanted.
    ///
    /// # Errors
    /// What decoding its text reports.
    fn push(&mut self, id: u32, origin: Origin, last: bool) -> Result<ControlFlow<()>>;
}

/// Tokens -> text, stop strings, the caller.
pub(crate) struct Emitter<'a> {
    tokenizer: &'a Tokenizer,
    on_token: &'a mut dyn FnMut(&Token) -> ControlFlow<()>,
    stream: TextStream,
    stops: StopStrings,
    max_new_tokens: usize,
    text: String,
    token_ids: Vec<u32>,
    ends: &'a [u32],
    ended_by: Option<FinishReason>,
}

impl<'a> Emitter<'a> {
    pub fn new(
        tokenizer: &'a Tokenizer,
        prompt: &[u32],
        ends: &'a [u32],
        options: &GenerateOptions,
        on_token: &'a mut dyn FnMut(&Token) -> ControlFlow<()>,
    ) -> Self {
        Self {
            tokenizer,
            on_token,
            stream: TextStream::new(prompt),
            stops: StopStrings::new(options.stop.clone()),
            max_new_tokens: options.max_new_tokens,
            text: String::new(),
            token_ids: Vec::new(),
            ends,
            ended_by: None,
        }
    }

    pub fn finish(self, stats: Stats) -> Generation {
        let finish_reason = self.ended_by.unwrap_or(FinishReason::Length);
        Generation { text: self.text, token_ids: self.token_ids, finish_reason, stats }
    }
}

impl Sink for Emitter<'_> {
    fn room(&self) -> usize {
        self.max_new_tokens - self.token_ids.len()
    }

    fn push(&mut self, id: u32, origin: Origin, last: bool) -> Result<ControlFlow<()>> {
        self.token_ids.push(id);
        let mut fresh = String::new();
        if self.ends.contains(&id) {
            self.ended_by = Some(FinishReason::Stop);
        } else {
            fresh = self.stream.push(self.tokenizer, id)?;
        }
        if last {
            fresh += &self.stream.finish(self.tokenizer)?;
        }
        let (mut text, stopped) = self.stops.push(&fresh);
        if last && !stopped {
            text += &self.stops.finish();
        }
        self.text.push_str(&text);
        // Whatever ends a round is the target's own token: it decided that the text ends here.
        let token = Token { id, text, origin: if stopped { Origin::Target } else { origin } };
        let flow = (self.on_token)(&token);
        if stopped {
            self.ended_by = Some(FinishReason::Stop);
            return Ok(ControlFlow::Break(()));
        }
        if flow.is_break() {
            self.ended_by = Some(FinishReason::Aborted);
        }
        Ok(flow)
    }
}
