//! Chat messages -> the prompt: the model's own Jinja template, rendered under limits, and tokens that no message can forge.

use std::{collections::BTreeMap, io};

use minijinja::{Environment, ErrorKind, Value, syntax::SyntaxConfig, value::ValueKind};
use web_time::{SystemTime, UNIX_EPOCH};

use super::{
    Message, Tokenizer,
    message::refuse,
    python::{strftime, tojson},
};
use crate::error::{Error, Result};

const MAX_SOURCE: usize = 64 << 10;
const MAX_OUTPUT: usize = 4 << 20;
const MAX_STEPS: u64 = 1_000_000;
/// Depth of macro calls; far less than what overflows the stack of a WASM module.
const MAX_DEPTH: usize = 64;

/// A model's chat template.
///
/// It sees what transformers gives it: `messages`, `add_generation_prompt` (true), `tools` and `documents` (none), the special
/// tokens of `tokenizer_config.json`, `raise_exception` and `strftime_now`, which here is in UTC, so that a prompt does not
/// depend on where it is made. There are no includes.
///
/// A template is a program of unknown origin. Endless loops and recursion end with an error, but memory is not counted: one
/// that doubles a string forty times, or nests a list a hundred thousand times, ends the process or the worker.
#[derive(Debug)]
pub struct ChatTemplate {
    source: String,
    environment: Environment<'static>,
    variables: BTreeMap<String, Value>,
    now: Option<i64>,
}

impl ChatTemplate {
    /// From the bytes of `tokenizer_config.json` (its `chat_template`: a string, or a list of named ones, of which `default` is
    /// taken) and of `chat_template.jinja`, which wins. None when neither has a template.
    pub fn from_files(tokenizer_config: Option<&[u8]>, chat_template_jinja: Option<&[u8]>) -> Result<Option<Self>> {
        let config: BTreeMap<String, serde_json::Value> = match tokenizer_config {
            Some(bytes) => serde_json::from_slice(bytes).map_err(|e| bad(format!("tokenizer_config.json: {e}")))?,
            None => BTreeMap::new(),
        };
        let source = match chat_template_jinja {
            Some(bytes) => match std::str::from_utf8(bytes) {
                Ok(text) => Some(text),
                Err(error) => return Err(bad(format!("chat_template.jinja: {error}"))),
            },
            None => default_template(config.get("chat_template"))?,
        };
        let Some(source) = source else { return Ok(None) };
        if source.len() > MAX_SOURCE {
            return Err(bad(format!("{} bytes, but the limit is {MAX_SOURCE}", source.len())));
        }
        let template = Self {
            source: without_generation_tags(source),
            environment: environment()?,
            variables: special_tokens(&config),
            now: None,
        };
        template.environment.template_from_named_str("chat_template", &template.source).map_err(explain)?;
        Ok(Some(template))
    }

    /// Sets the time that `strftime_now` tells, in seconds since 1970 (UTC), instead of the system's clock.
    pub fn set_now(&mut self, unix_seconds: i64) {
        self.now = Some(unix_seconds);
    }

    /// The prompt's text, ending where the assistant's answer begins.
    ///
    /// # Errors
    /// [`Error::BadTemplate`], and [`Error::BadOption`] for a field of the messages that the template looks at in none of
    /// them: it would be lost.
    pub fn render(&self, messages: &[Message]) -> Result<String> {
        self.render_changed(messages, &str::to_owned)
    }

    /// The same, with each string of the messages changed.
    fn render_changed(&self, messages: &[Message], change: &dyn Fn(&str) -> String) -> Result<String> {
        let views: Vec<_> = messages.iter().map(|message| message.view(change)).collect();
        let mut variables = self.variables.clone();
        variables.insert("messages".into(), views.iter().cloned().map(Value::from_dyn_object).collect());
        variables.insert("add_generation_prompt".into(), true.into());
        variables.insert("tools".into(), ().into());
        variables.insert("documents".into(), ().into());
        let now = self.now.unwrap_or_else(system_clock);
        variables.insert("strftime_now".into(), Value::from_function(move |format: &str| strftime(format, now)));
        // Compiled anew each time, because a template that the environment stores could include itself.
        let template = self.environment.template_from_named_str("chat_template", &self.source).map_err(explain)?;
        let mut output = Output::default();
        let rendered = template.render_captured_to(Value::from(variables), &mut output).map(drop);
        if output.full {
            return Err(bad(format!("the prompt is longer than {MAX_OUTPUT} bytes")));
        }
        rendered.map_err(explain)?;
        let mut fields = BTreeMap::new();
        for (name, seen) in views.iter().flat_map(|view| view.more()) {
            *fields.entry(name).or_insert(false) |= seen;
        }
        if let Some((name, _)) = fields.into_iter().find(|(_, seen)| !seen) {
            return refuse(format!("the field {name}"), "fields that the model's chat template looks at");
        }
        String::from_utf8(output.bytes).map_err(|error| bad(error.to_string()))
    }

