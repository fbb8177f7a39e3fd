//! A text in the tokens of two tokenizers: what the target's tokens are for a draft model that has others, and back.

use super::{TextStream, Tokenizer};
use crate::error::Result;
use std::rc::Rc;

/// Tokens that are encoded again with what follows them, because what follows can change them: as many as in
/// transformers (`assistant_lookbehind`, `target_lookbehind`).
const LOOK_BEHIND: usize = 10;

/// The character that decoders put for bytes that are no text (yet).
const BROKEN: char = '\u{FFFD}';

/// Between the tokens of a target and those of a draft model, as assisted generation across tokenizers does it (Timor et
/// al. 2025, "Accelerating LLM Inference with Lossless Speculative Decoding Algorithms for Heterogeneous Vocabularies",
/// algorithm 2): through the text that both write. Only the end of the text is encoded again. transformers puts old and
/// new tokens together where they have the longest run in common; here it is known which part of the text a token
/// stands for, so that repetitions cannot mislead it.
///
/// A special token is the one with the same string on the other side; one that the other side lacks is left out.
pub struct Translator {
    target: Rc<Tokenizer>,
    draft: Rc<Tokenizer>,
    /// Target tokens whose text is in `text`, or held back in `stream`.
    seen: Vec<u32>,
    stream: TextStream,
    /// What they say.
    text: String,
    /// Bytes of it that no later token can change.
    certain: usize,
    /// It in tokens of the draft model, and where in it each ends.
    tokens: Vec<(u32, usize)>,
}

impl Translator {
    /// A translator that has seen no text.
    pub fn new(target: Rc<Tokenizer>, draft: Rc<Tokenizer>) -> Self {
        let (seen, stream, tokens) = (Vec::new(), TextStream::new(&[]), Vec::new());
        Self { target, draft, seen, stream, text: String::new(), certain: 0, tokens }
    }

    /// The draft model's tokens for a text of target tokens; none inside a character. A text that begins with the last one
    /// costs what is new.
    ///
    /// # Errors
    /// [`crate::Error::BadTokenizer`].
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

    /// The target's tokens for what the draft model wrote behind the text that [`Translator::for_draft`] was given last, up
    /// to a special token that the target lacks or a character that is not whole. None where the text's last token would be
    /// another one, as in `hel` before `lo`.
    ///
    /// # Errors
    /// [`crate::Error::BadTokenizer`].
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

    /// What the draft model wrote, as far as it is text for the target too.
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

    /// Brings the tokens to where the text is.
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

    /// The last `behind` tokens: the index of the first, and where it begins in the text.
    fn window(&self, behind: usize) -> (usize, usize) {
        let first = self.tokens.len().saturating_sub(behind);
        (first, first.checked_sub(1).map_or(0, |before| self.tokens[before].1))
    }
}

/// Where the longest run that two lists have in common ends in each. Tokenizers treat the beginning of a text apart, so the
/// first tokens of a window need not be those that stood there.
fn longest_run<T: PartialEq>(a: &[T], b: &[T]) -> Option<(usize, usize)> {
    let mut longest = (0, None);
    let mut runs = vec![0; b.len() + 1];
    for (i, x) in a.iter().enumerate() {
        // Backwards, so that the run before is still that of the row before.
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
