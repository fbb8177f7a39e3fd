//! Constraints from JSON schemas, regular expressions and grammars, by llguidance.

mod schema;

use crate::constraint::{Constraint, Ending, Grammars, ResponseFormat};
use crate::error::{Error, Result};
use llguidance::api::TopLevelGrammar;
use llguidance::toktrie::{ApproximateTokEnv, TokEnv, TokRxInfo, TokTrie};
use llguidance::{Matcher, ParserFactory};
use serde_json::{Value, json};
use std::sync::Arc;

/// Bytes of the longest token that fits the trie.
const LONGEST: usize = 1 << 10;
/// Bytes of all tokens that fit the trie.
const ROOM: usize = (1 << 22) - 2;
/// Steps of forced text in which contradictions are searched.
const FORCED: usize = 16;
/// Supported JSON Schema keywords that constrain a value.
const KEYWORDS: &str = "type, enum, const, anyOf, oneOf (of schemas that exclude each other), allOf, $ref (#/...), properties, \
    required, additionalProperties, patternProperties, minProperties, maxProperties, items, prefixItems, minItems, maxItems, \
    minLength, maxLength, pattern, format, minimum, maximum, exclusiveMinimum, exclusiveMaximum, multipleOf";

/// Compiler of formats for a vocabulary.
pub struct Llguidance {
    factory: ParserFactory,
    env: TokEnv,
}

impl Llguidance {
    /// Creates a compiler from the bytes of tokens. Special ones begin with a byte FF. `ends` end a text. Tokens without bytes are never
    /// allowed.
    ///
    /// # Errors
    /// [`Error::BadOption`] if the vocabulary is too large.
    pub fn new(mut tokens: Vec<Vec<u8>>, ends: &[u32]) -> Result<Self> {
        for token in tokens.iter_mut().filter(|token| token.len() > LONGEST) {
            token.clear();
        }
        let bytes: usize = tokens.iter().map(Vec::len).sum();
        if bytes > ROOM {
            return bad(format!("a vocabulary of {bytes} bytes"), format!("up to {ROOM} bytes"));
        }
        // End token for models without one; they cannot choose it.
        let nobody = tokens.len() as u32;
        tokens.push(b"\xff<end>".to_vec());
        let ends = if ends.is_empty() { &[nobody] } else { ends };
        let trie = TokTrie::from(&TokRxInfo::new(tokens.len() as u32, nobody), &tokens).with_eos_tokens(ends);
        // Not canonical: any tokens that spell forced characters are allowed.
        let env: TokEnv = Arc::new(ApproximateTokEnv::new(trie));
        let mut factory = ParserFactory::new_simple(&env).or_else(|error| bad(words(&error), "".into()))?;
        factory.quiet().limits_mut().verbose_errors = false;
        Ok(Self { factory, env })
    }

    /// Returns a form's matcher, or why there is none.
    fn matcher(&self, form: TopLevelGrammar) -> Result<Matcher, String> {
        let matcher = Matcher::new(self.factory.create_parser(form));
        // A contradiction may only show after the forced text.
        let mut ahead = matcher.deep_clone();
        for _ in 0..FORCED {
            let forced = ahead.compute_ff_bytes();
            // In forced bytes, FF begins a special token.
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

/// Converts a format for llguidance.
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

/// Converts a JSON schema. JSON gets exactly one space after commas and colons, as most models have seen it, so more text is certain.
/// `x-guidance` in a schema overrides that.
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

/// Matcher of a text.
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

/// Returns the special token that must come next. llguidance names it, but then searches for it among texts.
fn special(forced: &[u8]) -> Option<u32> {
    let digits = forced.strip_prefix(b"\xff[")?;
    let end = digits.iter().position(|byte| *byte == b']')?;
    std::str::from_utf8(&digits[..end]).ok()?.parse().ok()
}

fn bad<T>(value: String, allowed: String) -> Result<T> {
    Err(Error::BadOption { option: "response_format".into(), value, allowed })
}

/// Returns an error's first line. For a regular expression, adds the reason from a later line.
fn words(error: impl ToString) -> String {
    let text = error.to_string();
    let first = text.lines().next().unwrap_or_default();
    let reason = text.lines().find_map(|line| line.trim_start().strip_prefix("error: "));
    match (first.strip_suffix(" regex parse error:"), reason) {
        (Some(place), Some(reason)) => format!("a form with the error '{place} {reason}'"),
        _ => first.to_owned(),
    }
}

/// Returns the error for a form that llguidance rejects.
fn refuse<T>(error: impl ToString) -> Result<T> {
    bad(words(error), "a form that llguidance covers; of JSON Schema ".to_owned() + KEYWORDS)
}
