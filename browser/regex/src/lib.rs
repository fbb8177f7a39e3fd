//! What `tokenizers` uses of the crate `regex`, with the browser's regular expressions: a page has them, and the tables of
//! Unicode that they need.

use std::fmt::{self, Display};
use wasm_bindgen::prelude::*;

#[wasm_bindgen(raw_module = "./patterns.js")]
extern "C" {
    /// The number of a pattern.
    #[wasm_bindgen(catch)]
    fn compile(pattern: &str) -> Result<u32, js_sys::Error>;

    /// Where the first matches start and end in a text, in bytes.
    fn matches(pattern: u32, text: &str, most: u32) -> Vec<u32>;
}

/// A regular expression.
#[derive(Debug)]
pub struct Regex(Pattern);

#[derive(Debug)]
enum Pattern {
    /// Matches this text and no other: quicker without the browser.
    Text(String),
    /// Has this number.
    Number(u32),
}

impl Regex {
    /// Translates it for the browser.
    pub fn new(pattern: &str) -> Result<Self, Error> {
        if let Some(text) = unescape(pattern) {
            return Ok(Self(Pattern::Text(text)));
        }
        match compile(pattern) {
            Ok(number) => Ok(Self(Pattern::Number(number))),
            Err(error) => Err(Error(format!("the regular expression {pattern:?}: {}", String::from(error.message())))),
        }
    }

    /// Whether a part of the text matches.
    pub fn is_match(&self, text: &str) -> bool {
        self.find(text).is_some()
    }

    /// The first match.
    pub fn find(&self, text: &str) -> Option<Match> {
        self.up_to(1, text).next()
    }

    /// The matches from left to right, none of which overlap.
    pub fn find_iter(&self, text: &str) -> Matches {
        self.up_to(u32::MAX, text)
    }

    fn up_to(&self, most: u32, text: &str) -> Matches {
        let places = match &self.0 {
            Pattern::Text(pattern) => {
                let starts = text.match_indices(pattern.as_str()).map(|(start, _)| start as u32);
                starts.take(most as usize).flat_map(|start| [start, start + pattern.len() as u32]).collect()
            }
            Pattern::Number(number) => matches(*number, text, most),
        };
        Matches(places.into_iter())
    }
}

const SPECIAL: &str = r"\.+*?()|[]{}^$#&-~";

/// The pattern that matches this text and no other.
pub fn escape(text: &str) -> String {
    let mut pattern = String::with_capacity(text.len());
    for c in text.chars() {
        if SPECIAL.contains(c) {
            pattern.push('\\');
        }
        pattern.push(c);
    }
    pattern
}

/// The text of which [`escape`] makes this; none where a pattern matches more than a text.
fn unescape(pattern: &str) -> Option<String> {
    let mut text = String::with_capacity(pattern.len());
    let mut chars = pattern.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => text.push(chars.next().filter(|c| SPECIAL.contains(*c))?),
            c if SPECIAL.contains(c) => return None,
            c => text.push(c),
        }
    }
    Some(text)
}

/// Where a match is in its text, in bytes.
#[derive(Debug, Clone, Copy)]
pub struct Match {
    start: usize,
    end: usize,
}

impl Match {
    /// Where it starts.
    pub fn start(&self) -> usize {
        self.start
    }

    /// Where it ends.
    pub fn end(&self) -> usize {
        self.end
    }
}

/// Matches of a text.
#[derive(Debug)]
pub struct Matches(std::vec::IntoIter<u32>);

impl Iterator for Matches {
    type Item = Match;

    fn next(&mut self) -> Option<Match> {
        Some(Match { start: self.0.next()? as usize, end: self.0.next()? as usize })
    }
}

/// Why a pattern is refused.
#[derive(Debug)]
pub struct Error(String);

impl Display for Error {
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::error::Error for Error {}
