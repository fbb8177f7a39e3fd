//! A check that a server has the same tokenizer, with a text of tokens from the whole vocabulary.

use crate::error::Result;
use crate::text::Tokenizer;
use serde_json::{Value, json};

/// Approximate number of tokens in the text.
const SAMPLES: u32 = 512;
const SPECIAL: usize = 64;

/// A text and its tokens.
#[derive(Debug, Clone)]
pub struct VocabularyProbe {
    text: String,
    ids: Vec<u32>,
    vocab_size: u32,
}

impl VocabularyProbe {
    /// Creates a text from tokens of this tokenizer.
    pub fn new(tokenizer: &Tokenizer) -> Result<Self> {
        let end = tokenizer.vocab_size() as u32;
        let special = (0..end).filter(|id| tokenizer.is_special(*id)).take(SPECIAL);
        let others = (0..end).step_by((end / SAMPLES).max(1) as usize).filter(|id| !tokenizer.is_special(*id));
        let mut text = String::new();
        for id in others.chain(special) {
            let piece = tokenizer.decode(&[id], false)?;
            // Tokens that are parts of characters have no text.
            if !piece.contains('\u{FFFD}') {
                text += &piece;
                text.push(' ');
            }
        }
        let ids = tokenizer.encode(&text, false)?;
        Ok(Self { text, ids, vocab_size: end })
    }

    /// Returns the number of tokens of the tokenizer.
    pub(super) fn vocab_size(&self) -> u32 {
        self.vocab_size
    }

    /// Returns the body of a request to `/tokenize`.
    pub(super) fn question(&self, model: &str) -> Value {
        json!({ "model": model, "prompt": self.text, "add_special_tokens": false })
    }

    /// Compares the tokens. `None`: the answer has none. `Some(None)`: they are equal. Else a description of the first difference.
    pub(super) fn difference(&self, answer: &[u8]) -> Option<Option<String>> {
        let answer: Value = serde_json::from_slice(answer).ok()?;
        let there = answer["tokens"].as_array()?;
        if there.len() == self.ids.len() && there.iter().zip(&self.ids).all(|(there, here)| *there == *here) {
            return Some(None);
        }
        let same = there.iter().zip(&self.ids).take_while(|(there, here)| **there == **here).count();
        let of = |id: Option<String>| id.unwrap_or_else(|| "nothing".into());
        let there = of(there.get(same).map(Value::to_string));
        let here = of(self.ids.get(same).map(u32::to_string));
        Some(Some(format!("of a text with tokens from everywhere, token {same} is {there} there and {here} here")))
    }
}
