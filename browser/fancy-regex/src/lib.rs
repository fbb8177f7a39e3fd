//! What `tokenizers` uses of the crate `fancy-regex`: the browser's regular expressions know no fewer patterns than that.

pub use regex::{Error, Match};
use std::marker::PhantomData;

/// A regular expression.
#[derive(Debug)]
pub struct Regex(regex::Regex);

impl Regex {
    /// Translates it for the browser.
    pub fn new(pattern: &str) -> Result<Self, Error> {
        regex::Regex::new(pattern).map(Self)
    }

    /// The matches from left to right, none of which overlap. None fails.
    pub fn find_iter<'r, 't>(&'r self, text: &'t str) -> Matches<'r, 't> {
        Matches(self.0.find_iter(text), PhantomData)
    }
}

/// Matches of a text.
#[derive(Debug)]
pub struct Matches<'r, 't>(regex::Matches, PhantomData<(&'r Regex, &'t str)>);

impl Iterator for Matches<'_, '_> {
    type Item = Result<Match, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.next().map(Ok)
    }
}
