//! Prompts of measurements.

use super::files;
use foretoken::{Error, Result};
use serde::Deserialize;
use serde_json::{Deserializer, Value};
use std::path::PathBuf;

/// A prompt of a kind of task.
#[derive(Deserialize)]
pub(super) struct Exercise {
    #[serde(default)]
    pub kind: String,
    pub prompt: String,
    #[serde(default = "max_new_tokens")]
    pub max_new_tokens: usize,
}

fn max_new_tokens() -> usize {
    96
}

/// File of prompts.
#[derive(clap::Args)]
pub(super) struct PromptsFlag {
    /// File of prompts, a JSON list or JSON lines: {"prompt": TEXT}, with a "kind" and "max_new_tokens" if you like [default: those of the tales]
    #[arg(long, value_name = "FILE")]
    prompts: Option<PathBuf>,
}

impl PromptsFlag {
    /// Reads the prompts.
    ///
    /// # Errors
    /// [`Error::NotFound`]; [`Error::BadConfig`] with the number of the prompt that is wrong.
    pub fn read_file(&self) -> Result<Vec<Exercise>> {
        match &self.prompts {
            Some(file) => parse(&files::text(file)?, &file.display().to_string()),
            None => parse(include_str!("bench/prompts.json"), "prompts.json"),
        }
    }
}

fn parse(text: &str, file: &str) -> Result<Vec<Exercise>> {
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
            all.push(Exercise::deserialize(value).map_err(|error| bad(all.len(), &error))?);
        }
    }
    if all.is_empty() {
        return Err(bad(0, &"the file has no prompt"));
    }
    Ok(all)
}
