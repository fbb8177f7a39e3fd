//! Chat messages to prompts: renders the model's own Jinja template under limits, with special tokens that no message can forge.

use std::{collections::BTreeMap, io, sync::Arc};

use minijinja::{
    Environment, ErrorKind, Value, escape_formatter,
    syntax::SyntaxConfig,
    value::{Kwargs, ValueKind},
};
use serde_json::{Map, Value as Json};
use web_time::{SystemTime, UNIX_EPOCH};

use super::{
    ChatInput, Message, Tokenizer,
    chat::{END, refuse, until_the_end},
    filters::{add_builtins, add_filters},
    formats::{HARMONY, ReasoningFormat, ToolFormat},
    jinja::translate,
    message::{Fields, view},
    python::{method, number, strftime, tojson},
};
use crate::error::{Error, Result};

/// Returns a message's fields under the template's names: thoughts may be `thinking`, or have no name.
fn fitted(fields: &Map<String, Json>, source: &str) -> Map<String, Json> {
    let mut fields = fields.clone();
    if !source.contains("reasoning_content") {
        let thoughts = fields.shift_remove("reasoning_content");
        let is_named = ["message.thinking", "\"thinking\"", "'thinking'"].iter().any(|name| source.contains(name));
        if let Some(thoughts) = thoughts.filter(|_| is_named) {
            fields.entry("thinking").or_insert(thoughts);
        }
    }
    // Harmony's template searches the content for marks, which fails for null.
    if source.contains(HARMONY) && fields.get("content").is_some_and(Json::is_null) {
        fields.shift_remove("content");
    }
    fields
}

const MAX_SOURCE: usize = 64 << 10;
const MAX_OUTPUT: usize = 4 << 20;
const MAX_STEPS: u64 = 1_000_000;
/// Maximum depth of macro calls. It is far from overflowing the stack of a WASM module.
const MAX_DEPTH: usize = 64;

/// Name of the template that every model with templates has.
pub const DEFAULT: &str = "default";
/// Templates that replace the default: for chats with tools, and for other chats with documents.
pub const NAMED: [&str; 2] = ["tool_use", "rag"];

/// Returns the path of a named template's file, relative to the folder of `chat_template.jinja`.
pub fn named_file(name: &str) -> String {
    format!("additional_chat_templates/{name}.jinja")
}

/// Chat templates of a model: usually one, sometimes others for tools and documents.
///
/// A template gets the same variables as in transformers: `messages`, `add_generation_prompt`, `tools` and `documents` (none if empty), the
/// caller's own variables, the special tokens of `tokenizer_config.json`, `raise_exception` and `strftime_now`. The time is in UTC, so that
/// a prompt does not depend on where it is made. Templates cannot include others.
///
/// A template is a program of unknown origin. Endless loops and recursion end with an error, but memory is not limited: a template
/// that doubles a string forty times ends the process or worker.
#[derive(Debug)]
pub struct ChatTemplate {
    /// Sources by template name.
    sources: BTreeMap<String, String>,
    environment: Environment<'static>,
    /// Variables and their values.
    special_tokens: Vec<(String, Value)>,
    now: Option<i64>,
}

impl ChatTemplate {
    /// Reads templates from the bytes of `tokenizer_config.json` and `chat_template.jinja`; the latter takes precedence. `chat_template` in
    /// the config is a string, or a list of named templates with one named `default`. `None`: neither file has a template.
    pub fn from_files(tokenizer_config: Option<&[u8]>, chat_template_jinja: Option<&[u8]>) -> Result<Option<Self>> {
        let config: Map<String, Json> = match tokenizer_config {
            Some(bytes) => serde_json::from_slice(bytes).map_err(|e| bad(format!("tokenizer_config.json: {e}")))?,
            None => Map::new(),
        };
        let sources = BTreeMap::new();
        let mut template =
            Self { sources, environment: environment()?, special_tokens: special_tokens(&config), now: None };
        match (chat_template_jinja, config.get("chat_template")) {
            (Some(source), _) => template.add(DEFAULT, source)?,
            (None, None | Some(Json::Null)) => return Ok(None),
            (None, Some(Json::String(source))) => template.add(DEFAULT, source.as_bytes())?,
            (None, Some(Json::Array(list))) => {
                for entry in list {
                    if let (Some(name), Some(source)) = (entry["name"].as_str(), entry["template"].as_str()) {
                        template.add(name, source.as_bytes())?;
                    }
                }
                if !template.sources.contains_key(DEFAULT) {
                    return Err(bad("none of the templates in tokenizer_config.json is named default".into()));
                }
            }
            (None, Some(_)) => {
                return Err(bad("chat_template in tokenizer_config.json is neither a string nor a list".into()));
            }
        }
        Ok(Some(template))
    }