    /// The prompt's tokens. The string of a special token that a message contains encodes to ordinary tokens; otherwise the
    /// result is that of encoding the rendered text as a whole.
    pub fn encode(&self, tokenizer: &Tokenizer, messages: &[Message]) -> Result<Vec<u32>> {
        let texts: Vec<&str> = messages.iter().flat_map(Message::texts).collect();
        let mut forged: Vec<&str> =
            tokenizer.specials().filter(|special| texts.iter().any(|text| text.contains(special))).collect();
        if forged.is_empty() {
            return tokenizer.encode(&self.render(messages)?, false);
        }
        // As the tokenizer does: of two that begin together, the longer one.
        forged.sort_by_key(|special| std::cmp::Reverse(special.len()));
        // A template may look into the messages, so what replaces a special token must pass through it as one odd character.
        let unused = |mark: &char| !self.source.contains(*mark) && !texts.iter().any(|text| text.contains(*mark));
        let marks: Vec<(char, &str)> = ('\u{F0000}'..='\u{FFFFD}').filter(unused).zip(forged.iter().copied()).collect();
        if marks.len() < forged.len() {
            return Err(bad("the messages contain too many private-use characters".into()));
        }
        let (mut ids, mut piece) = (Vec::new(), String::new());
        for c in self.render_changed(messages, &|text| mask(text, &marks))?.chars() {
            match marks.iter().find(|(mark, _)| *mark == c) {
                Some((_, special)) => {
                    ids.extend(tokenizer.encode(&std::mem::take(&mut piece), false)?);
                    ids.extend(tokenizer.encode_literal(special)?);
                }
                None => piece.push(c),
            }
        }
        ids.extend(tokenizer.encode(&piece, false)?);
        Ok(ids)
    }
}

fn bad(reason: String) -> Error {
    Error::BadTemplate { reason }
}

fn explain(error: minijinja::Error) -> Error {
    if error.kind() == ErrorKind::OutOfFuel {
        return bad(format!("it takes more than {MAX_STEPS} steps"));
    }
    bad(error.to_string())
}

fn environment() -> Result<Environment<'static>> {
    let mut environment = Environment::new();
    let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
    environment.set_syntax(syntax.map_err(explain)?);
    environment.set_fuel(Some(MAX_STEPS));
    environment.set_recursion_limit(MAX_DEPTH);
    environment.set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
    environment.add_filter("tojson", tojson);
    // As Python has it: None cannot be iterated, which guards `tools | length` in templates, and strings and mappings are
    // sequences too.
    let is_container = |value: &Value| matches!(value.kind(), ValueKind::String | ValueKind::Seq | ValueKind::Map);
    environment.add_test("sequence", move |value: &Value| is_container(value));
    environment.add_test("iterable", move |value: &Value| {
        is_container(value) || matches!(value.kind(), ValueKind::Iterable | ValueKind::Undefined)
    });
    environment.add_function("raise_exception", |reason: String| -> Result<Value, minijinja::Error> {
        Err(minijinja::Error::new(ErrorKind::InvalidOperation, reason))
    });
    Ok(environment)
}

fn default_template(value: Option<&serde_json::Value>) -> Result<Option<&str>> {
    use serde_json::Value::{Array, Null, String};
    match value {
        None | Some(Null) => Ok(None),
        Some(String(source)) => Ok(Some(source)),
        Some(Array(list)) => {
            let named = list.iter().find(|entry| entry.get("name").and_then(|name| name.as_str()) == Some("default"));
            let source = named.and_then(|entry| entry.get("template")).and_then(|source| source.as_str());
            source
                .map(Some)
                .ok_or_else(|| bad("none of the templates in tokenizer_config.json is named default".into()))
        }
        Some(_) => Err(bad("chat_template in tokenizer_config.json is neither a string nor a list".into())),
    }
}

/// `bos_token`, `eos_token` and the like, which the file gives as strings or as objects with `content`.
fn special_tokens(config: &BTreeMap<String, serde_json::Value>) -> BTreeMap<String, Value> {
    let text = |value: &serde_json::Value| value.as_str().or_else(|| value.get("content")?.as_str()).map(Value::from);
    let single = config.iter().filter(|(key, _)| key.ends_with("_token"));
    let mut variables: BTreeMap<String, Value> =
        single.filter_map(|(key, value)| Some((key.clone(), text(value)?))).collect();
    if let Some(serde_json::Value::Array(list)) = config.get("additional_special_tokens") {
        variables.insert("additional_special_tokens".into(), list.iter().filter_map(text).collect());
    }
    variables
}

/// `{% generation %}` marks, for training, what the assistant said. `if true` is a tag that does nothing either, and keeps
/// the whitespace control of the tag it replaces.
fn without_generation_tags(source: &str) -> String {
    let (mut out, mut rest) = (String::with_capacity(source.len()), source);
    while let Some((before, after)) = rest.split_once("{%") {
        out.push_str(before);
        out.push_str("{%");
        let tag = after.trim_start_matches(['-', '+']).trim_start();
        let name = tag.trim_start_matches(|c: char| c.is_alphanumeric() || c == '_');
        let replaced = match tag.strip_suffix(name) {
            Some("generation") => " if true ",
            Some("endgeneration") => " endif ",
            _ => {
                rest = after;
                continue;
            }
        };
        out.push_str(after.strip_suffix(tag).map_or("", str::trim_end));
        out.push_str(replaced);
        rest = name;
    }
    out + rest
}

/// The text with a mark in place of each special token.
fn mask(text: &str, marks: &[(char, &str)]) -> String {
    let (mut out, mut rest) = (String::with_capacity(text.len()), text.chars());
    loop {
        let found = marks.iter().find_map(|(mark, special)| Some((*mark, rest.as_str().strip_prefix(special)?)));
        if let Some((mark, after)) = found {
            out.push(mark);
            rest = after.chars();
        } else if let Some(c) = rest.next() {
            out.push(c);
        } else {
            return out;
        }
    }
}

/// Seconds since 1970.
fn system_clock() -> i64 {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    since_1970.as_secs().cast_signed()
}

/// The rendered text, up to the limit.
#[derive(Default)]
struct Output {
    bytes: Vec<u8>,
    full: bool,
}

impl io::Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.full |= self.bytes.len() + bytes.len() > MAX_OUTPUT;
        if self.full {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
