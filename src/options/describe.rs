//! Descriptions of the options, from which the flags of the program, the TypeScript types and the demo's settings are made.

use super::declare::Options;
use super::value::{Allowed, OptionValue};
use super::{GenerateOptions, LoadOptions};
use serde::Serialize;
use serde_json::Value;

/// An option as it is declared.
#[derive(Debug, Clone)]
pub struct Declared {
    /// Name in the API.
    pub name: &'static str,
    /// Description in sentences, with names and values in backticks.
    pub about: String,
    /// Kind of values.
    pub kind: Kind,
    /// Default value, in words.
    pub default: String,
    /// Allowed numbers, in words.
    pub allowed: Option<String>,
}

/// Kind of values of an option.
#[derive(Debug, Clone, PartialEq)]
pub enum Kind {
    /// True or false.
    Flag,
    /// A whole number.
    Count,
    /// A number.
    Number,
    /// A text.
    Text,
    /// A list of texts.
    Texts,
    /// One of several names, each with its description.
    Choice(Vec<(&'static str, String)>),
    /// Numbers by token id.
    Biases,
    /// A list of lists of token ids.
    Sequences,
    /// A list of objects.
    Objects,
    /// An object.
    Object,
    /// A `ResponseFormat`.
    Format,
}

/// Returns the options of loading, in the order of their declarations.
pub fn load_options() -> Vec<Declared> {
    LoadOptions::declared()
}

/// Returns the options of a generation, in the order of their declarations.
pub fn generate_options() -> Vec<Declared> {
    GenerateOptions::declared()
}

/// Returns the first paragraph of a documentation comment as one line; later paragraphs are for Rust programs only.
pub(super) fn first_paragraph(comment: &str) -> String {
    let paragraph = comment.lines().map(str::trim).take_while(|line| !line.is_empty());
    paragraph.collect::<Vec<_>>().join(" ")
}

impl Declared {
    /// Describes an option. `words`: its default in words, if the value says too little; `note`: a remark on the allowed numbers.
    pub(super) fn new<T: OptionValue + Serialize>(
        name: &'static str,
        comment: &str,
        default: &T,
        words: &str,
        allowed: Option<(Allowed, &str)>,
    ) -> Self {
        let mut kind = T::kind();
        let allowed = match (&mut kind, allowed) {
            (Kind::Choice(choices), Some((Allowed::Names(names), _))) => {
                choices.retain(|(name, _)| names.contains(name));
                // The description says what these names mean for this option.
                choices.iter_mut().for_each(|(_, meaning)| meaning.clear());
                None
            }
            (_, Some((allowed, ""))) => Some(allowed.to_string()),
            (_, Some((allowed, note))) => Some(format!("{allowed}; {note}")),
            (_, None) => None,
        };
        let default = match serde_json::to_value(default) {
            _ if !words.is_empty() => words.into(),
            Ok(Value::String(name)) => name,
            Ok(Value::Bool(value)) => value.to_string(),
            Ok(Value::Number(number)) => number.as_f64().unwrap_or_default().to_string(),
            _ => "none".into(),
        };
        Self { name, about: first_paragraph(comment), kind, default, allowed }
    }

    /// Returns the names of a choice and their meanings, if the description does not state them.
    pub fn meanings(&self) -> impl Iterator<Item = &(&'static str, String)> {
        let choices = if let Kind::Choice(choices) = &self.kind { &choices[..] } else { &[] };
        choices.iter().filter(|(_, meaning)| !meaning.is_empty())
    }
}
