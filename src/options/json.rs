//! Options by name: from JSON, and single values from words; what is refused says what would have been right.

use super::{Acceptance, ContextPolicy, DrafterChoice, KvDtype, LookupRule, Schedule, Speculation};
use crate::error::{Error, Result};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::str::FromStr;

pub(super) fn bad<T>(option: impl Into<Cow<'static, str>>, value: impl ToString, allowed: &str) -> Result<T> {
    Err(Error::BadOption { option: option.into(), value: value.to_string(), allowed: allowed.into() })
}

/// What would have been right: serde's sentences end with it.
fn wanted(error: &serde_json::Error) -> String {
    let error = error.to_string();
    let wanted = error.rsplit_once("expected ").map_or(error.as_str(), |(_, wanted)| wanted);
    match wanted.replace('`', "").replace("one of ", "").as_str() {
        "usize" | "u32" | "u64" => "a whole number from 0 on".into(),
        "f32" => "a number".into(),
        "a boolean" => "true or false".into(),
        "a map" => "an object: numbers by token id".into(),
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
pub(super) fn from_json<T: Default + Serialize + DeserializeOwned>(text: &str) -> Result<T> {
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

macro_rules! by_name {
    ($($kind:ty: $option:literal),*) => {
        $(impl FromStr for $kind {
            type Err = Error;
            fn from_str(name: &str) -> Result<Self> {
                by_name($option, name)
            }
        })*
    };
}

by_name! {
    Schedule: "num_assistant_tokens_schedule",
    LookupRule: "prompt_lookup_rule",
    DrafterChoice: "drafter",
    Acceptance: "acceptance",
    ContextPolicy: "context",
    Speculation: "speculation",
    KvDtype: "kv_dtype"
}
