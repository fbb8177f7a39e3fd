//! A message of a conversation: parsed from the caller's JSON, and shown to templates.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering::Relaxed},
};

use minijinja::value::{Enumerator, Object, Value as View};
use serde_json::{Map, Value};

use crate::error::{Error, Result};
use crate::json;

/// Message of a conversation: `role`, `content`, and other fields that the model's chat template uses, such as `name`, `tool_calls` or
/// `reasoning_content`. Fields keep their order, because templates may print it.
#[derive(Clone, Debug, PartialEq)]
pub struct Message(Map<String, Value>);

impl Message {
    /// Creates a message with `role` and `content`.
    pub fn new(role: impl Into<String>, content: impl Into<String>) -> Self {
        let fields = [("role", role.into()), ("content", content.into())];
        Self(fields.into_iter().map(|(name, text)| (name.to_owned(), text.into())).collect())
    }

    /// Returns the role: `system`, `user`, `assistant`, or another role that the template supports.
    pub fn role(&self) -> &str {
        self.text("role")
    }

    /// Returns the content; empty if there are only tool calls.
    pub fn content(&self) -> &str {
        self.text("content")
    }

    fn text(&self, field: &str) -> &str {
        self.0.get(field).and_then(Value::as_str).unwrap_or_default()
    }

    /// Returns all fields.
    pub(super) fn fields(&self) -> &Map<String, Value> {
        &self.0
    }

    /// Appends `more` to the content.
    pub(super) fn and(mut self, more: &str) -> Self {
        if let Some(Value::String(content)) = self.0.get_mut("content") {
            content.push_str(more);
        }
        self
    }
}

/// Parses an object with a string as `role`. `content` is a string, a list of text parts `{type: "text", text}`, which are joined, or null
/// next to `tool_calls`. Arguments of a call may be a JSON string, as in OpenAI's API; templates get the parsed value.
///
/// # Errors
/// [`Error::BadOption`] for anything else.
impl TryFrom<Value> for Message {
    type Error = Error;

    fn try_from(value: Value) -> Result<Self> {
        let Value::Object(mut fields) = value else {
            return refuse(kind(&value), "an object {role, content}");
        };
        match fields.get("role") {
            Some(Value::String(_)) => {}
            None => return refuse("one without a role", "role: a text, such as user"),
            Some(role) => return refuse(format!("{} as role", kind(role)), "a text, such as user"),
        }
        let has_tool_calls = fields.get("tool_calls").is_some_and(is_data);
        match fields.get_mut("content") {
            Some(Value::String(_)) => {}
            Some(content @ Value::Array(_)) => *content = join(content)?.into(),
            None | Some(Value::Null) if has_tool_calls => {}
            None => return refuse("one without content", "content: a text; null only beside tool_calls"),
            Some(content) => {
                return refuse(
                    format!("{} as content", kind(content)),
                    "a text, a list of text parts; null beside tool_calls",
                );
            }
        }
        for call in fields.get_mut("tool_calls").and_then(Value::as_array_mut).into_iter().flatten() {
            let function = if call.get("function").is_some() { &mut call["function"] } else { call };
            if let Some(Value::String(text)) = function.get("arguments") {
                let arguments = json::parse(if text.is_empty() { "{}" } else { text });
                match arguments {
                    Ok(arguments) => function["arguments"] = arguments,
                    Err(_) => return refuse(text, "as arguments of a call: JSON"),
                }
            }
        }
        Ok(Self(fields))
    }
}

/// Joins the text of content parts.
fn join(parts: &Value) -> Result<String> {
    let text = |part: &Value| match (part["type"].as_str(), part["text"].as_str()) {
        (Some("text"), Some(text)) => Ok(text.to_owned()),
        (Some(kind), _) if kind != "text" => refuse(format!("a content part of the type {kind}"), TEXT_PART),
        _ => refuse(format!("{} as a content part", kind(part)), TEXT_PART),
    };
    parts.as_array().into_iter().flatten().map(text).collect()
}

