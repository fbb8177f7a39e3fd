//! Parts of an answer: thoughts, content, and calls of tools. `www/answers.ts` has the counterparts; one list of cases tests both.

use crate::calls::{Callable, FoundCall, marks_around, read_call, with_escapes};
use crate::ids::call_id;
use crate::scan::{after, begun, escaped, is_name, is_space, is_word, skip};
use foretoken::internals::text::{ReasoningFormat, ToolFormat};
use serde_json::{Value, json};

/// Parts of an answer. If it continues, they are beginnings, and no later answer takes a part of them back.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct AnswerParts {
    pub reasoning: String,
    pub content: String,
    pub calls: Vec<FoundCall>,
}

/// Formats of an answer.
#[derive(Debug, Clone)]
pub(crate) struct AnswerFormat {
    pub tools: Callable,
    /// `None`: the answer has no calls.
    pub tool_format: Option<ToolFormat>,
    /// `None`: as [`ReasoningFormat::Think`].
    pub reasoning_format: Option<ReasoningFormat>,
    /// `true`: the prompt ends within a thought.
    pub is_open: bool,
    /// Maximum number of calls.
    pub most: usize,
}

fn trim(text: &str) -> &str {
    text.trim_matches(is_space)
}

/// Splits a text into the thought that it begins with, and the rest.
fn split_thought(text: &str, format: ReasoningFormat, is_open: bool, is_whole: bool) -> (String, &str) {
    let (open, close) = match format {
        ReasoningFormat::Brackets => ("[THINK]", "[/THINK]"),
        ReasoningFormat::Channel => ("<|channel>thought", "<channel|>"),
        ReasoningFormat::Think | ReasoningFormat::Harmony => ("<think>", "</think>"),
    };
    let start = skip(text, 0, is_space);
    let marked = after(text, start, open);
    if marked.is_none() && !is_whole && open.starts_with(&text[start..]) {
        return (String::new(), "");
    }
    if marked.is_none() && !is_open {
        return (String::new(), text);
    }
    let from = marked.unwrap_or(start);
    match text[from..].find(close) {
        Some(length) => {
            let rest = &text[from + length + close.len()..];
            (trim(&text[from..from + length]).into(), rest.trim_start_matches(is_space))
        }
        None => {
            let held = if is_whole { 0 } else { begun(&text[from..], close) };
            (trim(&text[from..text.len() - held]).into(), "")
        }
    }
}

/// Splits a text into its content and the calls of the named tools.
fn read_calls(text: &str, format: ToolFormat, tools: &Callable, is_whole: bool) -> (String, Vec<FoundCall>) {
    let (open, close, is_bare) = marks_around(format);
    let trimmed = |content: String| content.trim_end_matches(is_space).to_owned();
    let (mut calls, mut content, mut at) = (Vec::new(), String::new(), 0);
    // Between the marks around several calls.
    let mut is_listed = false;
    loop {
        let next = text[at..].chars().next();
        let is_call_next = !calls.is_empty()
            && (next == Some('{') || (is_listed && format == ToolFormat::Lfm2 && next.is_some_and(is_word)));
        // At the beginning calls may have no mark.
        let bare = (is_bare && at == 0).then(|| skip(text, at, is_space)).filter(|bare| text[*bare..].starts_with('{'));
        let start = if is_call_next { Some(at) } else { bare.or_else(|| Some(at + text[at..].find(open)?)) };
        let Some(start) = start else { break };
        let call = read_call(format, text, after(text, start, open).unwrap_or(start), tools);
        // A call is never taken back, so its arguments must have begun.
        let is_call = |call: &FoundCall| {
            let is_known = call.name.as_ref().is_some_and(|name| tools.contains_key(name));
            is_known && (!call.arguments.is_empty() || call.end.is_some())
        };
        let call = match call {
            Some(call) if is_call(&call) => call,
            // The next text decides.
            Some(call) if call.end.is_none() && !is_whole => {
                content.push_str(&text[at..start]);
                return (trimmed(content), calls);
            }
            _ => {
                // A mark and the beginning of a call are ASCII.
                content.push_str(&text[at..start + 1]);
                at = start + 1;
                continue;
            }
        };
        content.push_str(&text[at..start]);
        let end = call.end;
        calls.push(with_escapes(call));
        let Some(end) = end else { return (trimmed(content), calls) };
        at = skip(text, end, |c| is_space(c) || c == ';' || c == ',');
        is_listed = !text[at..].starts_with(close);
        if !close.is_empty() && !is_listed {
            at = skip(text, at + close.len(), is_space);
        } else if !is_whole && close.starts_with(&text[at..]) {
            return (trimmed(content), calls);
        }
    }
    let rest = &text[at..];
    content.push_str(if is_whole { rest } else { &rest[..rest.len() - begun(rest, open)] });
    // Whitespace before a call is part of neither.
    (if is_whole && calls.is_empty() { content } else { trimmed(content) }, calls)
}

/// Marks of Harmony that begin or end a message.
const HARMONY: [&str; 5] = ["<|channel|>", "<|start|>", "<|end|>", "<|call|>", "<|return|>"];

/// Returns the position of the first of some marks, and the mark.
fn first_of<'a>(text: &str, marks: &[&'a str]) -> Option<(usize, &'a str)> {
    marks.iter().filter_map(|mark| Some((text.find(mark)?, *mark))).min_by_key(|(at, _)| *at)
}

/// Returns a message without the mark that ends it, or the beginning of one.
fn words(text: &str, is_complete: bool) -> &str {
    let said = first_of(text, &HARMONY[2..]).map_or(text, |(at, _)| &text[..at]);
    let held = HARMONY.iter().map(|mark| begun(said, mark)).max().unwrap_or(0);
    trim(if is_complete { said } else { &said[..said.len() - held] })
}

