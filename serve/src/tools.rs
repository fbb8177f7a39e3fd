//! Tools of a request, and grammars of calls that it requires. `www/tools.ts` has the counterparts; one list of cases tests both.

use crate::api_error::bad_option;
use crate::calls::{Callable, text_mark};
use crate::scan::quoted;
use foretoken::internals::text::{Tokenizer, ToolFormat};
use foretoken::{ResponseFormat, Result};
use serde_json::{Map, Value, json};

/// Returns the marks around calls, which are special tokens of many models.
fn marks(format: ToolFormat) -> &'static [&'static str] {
    match format {
        ToolFormat::Hermes | ToolFormat::Xml => &["<tool_call>", "</tool_call>"],
        ToolFormat::Llama => &[],
        ToolFormat::Mistral => &["[TOOL_CALLS]"],
        ToolFormat::MistralArgs => &["[TOOL_CALLS]", "[ARGS]"],
        ToolFormat::Gemma => &["<start_function_call>", "<escape>", "<end_function_call>"],
        ToolFormat::Gemma4 => &["<|tool_call>", "<|\"|>", "<tool_call|>"],
        ToolFormat::Lfm2 => &["<|tool_call_start|>", "<|tool_call_end|>"],
        ToolFormat::Harmony => &["<|channel|>", "<|constrain|>", "<|message|>"],
    }
}

