//! Calls of tools in the notations of models. `www/tools.ts` has the counterparts; one list of cases tests both.

use crate::scan::{after, end_of_string, end_of_value, escaped, is_name, is_space, is_word, parsed, quoted, skip};
use foretoken::internals::text::ToolFormat;
use serde_json::{Map, Value};

/// Tools that may be called: their names, and schemas of their parameters.
pub(crate) type Callable = Map<String, Value>;

/// A call that may be incomplete.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct FoundCall {
    /// Name of the tool; `None`: not yet known.
    pub name: Option<String>,
    /// JSON, or its beginning.
    pub arguments: String,
    /// Position after the call; `None` if the call is incomplete.
    pub end: Option<usize>,
}

/// Returns the marks around calls of a format, and whether the calls at the beginning of an answer need no mark.
pub(crate) fn marks_around(format: ToolFormat) -> (&'static str, &'static str, bool) {
    match format {
        ToolFormat::Hermes | ToolFormat::Xml => ("<tool_call>", "</tool_call>", false),
        ToolFormat::Llama => ("<|python_tag|>", "", true),
        ToolFormat::Mistral => ("[TOOL_CALLS]", "]", false),
        ToolFormat::MistralArgs => ("[TOOL_CALLS]", "", false),
        ToolFormat::Gemma => ("<start_function_call>", "<end_function_call>", false),
        ToolFormat::Gemma4 => ("<|tool_call>", "<tool_call|>", false),
        ToolFormat::Lfm2 => ("<|tool_call_start|>", "]<|tool_call_end|>", false),
        // Its messages are read as a whole.
        ToolFormat::Harmony => ("<|channel|>", "", false),
    }
}

/// Mark around texts in the formats of Gemma.
pub(crate) fn text_mark(format: ToolFormat) -> &'static str {
    if format == ToolFormat::Gemma4 { "<|\"|>" } else { "<escape>" }
}

/// Reads the call that begins at `from`, after its mark; `None`: there is no call.
pub(crate) fn read_call(format: ToolFormat, text: &str, from: usize, tools: &Callable) -> Option<FoundCall> {
    match format {
        ToolFormat::Hermes | ToolFormat::Llama => read_json(text, from),
        ToolFormat::Mistral => {
            let at = skip(text, from, is_space);
            read_json(text, after(text, at, "[").unwrap_or(at))
        }
        ToolFormat::Xml => read_xml(text, from, tools),
        ToolFormat::MistralArgs => read_named(text, from),
        ToolFormat::Gemma | ToolFormat::Gemma4 => read_gemma(text, from, format),
        ToolFormat::Lfm2 => read_lfm(text, from),
        ToolFormat::Harmony => None,
    }
}

/// Reads `{"name": ..., "arguments": ...}`, or `"parameters"`.
fn read_json(text: &str, from: usize) -> Option<FoundCall> {
    let mut call = FoundCall::default();
    let start = skip(text, from, is_space);
    if start == text.len() {
        return Some(call);
    }
    let mut at = after(text, start, "{")?;
    loop {
        let start = skip(text, at, |c| is_space(c) || c == ',');
        if let Some(end) = after(text, start, "}") {
            if call.arguments.is_empty() {
                call.arguments = "{}".into();
            }
            return Some(FoundCall { end: Some(end), ..call });
        }
        let Some(key) = end_of_value(text, start) else { return Some(call) };
        let colon = skip(text, key, is_space);
        if colon == text.len() {
            return Some(call);
        }
        let Some(value) = after(text, colon, ":") else {
            return (!call.arguments.is_empty()).then_some(FoundCall { end: Some(start), ..call });
        };
        let value = skip(text, value, is_space);
        let end = end_of_value(text, value);
        let json = &text[value..end.unwrap_or(text.len())];
        let name = text[start..key].strip_prefix('"').and_then(|name| name.strip_suffix('"'));
        match name {
            Some("arguments" | "parameters") if json.starts_with('{') => call.arguments = json.into(),
            // Some models write arguments as a string of JSON.
            Some("arguments" | "parameters") if end.is_some() => {
                let inner = parsed(json).and_then(|value| value.as_str().map(str::to_owned));
                call.arguments = inner.unwrap_or_default();
            }
            Some("name") if end.is_some() => {
                call.name = parsed(json).and_then(|name| name.as_str().map(str::to_owned));
            }
            _ => {}
        }
        match end {
            Some(end) => at = end,
            None => return Some(call),
        }
    }
}