    /// Adds a named template: `tool_use` is used for chats with tools, `rag` for other chats with documents.
    pub fn add(&mut self, name: &str, source: &[u8]) -> Result<()> {
        let source = std::str::from_utf8(source).map_err(|error| bad(format!("the template {name}: {error}")))?;
        if source.len() > MAX_SOURCE {
            return Err(bad(format!("{} bytes, but the limit is {MAX_SOURCE}", source.len())));
        }
        self.environment.template_from_named_str(name, &translate(source)).map_err(explain)?;
        self.sources.insert(name.into(), source.into());
        Ok(())
    }

    /// Returns the name and source of each template.
    pub fn sources(&self) -> impl Iterator<Item = (&String, &String)> {
        self.sources.iter()
    }

    /// Returns the format of tool calls; `None` if the template does not use a known one.
    pub fn tool_format(&self) -> Option<ToolFormat> {
        let source = self.sources.get("tool_use").or_else(|| self.sources.get(DEFAULT))?;
        ToolFormat::find(source)
    }

    /// Returns the format of thoughts; `None` if the template does not mention any.
    pub fn reasoning_format(&self) -> Option<ReasoningFormat> {
        let source = self.sources.get(DEFAULT).or_else(|| self.sources.get("tool_use"))?;
        ReasoningFormat::find(source)
    }

    /// Returns the end-of-text token from `tokenizer_config.json` and the token that the template writes after an answer.
    pub(crate) fn ends(&self, tokenizer: &Tokenizer) -> [Option<u32>; 2] {
        let end_of_text = self.special_tokens.iter().find(|(name, _)| name == "eos_token");
        let messages = ["user", "assistant"].map(|role| Message::new(role, END.trim_end()));
        let chat = ChatInput { add_generation_prompt: false, ..ChatInput::new(&messages) };
        let text = self.render(&chat).unwrap_or_default();
        let after = text.rsplit_once(END.trim_end()).map_or("", |(_, after)| after.trim_start());
        [
            end_of_text.and_then(|(_, token)| tokenizer.token_to_id(token.as_str()?)),
            tokenizer.encode(after, false).ok().and_then(|ids| ids.first().copied()),
        ]
    }

    /// Sets the time for `strftime_now`, in seconds since 1970 (UTC), instead of the system's clock.
    pub fn set_now(&mut self, unix_seconds: i64) {
        self.now = Some(unix_seconds);
    }

    /// Renders the prompt's text, ending at the point from which the assistant's answer starts or continues.
    ///
    /// # Errors
    /// [`Error::BadTemplate`]; [`Error::BadOption`] for a contradictory chat and for fields of messages, tools, documents or variables that
    /// the template ignores. They would be lost.
    pub fn render(&self, chat: &ChatInput) -> Result<String> {
        self.render_changed(chat, &str::to_owned)
    }

    /// Returns the name and source of the template for a chat.
    fn choose(&self, chat: &ChatInput) -> (&str, &str) {
        let named = NAMED
            .into_iter()
            .zip([chat.tools, chat.documents])
            .find(|(name, list)| !list.is_empty() && self.sources.contains_key(*name));
        let name = named.map_or(DEFAULT, |(name, _)| name);
        (name, self.sources.get(name).map_or("", String::as_str))
    }

