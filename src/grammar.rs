//! Forms of a text, by llguidance: JSON schemas, regular expressions and grammars become constraints.

mod schema;

use crate::constraint::{Constraint, Ending, Grammars, ResponseFormat};
use crate::error::{Error, Result};
use llguidance::api::TopLevelGrammar;
use llguidance::toktrie::{ApproximateTokEnv, TokEnv, TokRxInfo, TokTrie};
use llguidance::{Matcher, ParserFactory};
use serde_json::{Value, json};
use std::sync::Arc;

/// The trie has room for tokens of so many bytes, ...
const LONGEST: usize = 1 << 10;
/// ... and for all tokens together.
const ROOM: usize = (1 << 22) - 2;
/// How often forced text is followed to find out whether any text can have a form.
const FORCED: usize = 16;
/// Keywords of JSON Schema that constrain a value and are covered.
const KEYWORDS: &str = "type, enum, const, anyOf, oneOf (of schemas that exclude each other), allOf, $ref (#/...), properties, \
    required, additionalProperties, patternProperties, minProperties, maxProperties, items, prefixItems, minItems, maxItems, \
    minLength, maxLength, pattern, format, minimum, maximum, exclusiveMinimum, exclusiveMaximum, multipleOf";

/// Compiles forms for a vocabulary.
pub struct Llguidance {
    factory: ParserFactory,
    env: TokEnv,
}

impl Llguidance {
    /// For tokens of these bytes, special ones behind a byte FF, of which `ends` end a text. A token without bytes never comes.
    ///
    /// # Errors
    /// [`Error::BadOption`] for a vocabulary for which there is no room.
    pub fn new(mut tokens: Vec<Vec<u8>>, ends: &[u32]) -> Result<Self> {
        for token in tokens.iter_mut().filter(|token| token.len() > LONGEST) {
            token.clear();
        }
        let bytes: usize = tokens.iter().map(Vec::len).sum();
        if bytes > ROOM {
            return bad(format!("a vocabulary of {bytes} bytes"), format!("up to {ROOM} bytes"));
        }
        // What ends a text where the model has no token for that: nobody can choose it.
        let nobody = tokens.len() as u32;
        tokens.push(b"\xff<end>".to_vec());
        let ends = if ends.is_empty() { &[nobody] } else { ends };
        let trie = TokTrie::from(&TokRxInfo::new(tokens.len() as u32, nobody), &tokens).with_eos_tokens(ends);
        // Not canonical: whatever writes the characters that must come may come.
        let env: TokEnv = Arc::new(ApproximateTokEnv::new(trie));
        let mut factory = ParserFactory::new_simple(&env).or_else(|error| bad(words(&error), "".into()))?;
        factory.quiet().limits_mut().verbose_errors = false;
        Ok(Self { factory, env })
    }

    /// What follows a form, or why there is none.
    fn matcher(&self, form: TopLevelGrammar) -> Result<Matcher, String> {
        let matcher = Matcher::new(self.factory.create_parser(form));
        // That no text has a form may show only after what must come.
        let mut ahead = matcher.deep_clone();
        for _ in 0..FORCED {
            let forced = ahead.compute_ff_bytes();
            // A special token is told after a byte FF.
            let text = forced.split(|byte| *byte == 0xff).next().unwrap_or_default();
            let tokens = self.env.tok_trie().greedy_tokenize(text);
            if tokens.is_empty() && forced.is_empty() {
                break;
            }
            if tokens.is_empty() || ahead.consume_tokens(&tokens).is_err() {
                return Ok(matcher);
            }
        }
        ahead.compute_mask_or_eos().map_err(|error| error.to_string())?;
        Ok(matcher)
    }
}

impl Grammars for Llguidance {
    fn compile(&self, format: &ResponseFormat) -> Result<Box<dyn Constraint>> {
        let form = grammar(format)?;
        let schema = form.grammars.first().and_then(|grammar| grammar.json_schema.clone());
        let options = schema.as_ref().map(|schema| schema["x-guidance"].clone());
        let compile = |mut schema: Value| {
            schema["x-guidance"] = options.clone().into();
            self.matcher(TopLevelGrammar::from_json_schema(schema)).map(drop)
        };
        if let Some(schema) = &schema {
            schema::check_patterns(schema, "#", &compile)?;
        }
        let mut matcher = self.matcher(form).or_else(|reason| match schema {
            Some(schema) => schema::refuse(&schema, &reason, &compile),
            None => refuse(reason),
        })?;
        if matcher.consume_tokens(&[]).is_ok() && matcher.is_stopped() {
            return bad("a form that only the empty text has".into(), "one that a text can have".into());
        }
        Ok(Box::new(Grammar(matcher)))
    }
}

