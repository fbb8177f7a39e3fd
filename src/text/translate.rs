//! Translation of a text between the tokens of a target and those of a draft model with another tokenizer.

use super::{TextStream, Tokenizer};
use crate::error::Result;
use std::rc::Rc;

/// Number of trailing tokens that are encoded again with new text, because that can change them. The number is from transformers
/// (`assistant_lookbehind`, `target_lookbehind`).
const LOOK_BEHIND: usize = 10;

/// Character that decoders emit for bytes that are not (yet) text.
const BROKEN: char = '\u{FFFD}';

/// Translator between the tokens of a target and of a draft model, through their common text. This is assisted generation across tokenizers
/// (Timor et al. 2025, "Accelerating LLM Inference with Lossless Speculative Decoding Algorithms for Heterogeneous Vocabularies", algorithm
/// 2). Only the end of the text is encoded again. The position of each token in the text is known; so, unlike in transformers, repetitions
/// cannot cause errors.
///
/// A special token is translated to the one with the same string, or omitted if there is none.
pub struct Translator {
    target: Rc<Tokenizer>,
    draft: Rc<Tokenizer>,
    /// Target tokens whose text is in `text` or held back in `stream`.
    seen: Vec<u32>,
    stream: TextStream,
    /// Text of the `seen` tokens.
    text: String,
    /// Bytes of `text` that no later token can change.
    certain: usize,
    /// Tokens of the draft model for `text`, each with its end position in bytes.
    tokens: Vec<(u32, usize)>,
}

impl Translator {
    /// Creates a translator without text.
    pub fn new(target: Rc<Tokenizer>, draft: Rc<Tokenizer>) -> Self {
        let (seen, stream, tokens) = (Vec::new(), TextStream::new(&[]), Vec::new());
        Self { target, draft, seen, stream, text: String::new(), certain: 0, tokens }
    }

    /// Returns the draft model's tokens for a text of target tokens; empty if the text ends inside a character. If the text extends the
    /// previous one, only the new part is translated.
    pub fn for_draft(&mut self, text: &[u32]) -> Result<Vec<u32>> {
        if !text.starts_with(&self.seen) {
            *self = Self::new(self.target.clone(), self.draft.clone());
        }
        self.text.truncate(self.certain);
        for &id in &text[self.seen.len()..] {
            if self.target.is_special(id) {
                self.text += &self.stream.finish(&self.target)?;
                self.text += &shared(&self.target, &self.draft, id).unwrap_or_default();
                self.stream = TextStream::new(&self.seen);
            } else {
                self.text += &self.stream.push(&self.target, id)?;
            }
            self.seen.push(id);
        }
        self.certain = self.text.len();
        let likely = self.stream.clone().finish(&self.target)?;
        if likely.contains(BROKEN) {
            return Ok(Vec::new());
        }
        self.text += &likely;
        self.align()?;
        Ok(self.ids())
    }

    /// Returns the target's tokens for the draft model's continuation of the text last passed to [`Translator::for_draft`]. The result ends
    /// before a special token that the target lacks or an incomplete character. It is empty if the continuation would change the text's
    /// last token, as with `hel` before `lo`.
    pub fn for_target(&self, drafted: &[u32]) -> Result<Vec<u32>> {
        let (_, from) = self.window(LOOK_BEHIND);
        let known = self.text.get(from..).unwrap_or(&self.text);
        let text = format!("{known}{}", self.written(drafted)?);
        let tokens = self.target.encode_with_offsets(&text)?;
        let new = tokens.iter().skip_while(|(_, place)| place.end <= known.len());
        match new.clone().next() {
            Some((_, place)) if place.start < known.len() => Ok(Vec::new()),
            _ => Ok(new.map(|&(id, _)| id).collect()),
        }
    }

    /// Returns the drafted text up to the point from which the target cannot represent it.
    fn written(&self, drafted: &[u32]) -> Result<String> {
        let mut stream = TextStream::new(&self.ids());
        let mut text = String::new();
        let mut special = None;
        for &id in drafted {
            if self.draft.is_special(id) {
                special = shared(&self.draft, &self.target, id);
                break;
            }
            text += &stream.push(&self.draft, id)?;
        }
        let held = stream.finish(&self.draft)?;
        Ok(match held.split_once(BROKEN) {
            Some((whole, _)) => text + whole,
            None => text + &held + &special.unwrap_or_default(),
        })
    }

    /// Updates the tokens to match the text.
    fn align(&mut self) -> Result<()> {
        let mut behind = LOOK_BEHIND;
        loop {
            let (first, from) = self.window(behind);
            let fresh = self.draft.encode_with_offsets(self.text.get(from..).unwrap_or_default())?;
            let fresh: Vec<_> = fresh.into_iter().map(|(id, place)| (id, from + place.end)).collect();
            if from == 0 {
                let bos = self.draft.encode("", true)?.into_iter().map(|id| (id, 0)).next();
                let bos = bos.filter(|(bos, _)| fresh.first().is_none_or(|(id, _)| id != bos));
                self.tokens = bos.into_iter().chain(fresh).collect();
                return Ok(());
            }
            if let Some((old, new)) = longest_run(&self.tokens[first..], &fresh) {
                self.tokens.truncate(first + old);
                self.tokens.extend_from_slice(&fresh[new..]);
                return Ok(());
            }
            behind *= 2;
        }
    }

    fn ids(&self) -> Vec<u32> {
        self.tokens.iter().map(|&(id, _)| id).collect()
    }

    /// Returns the index of the first of the last `behind` tokens, and its start in the text.
    fn window(&self, behind: usize) -> (usize, usize) {
        let first = self.tokens.len().saturating_sub(behind);
        (first, first.checked_sub(1).map_or(0, |before| self.tokens[before].1))
    }
}

/// Returns the end positions of the longest common run in two lists. Tokenizers treat the start of a text differently, so the first tokens
/// of a window may differ from the earlier ones.
fn longest_run<T: PartialEq>(a: &[T], b: &[T]) -> Option<(usize, usize)> {
    let mut longest = (0, None);
    let mut runs = vec![0; b.len() + 1];
    for (i, x) in a.iter().enumerate() {
        // Backwards, so that `runs[j]` still holds the value of the previous row.
        for (j, y) in b.iter().enumerate().rev() {
            runs[j + 1] = if x == y { runs[j] + 1 } else { 0 };
            if runs[j + 1] > longest.0 {
                longest = (runs[j + 1], Some((i + 1, j + 1)));
            }
        }
    }
    longest.1
}

/// The string of a special token, if it is one for another tokenizer too.
fn shared(from: &Tokenizer, to: &Tokenizer, id: u32) -> Option<String> {
    from.id_to_token(id).filter(|token| to.token_to_id(token).is_some_and(|id| to.is_special(id)))
}
