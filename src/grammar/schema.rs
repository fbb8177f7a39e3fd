//! JSON schemas for llguidance, and errors that name an unsupported keyword.

use super::{KEYWORDS, bad};
use crate::error::Result;
use crate::json;
use serde_json::{Map, Number, Value, json};
use std::collections::HashSet;

/// Keywords whose value is a schema.
const ONE: [&str; 11] = [
    "additionalItems",
    "additionalProperties",
    "contains",
    "else",
    "if",
    "items",
    "not",
    "propertyNames",
    "then",
    "unevaluatedItems",
    "unevaluatedProperties",
];
const LIST: [&str; 5] = ["allOf", "anyOf", "items", "oneOf", "prefixItems"];
/// Keywords whose value maps names to schemas.
const NAMED: [&str; 3] = ["dependentSchemas", "patternProperties", "properties"];
/// Keywords that hold schemas for references.
const DEFINITIONS: [&str; 2] = ["$defs", "definitions"];
/// Keywords whose value is a number or contains JSON values.
const NUMBERS: [&str; 7] =
    ["const", "enum", "exclusiveMaximum", "exclusiveMinimum", "maximum", "minimum", "multipleOf"];
/// Keywords whose value is a whole number.
const COUNTS: [&str; 6] = ["maxItems", "maxLength", "maxProperties", "minItems", "minLength", "minProperties"];
/// Keywords that describe a schema and constrain nothing.
const ANNOTATIONS: [&str; 6] = ["$comment", "default", "deprecated", "description", "examples", "title"];

/// Prepares a schema: removes keywords that constrain nothing, makes counts integers, replaces references with escapes.
///
/// # Errors
/// [`Error::BadOption`](crate::Error::BadOption) for a number whose digits llguidance would change.
pub(super) fn prepare(mut schema: Value) -> Result<Value> {
    let mut escaped = Vec::new();
    prepare_at(&mut schema, "#", &mut escaped)?;
    for (index, reference) in escaped.iter().enumerate() {
        let Some(target) = find(&schema, reference).cloned() else { continue };
        let Some(root) = schema.as_object_mut() else { break };
        let definitions = root.entry("$defs").or_insert_with(|| json!({}));
        if let Some(definitions) = definitions.as_object_mut() {
            definitions.insert(alias(index), target);
        }
    }
    Ok(schema)
}

/// Prepares the schema at `place`, a JSON pointer. Adds to `escaped` the references that [`alias`] replaces.
fn prepare_at(schema: &mut Value, place: &str, escaped: &mut Vec<String>) -> Result<()> {
    let Some(fields) = schema.as_object_mut() else { return Ok(()) };
    let is_idle: Vec<_> = fields.keys().filter(|key| constrains_nothing(key, fields)).cloned().collect();
    for key in is_idle {
        fields.remove(&key);
    }
    for key in NUMBERS {
        if let Some(number) = fields.get(key).and_then(inexact) {
            let allowed = "numbers that a 64-bit float holds exactly".into();
            return bad(format!("JSON Schema's {key:?} {number} at {place}"), allowed);
        }
    }
    for key in COUNTS {
        // 2.0 is an integer too.
        if let Some(value) = fields.get_mut(key)
            && let Some(count) = value.as_f64().filter(|count| count.fract() == 0.0 && *count >= 0.0)
        {
            *value = (count as u64).into();
        }
    }
    if let Some(Value::String(reference)) = fields.get_mut("$ref")
        && reference.starts_with("#/")
        && reference.contains(['~', '%'])
    {
        let known = escaped.iter().position(|known| known == reference);
        let index = known.unwrap_or_else(|| {
            escaped.push(reference.clone());
            escaped.len() - 1
        });
        *reference = format!("#/$defs/{}", alias(index));
    }
    for (inner, path) in children_mut(fields) {
        prepare_at(inner, &format!("{place}/{path}"), escaped)?;
    }
    Ok(())
}