/// What llguidance is told.
fn grammar(ResponseFormat(format): &ResponseFormat) -> Result<TopLevelGrammar> {
    let kind = format.get("type").and_then(Value::as_str).unwrap_or_default();
    let text = || match format.get(kind) {
        Some(Value::String(text)) => Ok(text.clone()),
        _ => bad(Value::from(format.clone()).to_string(), format!("{{ type: {kind:?}, {kind}: a text }}")),
    };
    match kind {
        "json_object" => schema(&json!({ "type": "object" })),
        "json_schema" => match format.get(kind).and_then(|named| named.get("schema")) {
            Some(found) => schema(found),
            None => bad(
                Value::from(format.clone()).to_string(),
                "{ type: \"json_schema\", json_schema: { schema } }".into(),
            ),
        },
        "regex" => Ok(TopLevelGrammar::from_regex(&text()?)),
        "grammar" => Ok(TopLevelGrammar::from_lark(text()?)),
        _ => {
            let found = format.get("type").map_or("no type".into(), Value::to_string);
            bad(found, "the types text, json_object, json_schema, regex and grammar".into())
        }
    }
}

/// JSON with a space behind commas and colons, as most models have seen it, and no other: so more of it is certain. A schema may
/// say otherwise in `x-guidance`.
fn schema(given: &Value) -> Result<TopLevelGrammar> {
    let mut schema = match given {
        Value::Bool(true) => json!({}),
        Value::Object(_) => given.clone(),
        _ => return bad(given.to_string(), "a JSON schema that something can satisfy: an object".into()),
    };
    if let Some(spacing) = schema.as_object_mut().map(|schema| schema.entry("x-guidance")) {
        spacing.or_insert(json!({ "item_separator": ", ", "key_separator": ": ", "whitespace_flexible": false }));
    }
    Ok(TopLevelGrammar::from_json_schema(schema::prepare(schema)?))
}

/// A text under one of these.
struct Grammar(Matcher);

impl Constraint for Grammar {
    fn consume(&mut self, token: u32) -> Result<bool> {
        self.0.try_consume_tokens(&[token]).map(|count| count == 1).or_else(refuse)
    }

    fn rollback(&mut self, count: usize) -> Result<()> {
        self.0.rollback(count).or_else(refuse)
    }

    fn mask(&mut self, words: &mut [u32]) -> Result<()> {
        if let Some(id) = special(&self.0.compute_ff_bytes()) {
            words.fill(0);
            if let Some(word) = words.get_mut(id as usize / 32) {
                *word = 1 << (id % 32);
            }
            return Ok(());
        }
        let allowed = self.0.compute_mask_or_eos().or_else(refuse)?;
        for (word, bits) in words.iter_mut().zip(allowed.as_slice()) {
            *word = *bits;
        }
        Ok(())
    }

    fn forced(&mut self) -> Result<Vec<u8>> {
        Ok(self.0.compute_ff_bytes())
    }

    fn ending(&mut self) -> Result<Ending> {
        if self.0.is_stopped() {
            return self.0.get_error().map_or(Ok(Ending::Must), refuse);
        }
        let may_end = self.0.is_accepting().or_else(refuse)?;
        Ok(if may_end { Ending::May } else { Ending::No })
    }
}

/// The special token that must come: llguidance says which, but then looks for it among texts.
fn special(forced: &[u8]) -> Option<u32> {
    let digits = forced.strip_prefix(b"\xff[")?;
    let end = digits.iter().position(|byte| *byte == b']')?;
    std::str::from_utf8(&digits[..end]).ok()?.parse().ok()
}

fn bad<T>(value: String, allowed: String) -> Result<T> {
    Err(Error::BadOption { option: "response_format".into(), value, allowed })
}

/// The first line. For a regular expression, a later line says what is wrong.
fn words(error: impl ToString) -> String {
    let text = error.to_string();
    let first = text.lines().next().unwrap_or_default();
    let reason = text.lines().find_map(|line| line.trim_start().strip_prefix("error: "));
    match (first.strip_suffix(" regex parse error:"), reason) {
        (Some(place), Some(reason)) => format!("a form with the error '{place} {reason}'"),
        _ => first.to_owned(),
    }
}

/// The error for what llguidance refuses, from its words.
fn refuse<T>(error: impl ToString) -> Result<T> {
    bad(words(error), "a form that llguidance covers; of JSON Schema ".to_owned() + KEYWORDS)
}