/// Marks in the grammars of one model: special tokens by their ids, others by their characters.
#[derive(Debug, Default)]
pub(crate) struct CallMarks(Vec<(&'static str, String)>);

impl CallMarks {
    /// Returns the marks of a format for a tokenizer.
    pub fn new(format: ToolFormat, tokenizer: &Tokenizer) -> Self {
        let special = |mark: &str| tokenizer.token_to_id(mark).filter(|id| tokenizer.is_special(*id));
        let found = marks(format).iter().filter_map(|mark| Some((*mark, format!("<[{}]>", special(mark)?))));
        Self(found.collect())
    }

    fn symbol(&self, text: &str) -> String {
        self.0.iter().find(|(mark, _)| *mark == text).map_or_else(|| quoted(text), |(_, symbol)| symbol.clone())
    }
}

/// Tools that an answer may call.
#[derive(Debug)]
pub(crate) struct Calling {
    /// Format of the calls.
    pub format: ToolFormat,
    /// Names of the tools, and schemas of their parameters.
    pub tools: Callable,
    /// Maximum number of calls.
    pub most: usize,
    /// Grammar of required calls.
    pub response_format: Option<ResponseFormat>,
}

fn bad<T>(option: &'static str, value: impl ToString, allowed: impl Into<String>) -> Result<T> {
    Err(bad_option(option, value, allowed))
}

/// Returns how the calls of an answer are read and constrained; `None`: no tool may be called. `format`: that of the model.
pub(crate) fn calling(
    tools: Option<&Value>,
    choice: Option<&Value>,
    is_parallel: bool,
    format: Option<ToolFormat>,
    marks: &CallMarks,
) -> Result<Option<Calling>> {
    let auto = Value::from("auto");
    let choice = choice.unwrap_or(&auto);
    let named = (choice["type"] == "function").then(|| choice["function"]["name"].as_str()).flatten();
    let mode = choice.as_str().filter(|mode| ["none", "auto", "required"].contains(mode));
    if named.is_none() && mode.is_none() {
        let allowed = "none, auto, required, or { type: \"function\", function: { name } }";
        return bad("tool_choice", choice, allowed);
    }
    let Some(given) = tools.filter(|tools| tools.as_array().is_none_or(|list| !list.is_empty())) else {
        let is_required = named.is_some() || mode == Some("required");
        return if is_required { bad("tool_choice", choice, "none or auto without tools") } else { Ok(None) };
    };
    let function = |tool: &Value| {
        let name = tool["function"]["name"].as_str().filter(|_| tool["type"] == "function")?.to_owned();
        Some((name, tool["function"].get("parameters").cloned().unwrap_or_default()))
    };
    let list = given.as_array().map(|list| list.iter().map(function).collect::<Option<Vec<_>>>());
    let Some(Some(list)) = list else {
        let allowed = "a list of { type: \"function\", function: { name, description, parameters } }";
        return bad("tools", given, allowed);
    };
    let tools: Callable = list.iter().cloned().collect();
    if let Some(name) = named.filter(|name| !tools.contains_key(*name)) {
        return bad("tool_choice", name, tools.keys().cloned().collect::<Vec<_>>().join(", "));
    }
    let most = if is_parallel { usize::MAX } else { 1 };
    match (mode, format) {
        (Some("none"), _) | (Some("auto"), None) => Ok(None),
        (Some("auto"), Some(format)) => Ok(Some(Calling { format, tools, most, response_format: None })),
        (_, None) => bad("tool_choice", choice, "auto: the model writes calls in an unknown way"),
        (_, Some(format)) => {
            let callable: Vec<_> =
                list.into_iter().filter(|(name, _)| named.is_none_or(|named| name == named)).collect();
            // A message of Harmony has one call.
            let several = is_parallel && named.is_none() && format != ToolFormat::Harmony;
            let lark = required_calls(format, &callable, several, marks)?;
            let response_format = Some(ResponseFormat::grammar(&lark));
            Ok(Some(Calling { format, tools, most: usize::MAX, response_format }))
        }
    }
}

/// Returns the rule of JSON with usual spaces.
fn json_rule(schema: Map<String, Value>) -> String {
    let mut schema = schema;
    let spacing = json!({ "item_separator": ", ", "key_separator": ": ", "whitespace_flexible": false });
    schema.insert("x-guidance".into(), spacing);
    format!("%json {}", Value::Object(schema))
}

/// Returns the schema of an object, with the keywords of `parameters`.
fn object_schema(parameters: &Value) -> Map<String, Value> {
    let mut schema = Map::from_iter([("type".to_owned(), Value::from("object"))]);
    schema.extend(parameters.as_object().cloned().unwrap_or_default());
    schema
}

/// Moves the references of a schema to another root. `is_map`: the keys are names, not keywords.
fn below(root: &str, schema: &Value, is_map: bool) -> Value {
    let moved = |(key, value): (&String, &Value)| {
        let moved = match (key.as_str(), value) {
            ("$ref", Value::String(target)) if !is_map => match target.strip_prefix('#') {
                Some(rest) if rest.is_empty() || rest.starts_with('/') => format!("{root}{rest}").into(),
                _ => value.clone(),
            },
            ("const" | "enum" | "default" | "examples", _) if !is_map => value.clone(),
            ("properties" | "patternProperties" | "$defs" | "definitions", _) => below(root, value, !is_map),
            _ => below(root, value, false),
        };
        (key.clone(), moved)
    };
    match schema {
        Value::Array(list) => list.iter().map(|each| below(root, each, false)).collect(),
        Value::Object(fields) => Value::Object(fields.iter().map(moved).collect()),
        other => other.clone(),
    }
}

/// Returns the grammar of one call or several, in llguidance's Lark.
fn required_calls(format: ToolFormat, tools: &[(String, Value)], several: bool, marks: &CallMarks) -> Result<String> {
    let mark = |text: &str| marks.symbol(text);
    let key = if format == ToolFormat::Llama { "parameters" } else { "arguments" };
    let mut rules = Vec::new();
    let mut calls = Vec::new();
    for (name, parameters) in tools {
        let schema = object_schema(parameters);
        calls.push(match format {
            ToolFormat::MistralArgs => format!("{} {} {}", quoted(name), mark("[ARGS]"), json_rule(schema)),
            ToolFormat::Harmony => [
                mark("<|channel|>"),
                quoted(&format!("commentary to=functions.{name} ")),
                mark("<|constrain|>"),
                "\"json\"".into(),
                mark("<|message|>"),
                json_rule(schema),
            ]
            .join(" "),
            ToolFormat::Gemma | ToolFormat::Gemma4 => {
                let value = unquoted_value(&Value::Object(schema), &mark(text_mark(format)), &mut rules)?;
                format!("{} {value}", quoted(&format!("call:{name}")))
            }
            ToolFormat::Xml => xml_call(name, parameters, &mut rules)?,
            ToolFormat::Hermes | ToolFormat::Llama | ToolFormat::Mistral | ToolFormat::Lfm2 => {
                let arguments = below(&format!("#/properties/{key}"), &Value::Object(schema), false);
                let call = json!({
                    "type": "object",
                    "properties": { "name": { "const": name }, key: arguments },
                    "required": ["name", key],
                    "additionalProperties": false,
                });
                json_rule(call.as_object().cloned().unwrap_or_default())
            }
        });
    }
    let any = (0..calls.len()).map(|i| format!("call_{i}")).collect::<Vec<_>>().join(" | ");
    let any = format!("({any})");
    let around = |open: &str, close: &str| format!("{} {any} {}", mark(open), mark(close));
    let none = String::new;
    let (before, one, between, after) = match format {
        ToolFormat::Hermes | ToolFormat::Xml => {
            let one = format!(r#"{} "\n" {any} "\n" {}"#, mark("<tool_call>"), mark("</tool_call>"));
            (none(), one, r#""\n""#, none())
        }
        ToolFormat::Llama => (none(), any, "\"; \"", none()),
        ToolFormat::Mistral => (format!("{} \"[\"", mark("[TOOL_CALLS]")), any, "\", \"", "\"]\"".into()),
        ToolFormat::MistralArgs => (none(), format!("{} {any}", mark("[TOOL_CALLS]")), "", none()),
        ToolFormat::Gemma => (none(), around("<start_function_call>", "<end_function_call>"), "", none()),
        ToolFormat::Gemma4 => (none(), around("<|tool_call>", "<tool_call|>"), "", none()),
        ToolFormat::Lfm2 => {
            let after = format!("\"]\" {}", mark("<|tool_call_end|>"));
            (format!("{} \"[\"", mark("<|tool_call_start|>")), any, "\", \"", after)
        }
        ToolFormat::Harmony => (none(), any, "", none()),
    };
    let more = if several { format!("({between} one)*") } else { none() };
    let mut lines = vec![format!("start: {before} one {more} {after}"), format!("one: {one}")];
    lines.extend(calls.iter().enumerate().map(|(i, call)| format!("call_{i}: {call}")));
    lines.extend(rules);
    Ok(lines.join("\n"))
}

/// Returns true if the list of required properties has a name.
fn is_required(schema: &Value, name: &str) -> bool {
    schema["required"].as_array().is_some_and(|names| names.iter().any(|each| each.as_str() == Some(name)))
}

/// Returns the grammar of a call in XML. Texts are written as they are, other values as JSON. Adds rules to those of the grammar.
fn xml_call(name: &str, parameters: &Value, rules: &mut Vec<String>) -> Result<String> {
    let mut call = vec![quoted(&format!("<function={name}>\n"))];
    for (key, schema) in parameters["properties"].as_object().into_iter().flatten() {
        let is_text = schema["type"] == "string" || schema.get("const").is_some() || !schema["enum"].is_null();
        let value = if is_text {
            unquoted_value(schema, "", rules)?
        } else {
            let mut own = schema.as_object().cloned().unwrap_or_default();
            for definitions in ["$defs", "definitions"] {
                own.extend(parameters.get(definitions).map(|all| (definitions.to_owned(), all.clone())));
            }
            json_rule(own)
        };
        let rule = format!("field_{}", rules.len());
        let open = quoted(&format!("<parameter={key}>\n"));
        rules.push(format!("{rule}: {open} {value} {}", quoted("\n</parameter>\n")));
        call.push(if is_required(parameters, key) { rule } else { format!("{rule}?") });
    }
    call.push("\"</function>\"".into());
    Ok(call.join(" "))
}

/// Keywords of JSON Schema that do not restrict a value.
const ANNOTATIONS: [&str; 7] =
    ["type", "title", "description", "default", "examples", "$schema", "additionalProperties"];

/// Returns the keywords that are supported for values in another notation than JSON; `None`: the type is not supported.
fn covered(kind: &str) -> Option<&'static [&'static str]> {
    match kind {
        "string" => Some(&["minLength", "maxLength"]),
        "array" => Some(&["items"]),
        "object" => Some(&["properties", "required"]),
        _ => None,
    }
}

/// Returns the grammar of a value in Gemma's notation: texts between marks, keys without quotes and in alphabetical order. Adds rules
/// to those of the grammar.
fn unquoted_value(schema: &Value, mark: &str, rules: &mut Vec<String>) -> Result<String> {
    let Value::Object(fields) = schema else { return bad("tools", schema, "schemas that are objects") };
    let either = |parts: &[String]| format!("({})", parts.join(" | "));
    let text = |value: &Value| match value {
        Value::String(text) => format!("{mark} {} {mark}", quoted(text)),
        other => quoted(&other.to_string()),
    };
    if let Some(value) = fields.get("const") {
        return Ok(text(value));
    }
    if let Some(values) = schema["enum"].as_array() {
        return Ok(either(&values.iter().map(text).collect::<Vec<_>>()));
    }
    if let Some(kinds) = schema["type"].as_array() {
        let one = |kind: &Value| {
            let mut fields = fields.clone();
            fields.insert("type".into(), kind.clone());
            unquoted_value(&Value::Object(fields), mark, rules)
        };
        return Ok(either(&kinds.iter().map(one).collect::<Result<Vec<_>>>()?));
    }
    let kind = schema["type"].as_str().unwrap_or_default();
    if ["number", "integer", "boolean", "null"].contains(&kind) {
        return Ok(json_rule(fields.clone()));
    }
    let known = covered(kind);
    let is_known =
        |key: &&String| ANNOTATIONS.contains(&key.as_str()) || known.is_some_and(|known| known.contains(&key.as_str()));
    let unknown = fields.keys().find(|key| !is_known(key));
    if unknown.is_some() || known.is_none() {
        let keyword = unknown.map_or("type", String::as_str);
        let allowed = "what this model can be made to write: types, enum, const, minLength, maxLength, items, properties, required";
        return bad("tools", format!("JSON Schema's {keyword}"), allowed);
    }
    let count = |name: &str| schema[name].as_u64();
    match kind {
        "string" => {
            let least = count("minLength").unwrap_or(0);
            let most = count("maxLength").map_or(String::new(), |most| most.to_string());
            let may_be_empty = if least > 0 { "" } else { "?" };
            Ok(format!("{mark} /[^<]{{{},{most}}}/{may_be_empty} {mark}", least.max(1)))
        }
        "array" => {
            let texts = json!({ "type": "string" });
            let item = unquoted_value(fields.get("items").unwrap_or(&texts), mark, rules)?;
            Ok(format!("\"[\" ({item} (\",\" {item})*)? \"]\""))
        }
        _ => object_value(schema, mark, rules),
    }
}

/// Returns the grammar of an object in Gemma's notation.
fn object_value(schema: &Value, mark: &str, rules: &mut Vec<String>) -> Result<String> {
    let mut properties: Vec<_> = schema["properties"].as_object().into_iter().flatten().collect();
    properties.sort_by_key(|(name, _)| name.encode_utf16().collect::<Vec<_>>());
    let mut fields = Vec::new();
    for (name, schema_of_value) in properties {
        let value = unquoted_value(schema_of_value, mark, rules)?;
        let rule = format!("field_{}", rules.len());
        rules.push(format!("{rule}: {} {value}", quoted(&format!("{name}:"))));
        fields.push((rule, is_required(schema, name)));
    }
    if fields.is_empty() {
        return Ok("\"{}\"".into());
    }
    // No comma before the first key.
    let last = fields.iter().position(|(_, is_required)| *is_required);
    let list = |first: usize| {
        let rest = fields[first + 1..].iter().map(|(rule, is_required)| {
            let optional = if *is_required { "" } else { "?" };
            format!("(\",\" {rule}){optional}")
        });
        std::iter::once(fields[first].0.clone()).chain(rest).collect::<Vec<_>>().join(" ")
    };
    let lists: Vec<_> = (0..last.map_or(fields.len(), |last| last + 1)).map(list).collect();
    let optional = if last.is_none() { "?" } else { "" };
    Ok(format!("\"{{\" ({}){optional} \"}}\"", lists.join(" | ")))
}
