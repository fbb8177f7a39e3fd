//! What may come next in a text: the seam between those who know (a grammar) and those who choose tokens.

use crate::error::{Error, Result};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::cell::RefCell;
use std::rc::Rc;
use web_time::Instant;

/// Which form a text is to have, in OpenAI's shape: an object whose `type` is `text` (none), `json_object`, `json_schema` (with
/// `json_schema: {schema}`), `regex` (with `regex`) or `grammar` (with `grammar`, in llguidance's variant of Lark).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ResponseFormat(pub Map<String, Value>);

impl ResponseFormat {
    fn of(kind: &str, value: Value) -> Self {
        Self([("type".to_owned(), kind.into()), (kind.to_owned(), value)].into_iter().collect())
    }

    /// What a JSON schema describes.
    pub fn json_schema(schema: Value) -> Self {
        Self::of("json_schema", json!({ "schema": schema }))
    }

    /// Any JSON object.
    pub fn json_object() -> Self {
        Self([("type".to_owned(), "json_object".into())].into_iter().collect())
    }

    /// What a regular expression matches as a whole, in the syntax of the crate `regex`.
    pub fn regex(pattern: &str) -> Self {
        Self::of("regex", pattern.into())
    }

    /// What a grammar derives from its rule `start`.
    pub fn grammar(lark: &str) -> Self {
        Self::of("grammar", lark.into())
    }

    /// Whether it asks for anything.
    pub fn constrains(&self) -> bool {
        self.0.get("type").is_none_or(|kind| kind != "text")
    }
}

/// Who makes constraints of formats, for one vocabulary.
pub trait Grammars {
    /// A constraint at the beginning of a text.
    ///
    /// # Errors
    /// [`Error::BadOption`] for what it does not cover.
    fn compile(&self, format: &ResponseFormat) -> Result<Box<dyn Constraint>>;
}

/// Whether a text may end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// Not yet.
    No,
    /// It may, and it may go on.
    May,
    /// Nothing can follow.
    Must,
}

/// What may come next, as tokens that do not end the text are consumed.
pub trait Constraint {
    /// Goes on behind a token; false, and nothing changed, where it may not come.
    ///
    /// # Errors
    /// [`Error::Internal`], here and in the others: the grammar is too complex at this place.
    fn consume(&mut self, token: u32) -> Result<bool>;

    /// Goes back before the last `count` tokens.
    ///
    /// # Errors
    /// As [`Constraint::consume`].
    fn rollback(&mut self, count: usize) -> Result<()>;

    /// Which tokens may come, those that end the text included: a bit for each id [vocab / 32 in whole words].
    ///
    /// # Errors
    /// As [`Constraint::consume`].
    fn mask(&mut self, words: &mut [u32]) -> Result<()>;

    /// The bytes that must come, as far as there is no choice.
    ///
    /// # Errors
    /// As [`Constraint::consume`].
    fn forced(&mut self) -> Result<Vec<u8>>;

    /// Whether the text may end here.
    ///
    /// # Errors
    /// As [`Constraint::consume`].
    fn ending(&mut self) -> Result<Ending>;
}

/// The tokens of a text behind others, as the tokenizer cuts it.
pub type Encode = Box<dyn Fn(&[u32], &str) -> Vec<u32>>;

/// Tokens before a text that decide how it is cut into tokens.
const CONTEXT: usize = 4;

/// A text under a constraint, followed wherever it goes: it may grow, be cut, or be asked about with a draft behind it.
///
/// Where the constraint leaves no choice of characters, the tokenizer's tokens for them are the only ones that may come, but for the
/// last, which what follows may lengthen: models know texts as their tokenizer cuts them, and such a token is known beforehand.
pub struct Constrained {
    by: Box<dyn Constraint>,
    encode: Encode,
    /// Tokens of the prompt, which is not constrained.
    start: usize,
    /// Tokens that end a text.
    ends: Vec<u32>,
    /// Words of a mask.
    words: usize,
    consumed: Vec<u32>,
    /// Seconds that masks took.
    pub seconds: f64,
    /// Rounds whose draft was forced.
    pub forced_rounds: usize,
}

/// One for all who ask about the same text.
pub type Shared = Rc<RefCell<Constrained>>;

impl Constrained {
    /// A text behind a prompt of `start` tokens, of a vocabulary of `vocab` tokens of which `ends` end a text.
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

    /// Consumes `token`; whether it may come and others may follow it.
    fn consume(&mut self, token: u32) -> Result<bool> {
        let goes_on = !self.ends.contains(&token) && self.by.consume(token)?;
        if goes_on {
            self.consumed.push(token);
        }
        Ok(goes_on)
    }

    /// Goes to the end of `text`, the prompt included.
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

    /// How many tokens of a draft behind `text` may come, one after the other; behind one that ends the text none may.
    ///
    /// # Errors
    /// As [`Constraint::consume`].
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

    /// Whether `token` may come behind `text`, and others behind it.
    ///
    /// # Errors
    /// As [`Constraint::consume`].
    pub fn goes_on(&mut self, text: &[u32], token: u32) -> Result<bool> {
        self.follow(text)?;
        Ok(self.consume(token)? && self.by.ending()? != Ending::Must)
    }

    /// Which tokens may come behind `text`, and behind each token of a draft that follows it [draft + 1, words], flattened. Behind a
    /// token that may not come, or that ends the text, any may: nobody goes there.
    ///
    /// # Errors
    /// As [`Constraint::consume`].
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

    /// The tokens for the characters that must follow `text`. All but the last must come; what follows may lengthen that.
    ///
    /// # Errors
    /// As [`Constraint::consume`].
    pub fn forced(&mut self, text: &[u32]) -> Result<Vec<u32>> {
        self.follow(text)?;
        self.certain(text)
    }

    /// The same behind a text that was followed.
    fn certain(&mut self, text: &[u32]) -> Result<Vec<u32>> {
        let bytes = self.by.forced()?;
        let forced = match std::str::from_utf8(&bytes) {
            Ok(forced) => forced,
            // It ends inside a character.
            Err(error) => std::str::from_utf8(&bytes[..error.valid_up_to()]).unwrap_or_default(),
        };
        if forced.is_empty() {
            return Ok(Vec::new());
        }
        let mut tokens = (self.encode)(&text[text.len().saturating_sub(CONTEXT)..], forced);
        // A tokenizer may have no way to write this behind other text.
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

    /// How many of the tokens `fresh`, chosen behind `text`, complete it, so that nothing can follow them; none if they do not.
    ///
    /// # Errors
    /// [`Error::BadOption`] for a token that may not come: other options left none that may. As [`Constraint::consume`].
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
