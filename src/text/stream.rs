//! Decoding of tokens to text, one token at a time. Emitted text is final.

use super::Tokenizer;
use crate::error::Result;

/// Number of tokens at the end of the prompt among which an ordinary token is searched.
const CONTEXT: usize = 32;

/// Number of tokens that may end in a broken character before the window is cut inside them.
const PATIENCE: usize = 16;

/// Character that decoders emit for bytes that are not (yet) text.
const BROKEN: char = '\u{FFFD}';

/// Decoder of a token stream. Special tokens are omitted unless requested.
///
/// All pieces together are the text that the tokens add to the prompt: `decode(prompt + tokens)` without `decode(prompt)`. So the first
/// word of an answer keeps the space that sentencepiece decoders strip at the start of a text. Text is held back while it can still change:
/// a character whose bytes are incomplete, and with byte fallback a run of byte tokens, which one invalid byte turns into U+FFFD.
#[derive(Debug, Clone)]
pub struct TextStream {
    /// Shown tokens that serve as context, followed from index `fresh` by new tokens.
    window: Vec<u32>,
    fresh: usize,
    /// Number of bytes of the window's text that were emitted or belong to the prompt.
    shown: usize,
    started: bool,
    skip_special: bool,
}

impl TextStream {
    /// Creates a stream that continues these tokens; an empty prompt starts a separate text.
    pub fn new(prompt_ids: &[u32]) -> Self {
        let window = prompt_ids.iter().rev().take(CONTEXT).copied().collect();
        Self { window, fresh: 0, shown: 0, started: false, skip_special: true }
    }

    /// Sets whether the text of special tokens is omitted.
    pub fn skipping_special(self, skip_special: bool) -> Self {
        Self { skip_special, ..self }
    }

    /// Returns the text that this token completes; often empty.
    pub fn push(&mut self, tokenizer: &Tokenizer, id: u32) -> Result<String> {
        self.start(tokenizer)?;
        if self.skip_special && tokenizer.is_special(id) || tokenizer.id_to_token(id).is_none() {
            return Ok(String::new());
        }
        self.window.push(id);
        if tokenizer.is_byte(id) { Ok(String::new()) } else { self.show(tokenizer) }
    }

    /// Returns the text that was held back and empties the stream.
    pub fn finish(&mut self, tokenizer: &Tokenizer) -> Result<String> {
        self.start(tokenizer)?;
        let text = tokenizer.decode(&self.window, self.skip_special)?;
        let rest = text.get(self.shown..).unwrap_or_default().to_owned();
        (self.window, self.fresh, self.shown) = (Vec::new(), 0, 0);
        Ok(rest)
    }

    /// Finds the context in the prompt. One ordinary token suffices, because decoders treat only the first token of a text differently.
    /// `new` cannot do this without a tokenizer.
    fn start(&mut self, tokenizer: &Tokenizer) -> Result<()> {
        if std::mem::replace(&mut self.started, true) {
            return Ok(());
        }
        for id in std::mem::take(&mut self.window) {
            let text = tokenizer.decode(&[id], true)?;
            if !text.is_empty() && !text.ends_with(BROKEN) && !tokenizer.is_byte(id) {
                (self.window, self.fresh, self.shown) = (vec![id], 1, text.len());
                break;
            }
        }
        Ok(())
    }

    fn show(&mut self, tokenizer: &Tokenizer) -> Result<String> {
        let text = tokenizer.decode(&self.window, self.skip_special)?;
        // Later tokens can complete only the last character.
        let certain = text.strip_suffix(BROKEN).unwrap_or(&text);
        let piece = certain.get(self.shown..).unwrap_or_default().to_owned();
        self.shown += piece.len();
        if certain.len() < text.len() {
            self.cut(tokenizer, &text)?;
        } else if !piece.is_empty() {
            self.window.drain(..self.fresh);
            self.fresh = self.window.len();
            self.shown = tokenizer.decode(&self.window, self.skip_special)?.len();
        }
        Ok(piece)
    }

    /// Keeps the window short if a model emits many bytes that are not text. If the two halves decode to the whole text, no character spans
    /// the cut, whatever follows.
    fn cut(&mut self, tokenizer: &Tokenizer, text: &str) -> Result<()> {
        if self.window.len() < self.fresh + PATIENCE {
            return Ok(());
        }
        for keep in 1..=4 {
            let (head, tail) = self.window.split_at(self.window.len().saturating_sub(keep));
            let head = tokenizer.decode(head, true)?;
            if text.strip_prefix(head.as_str()) == Some(&tokenizer.decode(tail, true)?) {
                self.window = tail.to_vec();
                self.fresh = 0;
                self.shown = self.shown.saturating_sub(head.len());
                break;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
