//! Options of loading and generating, under Hugging Face's names, validated once.

use crate::error::{Error, Result};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::str::FromStr;

/// How to load a model pair.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct LoadOptions {
    /// Positions of the KV cache; none: what the model was made for, at most 4,096.
    pub max_context: Option<usize>,
    /// How the KV cache stores its elements.
    pub kv_dtype: KvDtype,
    /// Rows of a prefill chunk.
    pub prefill_chunk: usize,
}

impl Default for LoadOptions {
    fn default() -> Self {
        Self { max_context: None, kv_dtype: KvDtype::F32, prefill_chunk: 64 }
    }
}

/// How the KV cache stores its elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum KvDtype {
    /// 4 bytes, exact.
    #[default]
    F32,
    /// 2 bytes, rounded to nearest.
    F16,
}

impl KvDtype {
    /// Bytes per element.
    pub fn size(self) -> u64 {
        match self {
            Self::F32 => 4,
            Self::F16 => 2,
        }
    }
}

/// How to continue a prompt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GenerateOptions {
    /// Most tokens to generate.
    pub max_new_tokens: usize,
    /// Draft tokens that a round begins with; 0: none.
    pub num_assistant_tokens: usize,
    /// How that number changes from round to round.
    pub num_assistant_tokens_schedule: Schedule,
    /// Draft by looking the last tokens up in the text so far, so many tokens at a time, instead of with the draft model.
    pub prompt_lookup_num_tokens: Option<usize>,
    /// Longest n-gram that the lookup tries first.
    pub max_matching_ngram_size: usize,
    /// Which of several matches the lookup takes.
    pub prompt_lookup_rule: LookupRule,
    /// Texts that end the generation; they are not part of the result.
    pub stop: Vec<String>,
    /// Whether to draft at all.
    pub speculation: Speculation,
}

impl Default for GenerateOptions {
    fn default() -> Self {
        Self {
            max_new_tokens: 256,
            num_assistant_tokens: 5,
            num_assistant_tokens_schedule: Schedule::Heuristic,
            prompt_lookup_num_tokens: None,
            max_matching_ngram_size: 2,
            prompt_lookup_rule: LookupRule::Leftmost,
            stop: Vec::new(),
            speculation: Speculation::Auto,
        }
    }
}

/// How the number of draft tokens changes from round to round, by the rules of transformers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Schedule {
    /// It does not.
    Constant,
    /// All accepted: 2 more. Else 1 fewer, at least 1. Kept from call to call.
    Heuristic,
    /// The same, from the start again with every call.
    HeuristicTransient,
}

/// Which of several matches a prompt lookup takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LookupRule {
    /// The first one, as transformers does.
    Leftmost,
    /// The first one, if all the tokens that are asked for follow it: the original (Saxena 2023).
    Whole,
    /// The last one.
    MostRecent,
}

/// Whether to draft.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Speculation {
    /// With what there is: lookup when asked for, else the draft model.
    Auto,
    /// Never: one token per target forward.
    Off,
}

fn bad<T>(option: impl Into<Cow<'static, str>>, value: impl ToString, allowed: &str) -> Result<T> {
    Err(Error::BadOption { option: option.into(), value: value.to_string(), allowed: allowed.into() })
}

/// What would have been right: serde's sentences end with it.
fn wanted(error: &serde_json::Error) -> String {
    let error = error.to_string();
    let wanted = error.rsplit_once("expected ").map_or(error.as_str(), |(_, wanted)| wanted);
    match wanted.replace('`', "").replace("one of ", "").as_str() {
        "usize" => "a whole number from 0 on".into(),
        "a string" => "a text".into(),
        "a sequence" => "a list".into(),
        words => words.into(),
    }
}

/// The value that has this name in JSON.
fn by_name<T: DeserializeOwned>(option: &'static str, name: &str) -> Result<T> {
    serde_json::from_value(name.into()).or_else(|error| bad(option, name, &wanted(&error)))
}

/// The defaults, with what a JSON object names in their place; null leaves the default.
fn from_json<T: Default + Serialize + DeserializeOwned>(text: &str) -> Result<T> {
    let given: Map<String, Value> = match serde_json::from_str(text) {
        Ok(given) => given,
        Err(_) => return bad("options", text, "an object"),
    };
    let object = |value| match value {
        Ok(Value::Object(object)) => object,
        _ => Map::new(),
    };
    let mut all = object(serde_json::to_value(T::default()));
    for (name, value) in given.into_iter().filter(|(_, value)| !value.is_null()) {
        if !all.contains_key(&name) {
            return bad("options", name, &all.keys().map(String::as_str).collect::<Vec<_>>().join(", "));
        }
        all.insert(name.clone(), value.clone());
        if let Err(error) = serde_json::from_value::<T>(Value::Object(all.clone())) {
            return bad(name, value, &wanted(&error));
        }
    }
    serde_json::from_value(Value::Object(all)).or_else(|error| bad("options", text, &wanted(&error)))
}