/// Refuses key patterns that match only names in `properties`: llguidance would begin such a key and find no end.
pub(super) fn check_patterns(schema: &Value, place: &str, compile: &dyn Fn(Value) -> Result<(), String>) -> Result<()> {
    let Value::Object(fields) = schema else { return Ok(()) };
    if let (Some(Value::Object(named)), Some(Value::Object(patterns))) =
        (fields.get("properties"), fields.get("patternProperties"))
    {
        // All named properties, and one more.
        let all: Map<_, _> = named.keys().map(|key| (key.clone(), json!({ "type": "null" }))).collect();
        for pattern in patterns.keys() {
            let of = |named: &Map<String, Value>| {
                let (required, keys) = (named.keys().collect::<Vec<_>>(), json!({ pattern: { "type": "null" } }));
                json!({ "type": "object", "properties": named, "required": required, "patternProperties": keys,
                    "additionalProperties": false, "minProperties": named.len() + 1 })
            };
            if compile(of(&Map::new())).is_ok() && compile(of(&all)).is_err() {
                let allowed = "patterns that match other keys than those of its \"properties\"".into();
                return bad(format!("JSON Schema's \"patternProperties\" {pattern:?} at {place}"), allowed);
            }
        }
    }
    let mut fields = fields.clone();
    children_mut(&mut fields)
        .into_iter()
        .try_for_each(|(inner, path)| check_patterns(inner, &format!("{place}/{path}"), compile))
}

/// Returns the name of the definition that replaces a reference with escapes.
fn alias(index: usize) -> String {
    format!("foretoken-reference-{index}")
}

/// Returns true if every value satisfies the keyword `key` of a schema.
fn constrains_nothing(key: &str, schema: &Map<String, Value>) -> bool {
    let Some(value) = schema.get(key) else { return false };
    match key {
        "uniqueItems" | "$recursiveAnchor" => *value == false,
        "not" => *value == false,
        "allOf" => value.as_array().is_some_and(Vec::is_empty),
        "dependentSchemas" | "dependencies" => value.as_object().is_some_and(Map::is_empty),
        "dependentRequired" => value.as_object().is_some_and(|keys| keys.values().all(|keys| *keys == json!([]))),
        // Every key is a string.
        "propertyNames" => allows_everything(value, Some("string")),
        "unevaluatedItems" | "unevaluatedProperties" => allows_everything(value, None),
        "if" => !schema.contains_key("then") && !schema.contains_key("else"),
        "then" | "else" => !schema.contains_key("if"),
        "contains" => {
            schema.get("minContains").and_then(Value::as_f64) == Some(0.0) && !schema.contains_key("maxContains")
        }
        "minContains" | "maxContains" => !schema.contains_key("contains") || constrains_nothing("contains", schema),
        _ => false,
    }
}

/// Returns true if a schema allows every value (of the type `of`).
fn allows_everything(schema: &Value, of: Option<&str>) -> bool {
    match schema {
        Value::Object(fields) => fields.iter().all(|(key, value)| match (key.as_str(), of) {
            ("type", Some(of)) => *value == of || value.as_array().is_some_and(|types| types.contains(&of.into())),
            (key, _) => ANNOTATIONS.contains(&key),
        }),
        other => *other == true,
    }
}

/// Returns a number in `value` that is inexact as a 64-bit float.
fn inexact(value: &Value) -> Option<String> {
    let is_exact = |number: &Number| match (number.as_i64(), number.as_u64()) {
        (Some(whole), _) => whole as f64 as i128 == i128::from(whole),
        (_, Some(whole)) => whole as f64 as u128 == u128::from(whole),
        _ => true,
    };
    match value {
        Value::Number(number) => (!is_exact(number)).then(|| number.to_string()),
        Value::String(text) => json::integer(text).map(str::to_owned),
        Value::Array(list) => list.iter().find_map(inexact),
        Value::Object(fields) => fields.values().find_map(inexact),
        _ => None,
    }
}

/// Returns the subschemas of a schema, each with its path.
fn children_mut(fields: &mut Map<String, Value>) -> Vec<(&mut Value, String)> {
    let mut children = Vec::new();
    for (key, value) in fields {
        let name = key.as_str();
        let has_names = NAMED.contains(&name) || DEFINITIONS.contains(&name);
        if LIST.contains(&name) && value.is_array() {
            let list = value.as_array_mut().into_iter().flatten().enumerate();
            children.extend(list.map(|(index, inner)| (inner, format!("{name}/{index}"))));
        } else if has_names {
            let named = value.as_object_mut().into_iter().flatten();
            children.extend(named.map(|(inner, value)| (value, format!("{name}/{}", escape(inner)))));
        } else if ONE.contains(&name) {
            children.push((value, name.to_owned()));
        }
    }
    children
}

/// Escapes a key for a JSON pointer.
fn escape(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

/// Returns the target of a reference.
fn find<'a>(root: &'a Value, reference: &str) -> Option<&'a Value> {
    root.pointer(&unpercent(reference.strip_prefix('#')?)?)
}