    /// Renders the prompt's text and applies `change` to each string of the chat.
    fn render_changed(&self, chat: &ChatInput, change: &dyn Fn(&str) -> String) -> Result<String> {
        let text = self.render_text(chat, change)?;
        let without =
            [("tools", ChatInput { tools: &[], ..*chat }), ("documents", ChatInput { documents: &[], ..*chat })];
        for (option, without) in without {
            let is_given = without.tools.len() + without.documents.len() < chat.tools.len() + chat.documents.len();
            if is_given && self.render_text(&without, change).is_ok_and(|without| without == text) {
                return refuse(option, option, "what changes the prompt: the model's chat template does not use it");
            }
        }
        Ok(text)
    }

    /// Renders a chat without checking that the template uses its tools and documents.
    fn render_text(&self, chat: &ChatInput, change: &dyn Fn(&str) -> String) -> Result<String> {
        let beginning = chat.beginning()?;
        let (name, source) = self.choose(chat);
        let see = |fields: &Map<String, Json>| Arc::new(Fields::new(fields, change));
        let see_message = |message: &Message| see(&fitted(message.fields(), source));
        let mut views: Vec<_> = chat.messages.iter().map(see_message).collect();
        if let (Some(message), Some(last)) = (beginning, views.last_mut()) {
            *last = see_message(&message.clone().and(END));
        }
        let mut variables = self.special_tokens.clone();
        for (name, value) in chat.kwargs.into_iter().flatten() {
            if ["messages", "tools", "documents", "add_generation_prompt"].contains(&name.as_str()) {
                return refuse(
                    "chat_template_kwargs",
                    name,
                    "other variables than those that have an option or are the prompt",
                );
            }
            known(source, "chat_template_kwargs", name)?;
            variables.push((name.clone(), view(value, change)));
        }
        for (name, list) in [("tools", chat.tools), ("documents", chat.documents)] {
            let seen = || list.iter().map(|fields| Value::from_dyn_object(see(fields))).collect::<Value>();
            variables.push((name.into(), (!list.is_empty()).then(seen).into()));
        }
        variables.push(("messages".into(), views.iter().cloned().map(Value::from_dyn_object).collect()));
        variables.push(("add_generation_prompt".into(), chat.add_generation_prompt.into()));
        let now = self.now.unwrap_or_else(system_clock);
        variables.push(("strftime_now".into(), Value::from_function(move |format: &str| strftime(format, now))));
        // Compiled for each call, because a template stored in the environment could include itself.
        let source = translate(source);
        let template = self.environment.template_from_named_str(name, &source).map_err(explain)?;
        let mut output = LimitedOutput::default();
        let rendered = template.render_captured_to(Value::from_pairs(variables), &mut output).map(drop);
        if output.full {
            return Err(bad(format!("the prompt is longer than {MAX_OUTPUT} bytes")));
        }
        rendered.map_err(explain)?;
        let fields = || views.iter().flat_map(|view| view.more());
        if let Some((name, _)) = fields().find(|(name, _)| !fields().any(|field| field == (*name, true))) {
            let allowed = "fields that the model's chat template looks at";
            return refuse("messages", format!("the field {name}"), allowed);
        }
        let text = String::from_utf8(output.bytes).map_err(|error| bad(error.to_string()))?;
        match beginning {
            Some(message) => until_the_end(text, &change(message.content())),
            None => Ok(text),
        }
    }