impl LoadOptions {
    /// The defaults, with what a JSON object names in their place.
    ///
    /// # Errors
    /// [`Error::BadOption`] for an unknown name, or a value of another type.
    pub fn from_json(text: &str) -> Result<Self> {
        from_json(text)
    }

    /// # Errors
    /// [`Error::BadOption`] with the allowed range.
    pub fn validate(&self) -> Result<()> {
        match self.max_context {
            Some(context) if !(2..=1 << 20).contains(&context) => bad("max_context", context, "2 to 1048576"),
            _ if !(1..=4096).contains(&self.prefill_chunk) => bad("prefill_chunk", self.prefill_chunk, "1 to 4096"),
            _ => Ok(()),
        }
    }
}

impl GenerateOptions {
    /// The defaults, with what a JSON object names in their place.
    ///
    /// # Errors
    /// [`Error::BadOption`] for an unknown name, or a value of another type.
    pub fn from_json(text: &str) -> Result<Self> {
        from_json(text)
    }

    /// # Errors
    /// [`Error::BadOption`] with the allowed range.
    pub fn validate(&self) -> Result<()> {
        if self.max_new_tokens == 0 {
            return bad("max_new_tokens", 0, "1 or more");
        }
        if self.prompt_lookup_num_tokens == Some(0) {
            return bad("prompt_lookup_num_tokens", 0, "1 or more; leave it out for no lookup");
        }
        if !(1..=64).contains(&self.max_matching_ngram_size) {
            return bad("max_matching_ngram_size", self.max_matching_ngram_size, "1 to 64");
        }
        if self.stop.iter().any(String::is_empty) {
            return bad("stop", "an empty text", "texts of one character or more");
        }
        Ok(())
    }
}

impl FromStr for Schedule {
    type Err = Error;
    fn from_str(name: &str) -> Result<Self> {
        by_name("num_assistant_tokens_schedule", name)
    }
}

impl FromStr for LookupRule {
    type Err = Error;
    fn from_str(name: &str) -> Result<Self> {
        by_name("prompt_lookup_rule", name)
    }
}

impl FromStr for Speculation {
    type Err = Error;
    fn from_str(name: &str) -> Result<Self> {
        by_name("speculation", name)
    }
}

impl FromStr for KvDtype {
    type Err = Error;
    fn from_str(name: &str) -> Result<Self> {
        by_name("kv_dtype", name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_replaces_defaults_by_name() {
        let options = GenerateOptions::from_json(
            r#"{"max_new_tokens": 7, "num_assistant_tokens_schedule": "constant", "stop": ["."], "speculation": null}"#,
        );
        let expected = GenerateOptions {
            max_new_tokens: 7,
            num_assistant_tokens_schedule: Schedule::Constant,
            stop: vec![".".into()],
            ..GenerateOptions::default()
        };
        assert_eq!(options, Ok(expected));
        assert_eq!(LoadOptions::from_json(r#"{"kv_dtype": "f16"}"#).unwrap().kv_dtype, KvDtype::F16);
    }

    #[test]
    fn json_with_unknown_names_or_other_types_is_refused() {
        for (text, option, value, allowed) in [
            ("[]", "options", "[]", "an object"),
            (r#"{"max_new_token": 7}"#, "options", "max_new_token", "max_matching_ngram_size, max_new_tokens, "),
            (r#"{"max_new_tokens": -1}"#, "max_new_tokens", "-1", "a whole number from 0 on"),
            (r#"{"max_new_tokens": "7"}"#, "max_new_tokens", "\"7\"", "a whole number from 0 on"),
            (r#"{"stop": "."}"#, "stop", "\".\"", "a list"),
            (r#"{"speculation": "on"}"#, "speculation", "\"on\"", "auto or off"),
        ] {
            match GenerateOptions::from_json(text) {
                Err(Error::BadOption { option: named, value: found, allowed: says }) => {
                    assert_eq!((&*named, found.as_str()), (option, value));
                    assert!(says.starts_with(allowed), "{says}");
                }
                other => panic!("{text}: {other:?}"),
            }
        }
    }
}