/// Decodes percent escapes: `%41` is `A`.
fn unpercent(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let digits = after.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        let code = digits.filter(|_| first == b'%').and_then(|digits| u8::from_str_radix(digits, 16).ok());
        bytes.push(code.unwrap_or(first));
        rest = if code.is_some() { &after[2..] } else { after };
    }
    String::from_utf8(bytes).ok()
}

/// Refuses a prepared schema by the keyword that `compile` rejects, and its place. `reason`: the error for the whole schema.
pub(super) fn refuse<T>(root: &Value, reason: &str, compile: &dyn Fn(Value) -> Result<(), String>) -> Result<T> {
    let mut absolute = root.clone();
    make_absolute(&mut absolute);
    // Compiles a subschema alone, with all that it may refer to.
    let alone = |schema: &Value| {
        let definitions = json!({ "case": schema, "root": absolute });
        compile(json!({ "$ref": "#/$defs/case", "$defs": definitions }))
    };
    let (mut schema, mut place, mut why) = (absolute.clone(), "#".to_owned(), reason.to_owned());
    let mut seen = HashSet::new();
    while let Some((inner, path, reason)) =
        children(&schema, &place, &absolute).into_iter().find_map(|(inner, path)| {
            let is_new = inner.is_object() && seen.insert(path.clone());
            let reason = is_new.then(|| alone(&inner).err()).flatten();
            reason.map(|reason| (inner, path, reason))
        })
    {
        (schema, place, why) = (inner, path, reason);
    }
    let Value::Object(fields) = &schema else {
        return bad(format!("JSON Schema's {schema} at {place}"), KEYWORDS.into());
    };
    let keys: Vec<_> = fields.keys().filter(|key| !DEFINITIONS.contains(&key.as_str())).collect();
    let passes_without = |key: &str| {
        let mut less = fields.clone();
        less.remove(key);
        alone(&less.into()).is_ok()
    };
    let mut culprits: Vec<_> = keys.iter().copied().filter(|key| passes_without(key)).collect();
    if culprits.is_empty() {
        culprits = keys.into_iter().filter(|key| alone(&json!({ *key: fields[*key] })).is_err()).collect();
    }
    let named = |key: &String| match &fields[key] {
        value @ (Value::String(_) | Value::Number(_)) => format!("{key:?} {value}").replace("#/$defs/root", "#"),
        _ => format!("{key:?}"),
    };
    let unknown = why.split_once("Unimplemented keys: ").map(|(_, keys)| keys.trim_matches(['[', ']']).to_owned());
    let named = unknown.unwrap_or_else(|| culprits.into_iter().map(named).collect::<Vec<_>>().join(" with "));
    let place = if place == "#" { String::new() } else { format!(" at {place}") };
    let why = if why.starts_with("oneOf constraints are not supported") {
        " of schemas that do not exclude each other".to_owned()
    } else {
        let reason = why.lines().find_map(|line| Some(line.split_once("error: ")?.1));
        reason.map_or_else(String::new, |reason| format!(" ({reason})"))
    };
    bad(format!("JSON Schema's {named}{why}{place}"), KEYWORDS.into())
}

/// Rewrites references for the document that has the schema as definition `root`.
fn make_absolute(schema: &mut Value) {
    let Some(fields) = schema.as_object_mut() else { return };
    if let Some(Value::String(reference)) = fields.get_mut("$ref")
        && let Some(path) = reference.strip_prefix('#').map(|path| path.trim_end_matches('/'))
        && (path.is_empty() || path.starts_with('/'))
    {
        *reference = format!("#/$defs/root{path}");
    }
    for (inner, _) in children_mut(fields) {
        make_absolute(inner);
    }
}

/// Returns the schemas that a schema applies, each with its place in `root`.
fn children(schema: &Value, place: &str, root: &Value) -> Vec<(Value, String)> {
    let Value::Object(fields) = schema else { return Vec::new() };
    let mut fields = fields.clone();
    fields.retain(|key, _| !DEFINITIONS.contains(&key.as_str()));
    let inner = children_mut(&mut fields).into_iter().map(|(inner, path)| (inner.clone(), format!("{place}/{path}")));
    let mut children: Vec<_> = inner.collect();
    let path = schema.get("$ref").and_then(Value::as_str).and_then(|path| path.strip_prefix("#/$defs/root"));
    if let Some((path, target)) = path.and_then(|path| Some((path, root.pointer(path)?))) {
        children.push((target.clone(), format!("#{path}")));
    }
    children
}
