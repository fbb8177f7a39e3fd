//! The part of the crate `unicode-normalization-alignments` that `tokenizers` uses, with the browser's normal forms: the tables of
//! the crate would add 54 KB to a page's first download. The tables are of Unicode 9, and so are these results.

use std::vec::IntoIter;
use wasm_bindgen::prelude::*;

#[wasm_bindgen(raw_module = "./normalization.js")]
extern "C" {
    /// Returns a text in a normal form: the code point and the change of each character. `None`: the text is in that form.
    fn normalize(text: &str, form: &str) -> Option<Vec<i32>>;

    /// Returns true if a character is a mark.
    #[wasm_bindgen(js_name = isMark)]
    fn is_mark(character: char) -> bool;
}

/// Characters of a normalised text, each with its change: 0 if it replaces a character, 1 if it is added, -n if it replaces one and the
/// next n are removed.
pub type Changes = IntoIter<(char, isize)>;

/// Normal forms of a text.
pub trait UnicodeNormalization {
    /// Returns the canonical decomposition.
    fn nfd(self) -> Changes;
    /// Returns the compatible decomposition.
    fn nfkd(self) -> Changes;
    /// Returns the composition of the canonical decomposition.
    fn nfc(self) -> Changes;
    /// Returns the composition of the compatible decomposition.
    fn nfkc(self) -> Changes;
}

impl UnicodeNormalization for &str {
    fn nfd(self) -> Changes {
        changes(self, "NFD")
    }

    fn nfkd(self) -> Changes {
        changes(self, "NFKD")
    }

    fn nfc(self) -> Changes {
        changes(self, "NFC")
    }

    fn nfkc(self) -> Changes {
        changes(self, "NFKC")
    }
}

fn changes(text: &str, form: &str) -> Changes {
    // ASCII is in every form, and most text that is encoded.
    let changed = if text.is_ascii() { None } else { normalize(text, form) };
    let changes: Vec<(char, isize)> = match changed {
        None => text.chars().map(|character| (character, 0)).collect(),
        Some(pairs) => {
            let character = |code| char::from_u32(code as u32).unwrap_or(char::REPLACEMENT_CHARACTER);
            pairs.as_chunks().0.iter().map(|&[code, change]| (character(code), change as isize)).collect()
        }
    };
    changes.into_iter()
}

/// Properties of characters.
pub mod char {
    /// Returns true if a character is a mark: an accent, for example.
    pub fn is_combining_mark(character: char) -> bool {
        !character.is_ascii() && super::is_mark(character)
    }
}