/// Reads `<function=name><parameter=key>value</parameter></function>`.
fn read_xml(text: &str, from: usize, tools: &Callable) -> Option<FoundCall> {
    const HEAD: &str = "<function=";
    let start = skip(text, from, is_space);
    if text[start..].starts_with('{') {
        return read_json(text, start);
    }
    let Some(begin) = after(text, start, HEAD) else {
        return HEAD.starts_with(&text[start..]).then(FoundCall::default);
    };
    let end_of_name = skip(text, begin, is_name);
    let name = &text[begin..end_of_name];
    let Some(head) = after(text, end_of_name, ">").filter(|_| !name.is_empty()) else {
        return (end_of_name == text.len()).then(FoundCall::default);
    };
    let mut at = skip(text, head, is_space);
    let mut arguments = String::new();
    while let Some((key, value, end)) = read_parameter(text, at) {
        arguments.push_str(if arguments.is_empty() { "{" } else { ", " });
        let schema = tools.get(name).map(|parameters| &parameters["properties"][key]);
        arguments.push_str(&format!("{}: {}", quoted(key), json_of(value, schema)));
        at = end;
    }
    let name = Some(name.to_owned());
    let (end, rest) = (after(text, at, "</function>"), &text[at..]);
    let is_cut = ["</function>", "<parameter="].iter().any(|mark| mark.starts_with(rest));
    // The next text may continue it.
    if end.is_none() && (is_cut || rest.starts_with("<parameter=")) {
        return Some(FoundCall { name, arguments, end: None });
    }
    // Without an end, a call is one only if arguments were begun.
    let is_call = end.is_some() || !arguments.is_empty();
    let opened = if arguments.is_empty() { "{" } else { &arguments };
    is_call.then(|| FoundCall { name, arguments: format!("{opened}}}"), end: end.or(Some(at)) })
}

/// Reads `<parameter=key>value</parameter>`: the key, the value and the position after it.
fn read_parameter(text: &str, at: usize) -> Option<(&str, &str, usize)> {
    const END: &str = "</parameter>";
    let begin = after(text, at, "<parameter=")?;
    let end_of_key = skip(text, begin, |c| c != '<' && c != '>');
    let body = after(text, end_of_key, ">").filter(|_| end_of_key > begin)?;
    let body = after(text, body, "\n").unwrap_or(body);
    let end = body + text[body..].find(END)?;
    let value = &text[body..end];
    let value = value.strip_suffix('\n').unwrap_or(value);
    Some((&text[begin..end_of_key], value, skip(text, end + END.len(), is_space)))
}

/// Returns the JSON of a value that is written without quotes. The schema decides whether it is a text.
fn json_of(value: &str, schema: Option<&Value>) -> String {
    let json = literal(value).unwrap_or(value);
    let is_text = schema.is_none_or(|schema| {
        schema.is_null()
            || schema["type"] == "string"
            || schema["const"] == value
            || schema["enum"].as_array().is_some_and(|values| values.iter().any(|each| each == value))
    });
    if is_text || parsed(json).is_none() { quoted(value) } else { json.into() }
}

/// Returns the JSON of a literal of Python.
fn literal(word: &str) -> Option<&'static str> {
    match word {
        "True" => Some("true"),
        "False" => Some("false"),
        "None" => Some("null"),
        _ => None,
    }
}

/// Reads `name[ARGS]{...}`, with or without a `[CALL_ID]`.
fn read_named(text: &str, from: usize) -> Option<FoundCall> {
    let start = skip(text, from, is_space);
    let end_of_name = skip(text, start, is_name);
    let id = after(text, end_of_name, "[CALL_ID]").map(|at| skip(text, at, is_word)).unwrap_or(end_of_name);
    let body = skip(text, after(text, id, "[ARGS]").unwrap_or(id), is_space);
    if end_of_name > start && text[body..].starts_with('{') {
        let end = end_of_value(text, body);
        let arguments = text[body..end.unwrap_or(text.len())].to_owned();
        return Some(FoundCall { name: Some(text[start..end_of_name].into()), arguments, end });
    }
    let is_mark = |c: char| is_word(c) || c == '[' || c == ']';
    let marks = if text[end_of_name..].starts_with('[') { skip(text, end_of_name, is_mark) } else { end_of_name };
    (skip(text, marks, is_space) == text.len()).then(FoundCall::default)
}

