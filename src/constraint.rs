//! The interface between grammars, which define the allowed next tokens, and the choice of tokens.

use crate::error::{Error, Result};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::cell::RefCell;
use std::rc::Rc;
use web_time::Instant;

/// Form of a text, in OpenAI's notation: an object whose `type` is `text` (no form), `json_object`, `json_schema` (with
/// `json_schema: {schema}`), `regex` (with `regex`) or `grammar` (with `grammar`, in llguidance's variant of Lark).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ResponseFormat(pub Map<String, Value>);

impl ResponseFormat {
    fn from_kind(kind: &str, value: Value) -> Self {
        Self([("type".to_owned(), kind.into()), (kind.to_owned(), value)].into_iter().collect())
    }

    /// Requires JSON that matches a schema.
    pub fn json_schema(schema: Value) -> Self {
        Self::from_kind("json_schema", json!({ "schema": schema }))
    }

    /// Requires a JSON object.
    pub fn json_object() -> Self {
        Self([("type".to_owned(), "json_object".into())].into_iter().collect())
    }

    /// Requires a match of the whole text with a regular expression, in the syntax of the crate `regex`.
    pub fn regex(pattern: &str) -> Self {
        Self::from_kind("regex", pattern.into())
    }

    /// Requires a text that a grammar derives from its rule `start`.
    pub fn grammar(lark: &str) -> Self {
        Self::from_kind("grammar", lark.into())
    }

    /// Returns true if it restricts the text.
    pub fn constrains(&self) -> bool {
        self.0.get("type").is_none_or(|kind| kind != "text")
    }
}

/// Compiler of formats to constraints, for one vocabulary.
pub trait Grammars {
    /// Returns a constraint at the beginning of a text.
    ///
    /// # Errors
    /// [`Error::BadOption`] for an unsupported format.
    fn compile(&self, format: &ResponseFormat) -> Result<Box<dyn Constraint>>;
}

/// Permission to end a text at a position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// The text may not end yet.
    No,
    /// The text may end or continue.
    May,
    /// The text must end.
    Must,
}

/// Constraint on the next token of a text. End tokens are not consumed.
pub trait Constraint {
    /// Consumes a token. Returns false, and changes nothing, if the token is not allowed.
    ///
    /// # Errors
    /// [`Error::Internal`], here and in the other methods: the grammar is too complex at this position.
    fn consume(&mut self, token: u32) -> Result<bool>;

    /// Undoes the last `count` tokens.
    fn rollback(&mut self, count: usize) -> Result<()>;

    /// Writes a mask with one bit per token id, set if the token is allowed, end tokens included [vocab / 32, rounded up].
    fn mask(&mut self, words: &mut [u32]) -> Result<()>;

    /// Returns the bytes that must follow, up to the next choice.
    fn forced(&mut self) -> Result<Vec<u8>>;

    /// Returns whether the text may end here.
    fn ending(&mut self) -> Result<Ending>;
}

/// Function that encodes a text following other tokens.
pub type Encode = Box<dyn Fn(&[u32], &str) -> Vec<u32>>;

/// Preceding tokens that affect how a text is tokenized.
const CONTEXT: usize = 4;

/// A text under a constraint. The text may grow, be cut, or be queried with a draft after it.
///
/// If the constraint forces the next characters, only the tokenizer's own tokens for them are allowed, which models expect, except the
/// last, which may merge with what follows.
pub struct Constrained {
    by: Box<dyn Constraint>,
    encode: Encode,
    /// Prompt tokens; the prompt is not constrained.
    start: usize,
    /// Tokens that end a text.
    ends: Vec<u32>,
    /// Words (32 bits) per mask.
    words: usize,
    consumed: Vec<u32>,
    /// Seconds spent on masks.
    pub seconds: f64,
    /// Rounds with a forced draft.
    pub forced_rounds: usize,
}

/// Constraint shared by all users of the same text.
pub type Shared = Rc<RefCell<Constrained>>;

impl Constrained {
    /// Makes the constraint of a text after a prompt of `start` tokens. `vocab`: number of token ids; `ends`: ids that end a
    /// text.
    pub fn new(by: Box<dyn Constraint>, encode: Encode, start: usize, vocab: usize, ends: &[u32]) -> Shared {
        let (ends, words) = (ends.to_vec(), vocab.div_ceil(32));
        Rc::new(RefCell::new(Self {
            by,
            encode,
            start,
            ends,
            words,
            consumed: Vec::new(),
            seconds: 0.0,
            forced_rounds: 0,
        }))
    }

    /// Consumes `token`. Returns true if it is allowed and does not end the text.
    fn consume(&mut self, token: u32) -> Result<bool> {
        let goes_on = !self.ends.contains(&token) && self.by.consume(token)?;
        if goes_on {
            self.consumed.push(token);
        }
        Ok(goes_on)
    }