const TEXT_PART: &str = "text parts {type: \"text\", text}: the engine reads text only";

fn refuse<T>(value: impl Into<String>, allowed: &str) -> Result<T> {
    Err(Error::BadOption { option: "messages".into(), value: value.into(), allowed: allowed.into() })
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

fn is_data(value: &Value) -> bool {
    !(value.is_null() || value.as_array().is_some_and(Vec::is_empty))
}

/// Appends every string in an object to `found`, including field names.
pub(super) fn collect<'a>(fields: &'a Map<String, Value>, found: &mut Vec<&'a str>) {
    for (name, value) in fields {
        found.push(name);
        collect_value(value, found);
    }
}

fn collect_value<'a>(value: &'a Value, found: &mut Vec<&'a str>) {
    match value {
        Value::String(text) => found.push(text),
        Value::Array(list) => list.iter().for_each(|value| collect_value(value, found)),
        Value::Object(fields) => collect(fields, found),
        _ => {}
    }
}

/// Converts a value for templates and applies `change` to its strings.
pub(super) fn view(value: &Value, change: &dyn Fn(&str) -> String) -> View {
    match value {
        Value::String(text) => match json::integer(text) {
            None => change(text).into(),
            Some(digits) => match (digits.parse::<i128>(), digits.parse::<u128>()) {
                (Ok(number), _) => number.into(),
                (_, Ok(number)) => number.into(),
                _ => digits.parse::<f64>().unwrap_or(f64::INFINITY).into(),
            },
        },
        Value::Array(list) => list.iter().map(|value| view(value, change)).collect(),
        Value::Object(fields) => View::from_object(Fields::new(fields, change)),
        Value::Null => ().into(),
        Value::Bool(value) => (*value).into(),
        Value::Number(number) => match (number.as_i64(), number.as_u64()) {
            (Some(number), _) => number.into(),
            (None, Some(number)) => number.into(),
            (None, None) => number.as_f64().into(),
        },
    }
}

/// Mapping that keeps the order of its keys and records which fields were read.
#[derive(Debug)]
pub(super) struct Fields(Vec<MessageField>);

#[derive(Debug)]
struct MessageField {
    name: String,
    value: View,
    is_data: bool,
    seen: AtomicBool,
}

impl Fields {
    /// Converts an object for templates and applies `change` to its strings.
    pub fn new(fields: &Map<String, Value>, change: &dyn Fn(&str) -> String) -> Self {
        let field = |(name, value): (&String, &Value)| MessageField {
            name: change(name),
            value: view(value, change),
            is_data: is_data(value),
            seen: AtomicBool::new(false),
        };
        Self(fields.iter().map(field).collect())
    }

    /// Returns the names of non-empty fields other than those that every message may have, and whether each was read. Templates may omit
    /// the thoughts of earlier answers.
    pub fn more(&self) -> impl Iterator<Item = (&str, bool)> {
        // The position of an answer to a call also identifies the call and its function, so a template may ignore `name`.
        let is_answer = self.0.iter().any(|field| field.name == "tool_call_id");
        let is_known = move |name: &str| match name {
            "role" | "content" | "tool_call_id" | "reasoning_content" | "thinking" => true,
            name => is_answer && name == "name",
        };
        let more = self.0.iter().filter(move |field| field.is_data && !is_known(&field.name));
        more.map(|field| (field.name.as_str(), field.seen.load(Relaxed)))
    }
}

impl Object for Fields {
    fn get_value(self: &Arc<Self>, key: &View) -> Option<View> {
        let field = self.0.iter().find(|field| Some(field.name.as_str()) == key.as_str())?;
        field.seen.store(true, Relaxed);
        Some(field.value.clone())
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Values(self.0.iter().map(|field| View::from(&field.name)).collect())
    }
}
