//! One message of a conversation, as a caller gives it and as a template sees it.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering::Relaxed},
};

use minijinja::value::{Enumerator, Object, Value as View};
use serde_json::{Map, Value};

use crate::error::{Error, Result};
use crate::json;

/// One message of a conversation: `role`, `content`, and whatever else the model's chat template looks at, such as `name`,
/// `tool_calls` or `reasoning_content`. Fields keep their order, because templates may show it.
#[derive(Clone, Debug, PartialEq)]
pub struct Message(Map<String, Value>);

impl Message {
    /// What `role` says.
    pub fn new(role: impl Into<String>, content: impl Into<String>) -> Self {
        let fields = [("role", role.into()), ("content", content.into())];
        Self(fields.into_iter().map(|(name, text)| (name.to_owned(), text.into())).collect())
    }

    /// Who speaks: `system`, `user`, `assistant`; what else there is depends on the template.
    pub fn role(&self) -> &str {
        self.text("role")
    }

    /// What is said; empty where there are only tool calls.
    pub fn content(&self) -> &str {
        self.text("content")
    }

    fn text(&self, field: &str) -> &str {
        self.0.get(field).and_then(Value::as_str).unwrap_or_default()
    }

    /// What it is made of.
    pub(super) fn fields(&self) -> &Map<String, Value> {
        &self.0
    }

    /// The same, with more behind its content.
    pub(super) fn and(mut self, more: &str) -> Self {
        if let Some(Value::String(content)) = self.0.get_mut("content") {
            content.push_str(more);
        }
        self
    }
}

/// From an object with a text as `role`, and as `content` a text, a list of text parts `{type: "text", text}`, which are
/// joined, or null beside `tool_calls`. The arguments of a call may be JSON, as OpenAI has them: templates see what it says.
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

/// The text of content parts.
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

/// Whether leaving it out would lose something.
fn is_data(value: &Value) -> bool {
    !(value.is_null() || value.as_array().is_some_and(Vec::is_empty))
}

/// Every string in an object, names of fields included.
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

/// As templates see it, its strings changed.
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

/// A mapping whose keys keep their order, and which remembers what was looked at.
#[derive(Debug)]
pub(super) struct Fields(Vec<Field>);

#[derive(Debug)]
struct Field {
    name: String,
    value: View,
    is_data: bool,
    seen: AtomicBool,
}

impl Fields {
    /// As templates see an object, its strings changed.
    pub fn new(fields: &Map<String, Value>, change: &dyn Fn(&str) -> String) -> Self {
        let field = |(name, value): (&String, &Value)| Field {
            name: change(name),
            value: view(value, change),
            is_data: is_data(value),
            seen: AtomicBool::new(false),
        };
        Self(fields.iter().map(field).collect())
    }

    /// The names of the fields beside those that every message may have, if they hold something, and whether they were looked at.
    pub fn more(&self) -> impl Iterator<Item = (&str, bool)> {
        // Which call a message answers, and with that which function, its place says too.
        let is_answer = self.0.iter().any(|field| field.name == "tool_call_id");
        let known: &[&str] =
            if is_answer { &["role", "content", "tool_call_id", "name"] } else { &["role", "content", "tool_call_id"] };
        let more = self.0.iter().filter(move |field| field.is_data && !known.contains(&field.name.as_str()));
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