    /// Moves to the end of `text`, which includes the prompt.
    fn follow(&mut self, text: &[u32]) -> Result<()> {
        let text = text.get(self.start..).unwrap_or_default();
        let common = self.consumed.iter().zip(text).take_while(|(consumed, token)| consumed == token).count();
        if common < self.consumed.len() {
            self.by.rollback(self.consumed.len() - common)?;
            self.consumed.truncate(common);
        }
        for &token in &text[common..] {
            if !self.consume(token)? {
                return Err(Error::Internal { reason: format!("the response_format allows no token {token}") });
            }
        }
        Ok(())
    }

    /// Returns how many tokens of a draft after `text` are allowed. None is allowed after an end token.
    pub fn allowed(&mut self, text: &[u32], draft: &[u32]) -> Result<usize> {
        self.follow(text)?;
        for (i, &token) in draft.iter().enumerate() {
            if self.ends.contains(&token) {
                return Ok(i + usize::from(self.by.ending()? != Ending::No));
            }
            if !self.consume(token)? {
                return Ok(i);
            }
        }
        Ok(draft.len())
    }

    /// Returns true if `token` is allowed after `text` and more tokens may follow.
    pub fn goes_on(&mut self, text: &[u32], token: u32) -> Result<bool> {
        self.follow(text)?;
        Ok(self.consume(token)? && self.by.ending()? != Ending::Must)
    }

    /// Returns the masks of allowed tokens after `text`, and after each token of a draft that follows it [draft + 1, words],
    /// flattened. After a forbidden token or an end token all are allowed, because these positions are never used.
    pub fn masks(&mut self, text: &[u32], draft: &[u32]) -> Result<Vec<u32>> {
        let began = Instant::now();
        self.follow(text)?;
        let mut text = text.to_vec();
        let mut masks = vec![u32::MAX; self.words * (draft.len() + 1)];
        for (i, row) in masks.chunks_exact_mut(self.words.max(1)).enumerate() {
            if i > 0 {
                text.push(draft[i - 1]);
                if !self.consume(draft[i - 1])? {
                    break;
                }
            }
            match self.certain(&text)?[..] {
                [first, _, ..] => {
                    row.fill(0);
                    row[first as usize / 32] = 1 << (first % 32);
                }
                _ => self.by.mask(row)?,
            }
        }
        self.seconds += began.elapsed().as_secs_f64();
        Ok(masks)
    }

    /// Returns the tokens of the characters that must follow `text`. All but the last are certain; the last may merge with what
    /// follows.
    pub fn forced(&mut self, text: &[u32]) -> Result<Vec<u32>> {
        self.follow(text)?;
        self.certain(text)
    }

    /// As [`Self::forced`], if the constraint is already at the end of `text`.
    fn certain(&mut self, text: &[u32]) -> Result<Vec<u32>> {
        let bytes = self.by.forced()?;
        let forced = match std::str::from_utf8(&bytes) {
            Ok(forced) => forced,
            // The bytes end inside a character.
            Err(error) => std::str::from_utf8(&bytes[..error.valid_up_to()]).unwrap_or_default(),
        };
        if forced.is_empty() {
            return Ok(Vec::new());
        }
        let mut tokens = (self.encode)(&text[text.len().saturating_sub(CONTEXT)..], forced);
        // The constraint may forbid some of these tokens, if the tokenizer encodes the text differently here.
        let mut may_come = 0;
        while let Some(token) = tokens.get(may_come)
            && (*token as usize) < 32 * self.words
            && self.by.consume(*token)?
        {
            may_come += 1;
        }
        self.by.rollback(may_come)?;
        tokens.truncate(may_come);
        Ok(tokens)
    }

    /// Returns how many of the tokens `fresh`, chosen after `text`, complete it, so that nothing can follow; `None` if it is not
    /// complete.
    ///
    /// # Errors
    /// [`Error::BadOption`] for a forbidden token: other options excluded all allowed ones. As [`Constraint::consume`].
    pub fn completes(&mut self, text: &[u32], fresh: &[u32]) -> Result<Option<usize>> {
        self.follow(text)?;
        for (i, &token) in fresh.iter().enumerate() {
            let ends = self.ends.contains(&token);
            let may_come = if ends { self.by.ending()? != Ending::No } else { self.consume(token)? };
            if !may_come {
                return Err(Error::BadOption {
                    option: "response_format".into(),
                    value: "a form that leaves no next token".into(),
                    allowed:
                        "one that the model's tokens can write, and that logit_bias, bad_words_ids, min_new_tokens \
                        and no_repeat_ngram_size leave possible"
                            .into(),
                });
            }
            if !ends && self.by.ending()? == Ending::Must {
                return Ok(Some(i + 1));
            }
        }
        Ok(None)
    }
}