/// Returns the text after `to=` in the head of a message; `None`: it has no recipient.
fn recipient(head: &str) -> Option<&str> {
    let is_start = |at: &usize| !head[..*at].ends_with(is_word);
    head.match_indices("to=").map(|(at, _)| at).find(is_start).map(|at| &head[at + 3..])
}

/// Reads messages `<|start|>assistant<|channel|>name to=recipient<|message|>text<|end|>`; the prompt has begun the first.
fn read_harmony(text: &str, tools: &Callable, is_whole: bool) -> AnswerParts {
    fn add(part: &mut String, more: &str) {
        if !more.is_empty() && !part.is_empty() {
            part.push_str("\n\n");
        }
        part.push_str(more);
    }
    let mut parts = AnswerParts::default();
    // A text without a head is content.
    let first = first_of(text, &HARMONY[..2]).map(|(at, _)| at);
    add(&mut parts.content, words(&text[..first.unwrap_or(text.len())], is_whole || first.is_some()));
    let mut at = first.unwrap_or(text.len());
    while let Some(length) = text[at..].find("<|message|>") {
        let head = &text[at..at + length];
        let body = at + length + "<|message|>".len();
        let end = first_of(&text[body..], &["<|end|>", "<|call|>", "<|return|>", "<|start|>"]);
        let body_end = end.map_or(text.len(), |(length, _)| body + length);
        let is_complete = end.is_some() || is_whole;
        let said = words(&text[body..body_end], is_complete);
        at = end.map_or(text.len(), |(_, mark)| body_end + mark.len());
        let to = recipient(head);
        let function = to.and_then(|to| to.strip_prefix("functions."));
        let name = function.map(|name| &name[..skip(name, 0, is_name)]).filter(|name| tools.contains_key(*name));
        let channel = head.split_once("<|channel|>").map(|(_, rest)| rest.trim_start_matches(is_space));
        let channel = channel.map(|channel| &channel[..skip(channel, 0, is_word)]);
        if let Some(name) = name {
            if !said.is_empty() || is_complete {
                let arguments = if said.is_empty() { "{}".into() } else { escaped(said) };
                parts.calls.push(FoundCall { name: Some(name.into()), arguments, end: is_complete.then_some(at) });
            }
        } else if channel == Some("analysis") || to.is_some() {
            add(&mut parts.reasoning, said);
        } else {
            add(&mut parts.content, said);
        }
        if end.is_none() {
            break;
        }
    }
    parts
}

/// Reads an answer, which includes special tokens.
pub(crate) fn read_answer(text: &str, format: &AnswerFormat, is_whole: bool) -> AnswerParts {
    if format.reasoning_format == Some(ReasoningFormat::Harmony) {
        return read_harmony(text, &format.tools, is_whole);
    }
    let thoughts = format.reasoning_format.unwrap_or(ReasoningFormat::Think);
    let (reasoning, rest) = split_thought(text, thoughts, format.is_open, is_whole);
    let (content, calls) = match format.tool_format.filter(|format| *format != ToolFormat::Harmony) {
        Some(tool_format) => read_calls(rest, tool_format, &format.tools, is_whole),
        None => (rest.to_owned(), Vec::new()),
    };
    AnswerParts { reasoning, content, calls }
}

/// Reads an answer piece by piece, and returns the changes.
pub(crate) struct AnswerReader {
    format: AnswerFormat,
    text: String,
    /// Bytes of the thoughts and of the content that were returned.
    sent: [usize; 2],
    /// Calls so far, in OpenAI's form.
    pub calls: Vec<Value>,
}

impl AnswerReader {
    pub fn new(format: AnswerFormat) -> Self {
        Self { format, text: String::new(), sent: [0; 2], calls: Vec::new() }
    }

    /// Appends a piece of the text. Returns the changes as OpenAI's deltas. `is_whole`: the text is complete.
    pub fn push(&mut self, piece: &str, is_whole: bool) -> Vec<Value> {
        self.text.push_str(piece);
        let AnswerParts { reasoning, content, calls } = read_answer(&self.text, &self.format, is_whole);
        let mut deltas = Vec::new();
        for (sent, name, text) in [(0, "reasoning_content", &reasoning), (1, "content", &content)] {
            let more = text.get(self.sent[sent]..).unwrap_or_default();
            if !more.is_empty() {
                deltas.push(json!({ name: more }));
            }
            self.sent[sent] += more.len();
        }
        for (index, call) in calls.into_iter().take(self.format.most).enumerate() {
            let arguments = call.arguments;
            match self.calls.get_mut(index) {
                None => {
                    let function = json!({ "name": call.name, "arguments": arguments });
                    let known = json!({ "id": call_id(), "type": "function", "function": function });
                    let mut delta = json!({ "index": index });
                    delta.as_object_mut().into_iter().for_each(|delta| {
                        delta.extend(known.as_object().cloned().unwrap_or_default());
                    });
                    deltas.push(json!({ "tool_calls": [delta] }));
                    self.calls.push(known);
                }
                Some(known) => {
                    let sent = known["function"]["arguments"].as_str().map_or(0, str::len);
                    let more = arguments.get(sent..).unwrap_or_default();
                    if !more.is_empty() {
                        let delta = json!({ "index": index, "function": { "arguments": more } });
                        deltas.push(json!({ "tool_calls": [delta] }));
                        known["function"]["arguments"] = arguments.into();
                    }
                }
            }
        }
        deltas
    }
}
