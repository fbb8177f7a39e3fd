//! Reads options by name from any serde format (JSON, JavaScript values), and single values from strings. Errors state the
//! allowed values.

use super::declare::Options;
use super::{
    Acceptance, ArithmeticChoice, ContextPolicy, DeviceChoice, DoSample, DrafterChoice, KvDtype, LookupRule, Pooling,
    Schedule, Speculation, WeightDtype,
};
use crate::error::{Error, Result};
use serde::Deserialize;
use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Unexpected, Visitor,
};
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

/// Maximum nesting of lists and objects; far below what overflows the stack of a WASM module.
const MAX_DEPTH: usize = 64;

pub(super) fn bad<T>(option: impl Into<Cow<'static, str>>, value: impl ToString, allowed: &str) -> Result<T> {
    Err(Error::BadOption { option: option.into(), value: value.to_string(), allowed: allowed.into() })
}

/// A JSON value read from any format. Values that JSON lacks, such as NaN, are errors.
pub(crate) struct Given(pub Value);

impl Given {
    /// Reads a whole value; `option` is its name in the error.
    pub fn read<'de, D: Deserializer<'de>>(option: &'static str, from: D) -> Result<Value> {
        Self::deserialize(from).map(|given| given.0).or_else(|error| refuse(option, &error))
    }
}

impl<'de> Deserialize<'de> for Given {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        AtDepth(0).deserialize(from).map(Self)
    }
}

/// Reads a value at this nesting depth.
struct AtDepth(usize);

impl<'de> DeserializeSeed<'de> for AtDepth {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Value, D::Error> {
        match self.0 {
            ..=MAX_DEPTH => from.deserialize_any(self),
            _ => Err(D::Error::invalid_value(Unexpected::Other("deep nesting"), &self)),
        }
    }
}

impl<'de> Visitor<'de> for AtDepth {
    type Value = Value;

    fn expecting(&self, text: &mut fmt::Formatter) -> fmt::Result {
        write!(text, "what JSON can say, nested at most {MAX_DEPTH} deep")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Value, E> {
        let finite = serde_json::Number::from_f64(value).map(Value::Number);
        finite.ok_or_else(|| E::invalid_value(Unexpected::Float(value), &"a finite number"))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut from: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(value) = from.next_element_seed(Self(self.0 + 1))? {
            list.push(value);
        }
        Ok(list.into())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut from: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some(name) = from.next_key()? {
            object.insert(name, from.next_value_seed(Self(self.0 + 1))?);
        }
        Ok(object.into())
    }
}

/// Reads the values of an object by name, or returns the first error.
struct Fields;

impl<'de> Visitor<'de> for Fields {
    type Value = Result<Map<String, Value>>;

    fn expecting(&self, text: &mut fmt::Formatter) -> fmt::Result {
        text.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut from: A) -> Result<Self::Value, A::Error> {
        let mut fields = Map::new();
        while let Some(name) = from.next_key::<String>()? {
            match from.next_value::<Given>() {
                Ok(Given(value)) => fields.insert(name, value),
                Err(error) => return Ok(refuse(name, &error)),
            };
        }
        Ok(Ok(fields))
    }
}

/// Returns the error for a value that serde could not read, from serde's message.
fn refuse<T>(option: impl Into<Cow<'static, str>>, error: &impl fmt::Display) -> Result<T> {
    let text = error.to_string();
    let found = text.split_once("invalid value: ").or_else(|| text.split_once("invalid type: "));
    match found.and_then(|(_, found)| found.rsplit_once(", expected ")) {
        Some((found, wanted)) => bad(option, found, &in_words(wanted)),
        None => bad(option, format!("this value ({text})"), "what JSON can say"),
    }
}

/// Returns the allowed values from the end of serde's message.
fn wanted(error: &serde_json::Error) -> String {
    let error = error.to_string();
    in_words(error.rsplit_once("expected ").map_or(error.as_str(), |(_, wanted)| wanted))
}

/// Translates serde's name of a type to plain words.
fn in_words(wanted: &str) -> String {
    match wanted.replace('`', "").replace("one of ", "").as_str() {
        "usize" | "u32" | "u64" => "a whole number from 0 on".into(),
        "f32" => "a number".into(),
        "a boolean" => "true or false".into(),
        "a map" => "an object".into(),
        "key to be a number in quotes" => "numbers by token id".into(),
        "a string" => "a text".into(),
        "a sequence" => "a list".into(),
        "string or map" => "one of its names, as a text".into(),
        words => words.into(),
    }
}

/// Reads an enum value from its JSON name.
fn by_name<T: DeserializeOwned>(option: &'static str, name: &str) -> Result<T> {
    serde_json::from_value(name.into()).or_else(|error| bad(option, name, &wanted(&error)))
}

/// Returns the defaults, replaced by the values in an object; null keeps the default.
pub(super) fn read<'de, T: Options, D: Deserializer<'de>>(from: D) -> Result<T> {
    let given = from.deserialize_map(Fields).or_else(|error| refuse("options", &error))??;
    let mut options = T::default();
    for (name, value) in given.into_iter().filter(|(_, value)| !value.is_null()) {
        match options.set(&name, value.clone()) {
            None => return bad("options", name, &T::names().join(", ")),
            Some(Err(error)) => return bad(name, value, &wanted(&error)),
            Some(Ok(())) => {}
        }
    }
    Ok(options)
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

impl FromStr for DoSample {
    type Err = Error;
    fn from_str(name: &str) -> Result<Self> {
        let value = name.parse().map_or_else(|_| name.into(), Value::Bool);
        Self::try_from(value).or_else(|_| bad("do_sample", name, "auto, true, false or model"))
    }
}

by_name! {
    Schedule: "num_assistant_tokens_schedule",
    LookupRule: "prompt_lookup_rule",
    DrafterChoice: "drafter",
    Acceptance: "acceptance",
    ContextPolicy: "context",
    Speculation: "speculation",
    Pooling: "pooling",
    KvDtype: "kv_dtype",
    WeightDtype: "dtype",
    DeviceChoice: "device",
    ArithmeticChoice: "arithmetic"
}