/// Reads `call:name{key:<escape>text<escape>,other:1}`.
fn read_gemma(text: &str, from: usize, format: ToolFormat) -> Option<FoundCall> {
    const HEAD: &str = "call:";
    let start = skip(text, from, is_space);
    let Some(begin) = after(text, start, HEAD) else {
        return HEAD.starts_with(&text[start..]).then(FoundCall::default);
    };
    let begin = skip(text, begin, is_space);
    let body = skip(text, begin, is_name);
    if body == begin || !text[body..].starts_with('{') {
        return (body == text.len()).then(FoundCall::default);
    }
    let name = Some(text[begin..body].to_owned());
    let (_, mark, _) = marks_around(format);
    let end = text[body..].find(mark).map(|length| body + length);
    let raw = text[body..end.unwrap_or(text.len())].trim_end_matches(is_space);
    // Texts are between marks. The rest is JSON without quotes around keys.
    let parts = raw.split(text_mark(format)).enumerate();
    let json: String = parts.map(|(i, part)| if i % 2 == 1 { quoted(part) } else { with_quoted_keys(part) }).collect();
    match (parsed(&json), end) {
        (Some(_), end) => Some(FoundCall { name, arguments: json, end }),
        (None, None) => Some(FoundCall { name, ..FoundCall::default() }),
        (None, Some(_)) => None,
    }
}

/// Adds quotes to the keys of objects.
fn with_quoted_keys(part: &str) -> String {
    let mut out = String::with_capacity(part.len());
    let mut at = 0;
    while let Some(c) = part[at..].chars().next() {
        out.push(c);
        at += c.len_utf8();
        if c != '{' && c != ',' {
            continue;
        }
        let key = skip(part, at, is_space);
        let end = skip(part, key, |c| !is_space(c) && !":{}[],\"".contains(c));
        let colon = skip(part, end, is_space);
        if end > key && part[colon..].starts_with(':') {
            out.push_str(&format!("{}\"{}\":", &part[at..key], &part[key..end]));
            at = colon + 1;
        }
    }
    out
}

/// Reads `[name(key="text", other=1)`, or JSON.
fn read_lfm(text: &str, from: usize) -> Option<FoundCall> {
    let start = skip(text, from, is_space);
    let start = skip(text, after(text, start, "[").unwrap_or(start), is_space);
    if start == text.len() {
        return Some(FoundCall::default());
    }
    if text[start..].starts_with('{') {
        return read_json(text, start);
    }
    let open = skip(text, start, is_name);
    if open == start || !(open == text.len() || text[open..].starts_with('(')) {
        return None;
    }
    let (mut json, mut depth) = ("{".to_owned(), 0);
    let close = |json: &mut String, sign: char| {
        json.truncate(json.strip_suffix(',').unwrap_or(json).len());
        json.push(sign);
    };
    let mut at = (open + 1).min(text.len());
    loop {
        at = skip(text, at, is_space);
        let Some(sign) = text[at..].chars().next() else { break };
        if sign == '"' || sign == '\'' {
            let Some(end) = end_of_string(text, at) else { break };
            json.push_str(&quoted(&unquoted(&text[at + 1..end - 1])));
            at = end;
            continue;
        }
        let end = skip(text, at, |c| is_name(c) || c == '+');
        if end > at {
            let word = &text[at..end];
            let equals = skip(text, end, is_space);
            let key = after(text, equals, "=");
            match key {
                Some(_) => json.push_str(&format!("{}:", quoted(word))),
                None => json.push_str(literal(word).unwrap_or(word)),
            }
            at = key.unwrap_or(end);
            continue;
        }
        at += sign.len_utf8();
        match sign {
            ',' | ':' => json.push(sign),
            '[' | '(' | '{' => {
                json.push(if sign == '{' { '{' } else { '[' });
                depth += 1;
            }
            ']' | ')' | '}' if depth > 0 => {
                close(&mut json, if sign == '}' { '}' } else { ']' });
                depth -= 1;
            }
            ')' => {
                close(&mut json, '}');
                let name = Some(text[start..open].to_owned());
                return parsed(&json).map(|_| FoundCall { name, arguments: json, end: Some(at) });
            }
            ']' | '}' => return None,
            _ => break,
        }
    }
    // Arguments are JSON only when they are complete.
    Some(FoundCall::default())
}

/// Returns the text of a string literal of Python, without its quotes.
fn unquoted(literal: &str) -> String {
    let mut out = String::with_capacity(literal.len());
    let mut letters = literal.chars();
    while let Some(c) = letters.next() {
        out.push(match c {
            '\\' => match letters.next() {
                Some('n') => '\n',
                Some('t') => '\t',
                Some('r') => '\r',
                Some(other) => other,
                None => c,
            },
            c => c,
        });
    }
    out
}

/// Returns the call with its arguments as JSON that streams.
pub(crate) fn with_escapes(call: FoundCall) -> FoundCall {
    FoundCall { arguments: escaped(&call.arguments), ..call }
}
