//! Request bodies: OpenAI's fields apart from the engine's options.

use crate::api_error::{ApiError, bad_option};
use foretoken::internals::json;
use foretoken::{GenerateOptions, Result};
use serde_json::{Map, Value};

/// OpenAI's options that the engine does not have, with the values that ask for nothing.
const NEUTRAL: [(&str, &[&str]); 9] = [
    ("audio", &[]),
    ("best_of", &["1"]),
    ("echo", &["false"]),
    ("function_call", &["\"none\"", "\"auto\""]),
    ("functions", &["[]"]),
    ("modalities", &["[\"text\"]"]),
    ("suffix", &["\"\""]),
    ("verbosity", &["\"medium\""]),
    ("web_search_options", &[]),
];
/// OpenAI's options that have no part in the text.
const IGNORED: [&str; 7] =
    ["metadata", "prompt_cache_key", "prompt_cache_retention", "safety_identifier", "service_tier", "store", "user"];

/// Maximum of `n`.
const MAX_CHOICES: u64 = 128;

/// Fields of a request that are not null.
pub(crate) struct RequestFields(Map<String, Value>);

/// Fields that chat completions and completions share.
pub(crate) struct Wanted {
    pub n: usize,
    pub stream: bool,
    pub include_usage: bool,
}

impl RequestFields {
    /// Parses a body.
    ///
    /// # Errors
    /// Status 400 if it is not a JSON object.
    pub fn parse(body: Vec<u8>) -> Result<Self, ApiError> {
        let text = String::from_utf8(body).map_err(ApiError::bad_json)?;
        match json::parse(&text).map_err(ApiError::bad_json)? {
            Value::Object(mut fields) => {
                fields.retain(|_, value| !value.is_null());
                Ok(Self(fields))
            }
            _ => Err(ApiError::bad_json("it is another value")),
        }
    }

    /// Takes a field out.
    pub fn take(&mut self, name: &str) -> Option<Value> {
        self.0.shift_remove(name)
    }

    /// Returns a field.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.0.get(name)
    }

    /// Sets a field.
    pub fn set(&mut self, name: &str, value: impl Into<Value>) {
        self.0.insert(name.into(), value.into());
    }

    /// Takes a text out.
    pub fn take_text(&mut self, name: &'static str) -> Result<Option<String>> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(other) => Err(bad_option(name, other, "a text")),
        }
    }

    /// Takes a flag out.
    pub fn take_flag(&mut self, name: &'static str) -> Result<Option<bool>> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::Bool(flag)) => Ok(Some(flag)),
            Some(other) => Err(bad_option(name, other, "true or false")),
        }
    }

    /// Takes the fields that chat completions and completions share, checks and drops those without effect, and brings others into
    /// the form of the engine.
    pub fn take_wanted(&mut self) -> Result<Wanted> {
        for (name, values) in NEUTRAL {
            match self.take(name) {
                Some(given) if !values.contains(&given.to_string().as_str()) => {
                    let allowed = if values.is_empty() { "null".into() } else { values.join(" or ") };
                    return Err(bad_option(name, given, allowed));
                }
                _ => {}
            }
        }
        self.drop_ignored();
        let n = self.take("n").unwrap_or(1.into());
        let count = n.as_u64().filter(|n| (1..=MAX_CHOICES).contains(n));
        let count = count.ok_or_else(|| bad_option("n", n, format!("1 to {MAX_CHOICES}")))?;
        let stream = self.take_flag("stream")?.unwrap_or(false);
        let include_usage = match self.take("stream_options") {
            None => false,
            Some(Value::Object(options)) => options.get("include_usage") == Some(&Value::Bool(true)),
            Some(other) => return Err(bad_option("stream_options", other, "{ \"include_usage\": true }")),
        };
        if let Some(Value::String(stop)) = self.get("stop") {
            self.set("stop", vec![stop.clone()]);
        }
        if let Some(prediction) = self.take("prediction") {
            self.set("prediction", expected_text(prediction)?);
        }
        if let Some(most) = self.take("max_completion_tokens") {
            self.take("max_tokens");
            self.set("max_new_tokens", most);
        }
        Ok(Wanted { n: count as usize, stream, include_usage })
    }

    /// Drops the fields that have no part in the answer.
    pub fn drop_ignored(&mut self) {
        self.0.retain(|name, _| !IGNORED.contains(&name.as_str()));
    }

    /// Reads the remaining fields as options of the engine. Without a number of tokens, `most` applies.
    pub fn into_options(mut self, most: usize) -> Result<GenerateOptions> {
        if self.get("max_tokens").or(self.get("max_new_tokens")).is_none() {
            self.set("max_new_tokens", most);
        }
        let options = GenerateOptions::from_json(Value::Object(self.0))?;
        options.validate()?;
        Ok(options)
    }

    /// Fails if a field is left.
    pub fn finish(self, allowed: &str) -> Result<()> {
        match self.0.keys().next() {
            None => Ok(()),
            Some(name) => Err(bad_option("options", name, allowed)),
        }
    }
}

/// Returns the text of a prediction: a text, or `{type, content}` with a text or text parts.
fn expected_text(prediction: Value) -> Result<String> {
    let part = |part: &Value| part["text"].as_str().filter(|_| part["type"] == "text").map(str::to_owned);
    let text = match &prediction {
        Value::String(text) => Some(text.clone()),
        other => match &other["content"] {
            Value::String(text) => Some(text.clone()),
            Value::Array(parts) => parts.iter().map(part).collect(),
            _ => None,
        },
    };
    text.ok_or_else(|| bad_option("prediction", prediction, "a text, or { type, content } of texts"))
}