    /// Returns the prompt's tokens. If the chat contains the string of a special token, it is encoded as ordinary tokens. Otherwise the
    /// result equals encoding the rendered text as a whole.
    pub fn encode(&self, tokenizer: &Tokenizer, chat: &ChatInput) -> Result<Vec<u32>> {
        let texts = chat.texts();
        let forged: Vec<&str> =
            tokenizer.specials().filter(|special| texts.iter().any(|text| text.contains(special))).collect();
        if forged.is_empty() {
            return tokenizer.encode(&self.render(chat)?, false);
        }
        // A template may inspect messages, so each special token is replaced by one unusual character, which passes through unchanged.
        let (_, source) = self.choose(chat);
        let unused = |mark: &char| !source.contains(*mark) && !texts.iter().any(|text| text.contains(*mark));
        let marks: Vec<(char, &str)> = ('\u{F0000}'..='\u{FFFFD}').filter(unused).zip(forged.iter().copied()).collect();
        if marks.len() < forged.len() {
            return Err(bad("the messages contain too many private-use characters".into()));
        }
        let (mut ids, mut piece) = (Vec::new(), String::new());
        for c in self.render_changed(chat, &|text| mask(text, &marks))?.chars() {
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

/// Fails if the template's source does not contain `name`, so it cannot use it.
fn known(source: &str, option: &'static str, name: &str) -> Result<()> {
    let source: String =
        source.split("{#").map(|part| part.split_once("#}").map_or(part, |(_, after)| after)).collect();
    let mut words = source.split(|c: char| !c.is_alphanumeric() && c != '_');
    match words.any(|word| word == name) {
        true => Ok(()),
        false => refuse(option, name, "what the model's chat template looks at: it does not name this"),
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
    let mut environment = Environment::empty();
    let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
    environment.set_syntax(syntax.map_err(explain)?);
    environment.set_fuel(Some(MAX_STEPS));
    environment.set_recursion_limit(MAX_DEPTH);
    environment.set_unknown_method_callback(method);
    environment.add_filter("tojson", tojson);
    add_builtins(&mut environment);
    add_filters(&mut environment);
    environment.set_formatter(|output, state, value| match value.kind() {
        ValueKind::Number => output.write_str(&number(value)).map_err(minijinja::Error::from),
        _ => escape_formatter(output, state, value),
    });
    // Functions and macros are the only values of this kind.
    environment.add_test("callable", |value: &Value| value.kind() == ValueKind::Plain);
    environment.add_function("dict", dict);
    // As in Python: None is not iterable, a check that templates need before `tools | length`. Strings and mappings are also sequences.
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

/// Implements Python's `dict()` with a mapping or pairs, and named values.
fn dict(from: Option<Value>, named: Kwargs) -> Result<Value, minijinja::Error> {
    let mut pairs = Vec::new();
    if let Some(from) = from {
        for item in from.try_iter()?.checked() {
            let item = item?;
            pairs.push(match from.kind() {
                ValueKind::Map => (item.clone(), from.get_item(&item)?),
                _ => (item.get_item(&0.into())?, item.get_item(&1.into())?),
            });
        }
    }
    for name in named.args() {
        pairs.push((name.into(), named.get(name)?));
    }
    Ok(Value::from_pairs(pairs))
}

/// Returns `bos_token`, `eos_token` and similar variables. The file stores them as strings or as objects with `content`.
fn special_tokens(config: &Map<String, Json>) -> Vec<(String, Value)> {
    let text = |value: &Json| value.as_str().or_else(|| value.get("content")?.as_str()).map(Value::from);
    let single = config.iter().filter(|(key, _)| key.ends_with("_token"));
    let mut variables: Vec<_> = single.filter_map(|(key, value)| Some((key.clone(), text(value)?))).collect();
    if let Some(Json::Array(list)) = config.get("additional_special_tokens") {
        variables.push(("additional_special_tokens".into(), list.iter().filter_map(text).collect()));
    }
    variables
}

/// Replaces each special token in the text by its mark. If several match at a position, the longest is replaced, as in the tokenizer.
fn mask(text: &str, marks: &[(char, &str)]) -> String {
    let (mut out, mut rest) = (String::with_capacity(text.len()), text.chars());
    loop {
        let found = marks.iter().filter(|(_, special)| rest.as_str().starts_with(special));
        if let Some((mark, special)) = found.max_by_key(|(_, special)| special.len()) {
            out.push(*mark);
            rest = rest.as_str()[special.len()..].chars();
        } else if let Some(c) = rest.next() {
            out.push(c);
        } else {
            return out;
        }
    }
}

/// Returns the seconds since 1970.
fn system_clock() -> i64 {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    since_1970.as_secs().cast_signed()
}

/// Rendered text, up to the size limit.
#[derive(Default)]
struct LimitedOutput {
    bytes: Vec<u8>,
    full: bool,
}

impl io::Write for LimitedOutput {
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
