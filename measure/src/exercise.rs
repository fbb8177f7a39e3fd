//! Prompts of measurements.

use foretoken::{Error, Result};
use serde::Deserialize;
use serde_json::{Deserializer, Value};

/// A prompt of a kind of task.
#[derive(Deserialize)]
pub struct Exercise {
    /// Kind of task.
    #[serde(default)]
    pub kind: String,
    /// Text to continue.
    pub prompt: String,
    /// Most tokens of the continuation.
    #[serde(default = "max_new_tokens")]
    pub max_new_tokens: usize,
}

fn max_new_tokens() -> usize {
    96
}

impl Exercise {
    /// Returns the prompts for the tales models.
    ///
    /// # Errors
    /// As [`Exercise::parse`].
    pub fn tales() -> Result<Vec<Self>> {
        Self::parse(include_str!("prompts.json"), "prompts.json")
    }

    /// Parses a JSON list or JSON lines. Errors name `file`.
    ///
    /// # Errors
    /// [`Error::BadConfig`] with the number of the prompt that is wrong.
    pub fn parse(text: &str, file: &str) -> Result<Vec<Self>> {
        let mut all = Vec::new();
        let bad = |at: usize, error: &dyn ToString| {
            let (key, reason) = (format!("prompt {}", at + 1), error.to_string());
            Error::BadConfig { file: file.into(), key, reason }
        };
        for value in Deserializer::from_str(text).into_iter::<Value>() {
            let values = match value.map_err(|error| bad(all.len(), &error))? {
                Value::Array(values) => values,
                value => vec![value],
            };
            for value in values {
                all.push(Self::deserialize(value).map_err(|error| bad(all.len(), &error))?);
            }
        }
        if all.is_empty() {
            return Err(bad(0, &"the file has no prompt"));
        }
        Ok(all)
    }
}
