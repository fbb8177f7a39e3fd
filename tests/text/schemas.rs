//! Masks allow JSON that a schema describes, and nothing else.

use async_trait::async_trait;
use common::{path, run};
use foretoken::internals::constraint::{Constrained, Ending, Grammars, Shared};
use foretoken::internals::grammar::Llguidance;
use foretoken::internals::sample::{Sampling, choose, mask, threefry2x32};
use foretoken::internals::session::{Run, Sink, rounds};
use foretoken::internals::speculate::{Drafter, NoDrafter, Round};
use foretoken::internals::target::{Draft, Queue, Target, Verified};
use foretoken::internals::text::Tokenizer;
use foretoken::{Error, Origin, ResponseFormat, Result};
use serde_json::{Map, Value, json};
use std::ops::ControlFlow;
use std::rc::Rc;

const END: u32 = 2;
const PROMPT: u32 = 5;

fn tokenizer() -> Tokenizer {
    let file = std::fs::read(path("models/tales/target/tokenizer.json")).unwrap();
    Tokenizer::from_json("tokenizer.json", &file).unwrap()
}

fn grammars(tokenizer: &Tokenizer) -> Llguidance {
    Llguidance::new(tokenizer.vocabulary(tokenizer.vocab_size()), &[END]).unwrap()
}

/// Returns JSON with the spaces that models write.
fn spaced(value: &Value) -> String {
    match value {
        Value::Array(list) => format!("[{}]", list.iter().map(spaced).collect::<Vec<_>>().join(", ")),
        Value::Object(fields) => {
            let field = |(name, value): (&String, &Value)| format!("{}: {}", Value::from(name.clone()), spaced(value));
            format!("{{{}}}", fields.iter().map(field).collect::<Vec<_>>().join(", "))
        }
        other => other.to_string(),
    }
}

/// True if a constraint allows a text as a whole.
fn lets_through(grammars: &Llguidance, tokenizer: &Tokenizer, format: &ResponseFormat, text: &str) -> Result<bool> {
    let mut form = grammars.compile(format)?;
    for token in tokenizer.encode(text, false).unwrap() {
        if !form.consume(token)? {
            return Ok(false);
        }
    }
    Ok(form.ending()? != Ending::No)
}

/// JSON Schema's official test suite, the files that need no other document.
#[test]
fn the_official_suite_says_what_is_covered() {
    let file: Value = serde_json::from_str(include_str!("../golden/json_schema.json")).unwrap();
    let tokenizer = tokenizer();
    let grammars = grammars(&tokenizer);
    let (mut covered, mut refused) = (0, Map::new());
    let (mut valid, mut written, mut invalid, mut wrong) = (0, 0, 0, Vec::new());
    for (name, groups) in file["suite"].as_object().unwrap() {
        for group in groups.as_array().unwrap() {
            let format = ResponseFormat::json_schema(group["schema"].clone());
            if let Err(error) = grammars.compile(&format) {
                let Error::BadOption { option, value, .. } = &error else { panic!("{error}") };
                assert_eq!(option, "response_format");
                let count = refused.entry(name).or_insert(json!(0));
                *count = json!(count.as_u64().unwrap() + 1);
                assert!(!value.is_empty() && !value.contains('\n'), "{value}");
                continue;
            }
            covered += 1;
            for test in group["tests"].as_array().unwrap() {
                let passes = lets_through(&grammars, &tokenizer, &format, &spaced(&test["data"])).unwrap();
                if test["valid"] == true {
                    valid += 1;
                    written += usize::from(passes);
                } else {
                    invalid += 1;
                    if passes {
                        wrong.push(format!("{name}: {}: {}", group["description"], test["description"]));
                    }
                }
            }
        }
    }
    println!("{covered} schemas covered, refused {}", Value::from(refused.clone()));
    println!(
        "of {valid} valid instances {written} can be written; of {invalid} invalid ones {}: {wrong:#?}",
        wrong.len()
    );
    // Some valid instances cannot be written: keys in another order, and integers as 1.0.
    assert_eq!((covered, valid, written, invalid, wrong.len()), (158, 328, 316, 227, 0));
}

/// Some generators write keywords that every value satisfies; Zod 4 does for each record.
#[test]
fn keywords_that_constrain_nothing_are_passed_over() {
    let tokenizer = tokenizer();
    let grammars = grammars(&tokenizer);
    let record = json!({ "type": "object", "additionalProperties": { "const": 1 }, "maxProperties": 1 });
    let list = json!({ "type": "array", "items": { "enum": ["a", "b"] }, "maxItems": 2 });
    for (schema, key, value, text, other) in [
        (&record, "propertyNames", json!({ "type": "string" }), r#"{"k": 1}"#, r#"{"k": 2}"#),
        (&record, "propertyNames", json!({ "description": "a name" }), r#"{"k": 1}"#, r#"{"k": 2}"#),
        (&record, "propertyNames", json!(true), "{}", "[]"),
        (&record, "dependentRequired", json!({}), "{}", "[]"),
        (&record, "dependentRequired", json!({ "a": [] }), "{}", "[]"),
        (&record, "dependentSchemas", json!({}), "{}", "[]"),
        (&record, "allOf", json!([]), "{}", "[]"),
        (&record, "not", json!(false), "{}", "[]"),
        (&record, "unevaluatedProperties", json!(true), "{}", "[]"),
        (&record, "then", json!({ "required": ["k"] }), "{}", "[]"),
        (&record, "if", json!({ "required": ["k"] }), "{}", "[]"),
        (&list, "uniqueItems", json!(false), r#"["a", "a"]"#, r#"["c"]"#),
        (&list, "unevaluatedItems", json!({}), "[]", r#"["c"]"#),
        (&list, "maxContains", json!(1), "[]", r#"["c"]"#),
    ] {
        let mut schema = schema.clone();
        schema[key] = value;
        // The keyword also in a property; as the name of a property it is no keyword.
        let nested = json!({ "type": "object", "properties": { key: schema.clone() }, "required": [key], "additionalProperties": false });
        for (schema, text, other) in [
            (nested, format!("{{{key:?}: {text}}}"), format!("{{{key:?}: {other}}}")),
            (schema, text.to_owned(), other.to_owned()),
        ] {
            let format = ResponseFormat::json_schema(schema);
            assert!(lets_through(&grammars, &tokenizer, &format, &text).unwrap(), "{format:?}: {text}");
            assert!(!lets_through(&grammars, &tokenizer, &format, &other).unwrap(), "{format:?}: {other}");
        }
    }
}

#[test]
fn what_is_refused_is_named_with_its_place() {
    let tokenizer = tokenizer();
    let grammars = grammars(&tokenizer);
    let within = |schema: Value| json!({ "type": "object", "properties": { "n": schema }, "required": ["n"] });
    let circle =
        json!({ "$ref": "#/$defs/a", "$defs": { "a": { "$ref": "#/$defs/b" }, "b": { "$ref": "#/$defs/a" } } });
    for (schema, named) in [
        (json!({ "uniqueItems": true }), "\"uniqueItems\""),
        (within(json!({ "type": "array", "uniqueItems": true })), "\"uniqueItems\" at #/properties/n"),
        (json!({ "propertyNames": { "pattern": "^a" } }), "\"propertyNames\""),
        (json!({ "propertyNames": { "type": "integer" } }), "\"propertyNames\""),
        (json!({ "not": {}, "if": {}, "then": false }), "\"if\", \"not\", \"then\""),
        (
            json!({ "type": "object", "properties": { "mark": { "type": "integer" } }, "required": ["mark"],
                "additionalProperties": false, "patternProperties": { "^mark$": { "type": "integer" } } }),
            "\"patternProperties\" \"^mark$\"",
        ),
        (
            within(json!({ "anyOf": [{ "type": "number" }, { "type": "string", "pattern": "^(?!-$)-?[0-9]*$" }] })),
            "\"pattern\" \"^(?!-$)-?[0-9]*$\" (look-around, including look-ahead and look-behind, is not supported) at #/properties/n/anyOf/1",
        ),
        (
            json!({ "items": { "$ref": "#/$defs/mail" }, "$defs": { "mail": { "type": "string", "pattern": "(?<!a)b" } } }),
            "\"pattern\" \"(?<!a)b\" (look-around, including look-ahead and look-behind, is not supported) at #/$defs/mail",
        ),
        (
            json!({ "patternProperties": { "(?=a)": {} } }),
            "\"patternProperties\" (look-around, including look-ahead and look-behind, is not supported)",
        ),
        (circle, "\"$ref\" \"#/$defs/"),
        (json!({ "$ref": "#/$defs/none" }), "\"$ref\""),
        (json!({ "$ref": "https://example.com/schema" }), "\"$ref\""),
        (
            within(json!({ "type": "integer", "minimum": i64::MIN })),
            "\"minimum\" -9223372036854775808 at #/properties/n",
        ),
        (json!({ "oneOf": [{ "type": "integer" }, { "type": "number" }] }), "\"oneOf\" of schemas that do not exclude"),
        // A float would have other digits.
        (json!({ "const": 9_007_199_254_740_993_u64 }), "\"const\" 9007199254740993"),
        (within(json!({ "enum": [1, [u64::MAX]] })), "\"enum\" 18446744073709551615 at #/properties/n"),
        (json!({ "maximum": i64::MAX }), "\"maximum\" 9223372036854775807"),
    ] {
        let form = ResponseFormat::json_schema(schema.clone());
        let Err(Error::BadOption { value, .. }) = grammars.compile(&form).map(drop) else { panic!("{schema}: taken") };
        assert!(value.starts_with(&format!("JSON Schema's {named}")), "{schema}: {value}");
    }
}

#[test]
fn references_may_have_escapes() {
    let tokenizer = tokenizer();
    let grammars = grammars(&tokenizer);
    for reference in ["#/$defs/a~1b", "#/$defs/c%25d", "#/%24defs/%C3%BC", "#/$defs/t~0", "#/properties/x~1y"] {
        let format = ResponseFormat::json_schema(json!({
            "type": "object",
            "properties": { "v": { "$ref": reference }, "x/y": { "const": 1 } },
            "required": ["v"],
            "additionalProperties": false,
            "$defs": { "a/b": { "const": 1 }, "c%d": { "const": 1 }, "\u{fc}": { "const": 1 }, "t~": { "const": 1 } },
        }));
        for (value, passes) in [(1, true), (2, false)] {
            let text = format!("{{\"v\": {value}}}");
            assert_eq!(lets_through(&grammars, &tokenizer, &format, &text).unwrap(), passes, "{reference}: {text}");
        }
    }
    // A list of itself, referenced by a name with a slash.
    let tree =
        json!({ "$ref": "#/$defs/a~1b", "$defs": { "a/b": { "type": "array", "items": { "$ref": "#/$defs/a~1b" } } } });
    let format = ResponseFormat::json_schema(tree);
    for (text, passes) in [("[[], [[]]]", true), ("[1]", false)] {
        assert_eq!(lets_through(&grammars, &tokenizer, &format, text).unwrap(), passes, "{text}");
    }
}

/// Random numbers, the same in each run.
struct Random(u32);

impl Random {
    fn below(&mut self, end: u32) -> u32 {
        self.0 += 1;
        threefry2x32([17, 4], [self.0, 0])[0] % end
    }

    fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len() as u32) as usize]
    }

    /// Returns a satisfiable schema, nested at most `depth` deep.
    fn schema(&mut self, depth: u32) -> Value {
        let kind = self.below(if depth == 0 { 8 } else { 13 });
        match kind {
            0 => json!({ "type": "null" }),
            1 => json!({ "type": *self.pick(&["boolean", "integer", "number"]) }),
            2 => {
                let low = self.below(200) as i32 - 100;
                json!({ "type": "integer", "minimum": low, "maximum": low + self.below(500) as i32 })
            }
            3 => json!({ "type": "number", "exclusiveMinimum": 0, "maximum": 1.0 + f64::from(self.below(9)) }),
            4 => {
                let least = self.below(4);
                json!({ "type": "string", "minLength": least, "maxLength": least + self.below(12) })
            }
            5 => {
                json!({ "type": "string", "pattern": *self.pick(&["^[a-f]{2,5}$", "^\\d+-\\d+$", "x", "^(yes|no)$"]) })
            }
            6 => json!({ "enum": [self.below(9), "a \"b\"\n\u{e9}", null, [1, { "k": true }]] }),
            // Not `time`: llguidance allows a leap second in any minute.
            7 => json!({ "type": "string", "format": *self.pick(&["date", "uuid", "ipv4", "ipv6"]) }),
            8 => json!({ "anyOf": [self.schema(depth - 1), self.schema(depth - 1)] }),
            9 => {
                let least = self.below(3);
                json!({ "type": "array", "items": self.schema(depth - 1), "minItems": least, "maxItems": least + self.below(3) })
            }
            10 => {
                json!({ "type": "array", "prefixItems": [self.schema(depth - 1), self.schema(0)], "items": false, "minItems": 2 })
            }
            11 => json!({ "type": "object", "additionalProperties": self.schema(depth - 1), "maxProperties": 2 }),
            _ => {
                let names = ["name", "age", "a b", "\u{fc}ber", "x\"y", "t"];
                let fields = names.into_iter().filter(|_| self.below(2) == 0).collect::<Vec<_>>();
                let required: Vec<_> = fields.iter().filter(|_| self.below(3) > 0).copied().collect();
                let fields: Map<_, _> = fields.iter().map(|name| (name.to_string(), self.schema(depth - 1))).collect();
                json!({ "type": "object", "properties": fields, "required": required, "additionalProperties": false })
            }
        }
    }
}

/// A target whose logits are random numbers by position, with a bias for tokens that end texts.
struct Dice {
    seed: u32,
    constraint: Shared,
    /// Tokens with that bias.
    ends: Vec<bool>,
    cached: Vec<u32>,
    submitted: Option<(u32, Vec<u32>)>,
}

impl Dice {
    fn logits(&self, position: usize) -> Vec<f32> {
        let random =
            |token: usize| threefry2x32([self.seed, position as u32], [token as u32, 1])[0] as f32 / u32::MAX as f32;
        self.ends.iter().enumerate().map(|(token, ends)| random(token) + if *ends { 0.2 } else { 0.0 }).collect()
    }
}

#[async_trait(?Send)]
impl Target for Dice {
    fn sample_by(&mut self, _sampling: &Sampling) -> Result<()> {
        Ok(())
    }
    fn cached(&self) -> &[u32] {
        &self.cached
    }

    fn capacity(&self) -> usize {
        1000
    }

    fn truncate(&mut self, len: usize) {
        self.submitted = None;
        self.cached.truncate(len);
    }

    async fn prefill(&mut self, tokens: &[u32]) -> Result<()> {
        self.cached.extend(tokens);
        Ok(())
    }

    async fn submit(&mut self, pending: u32, draft: &Draft) -> Result<()> {
        let Draft::Tokens(mut draft) = draft.clone() else { unreachable!("there is no draft model") };
        let text = [&self.cached[..], &[pending]].concat();
        draft.truncate(self.constraint.borrow_mut().allowed(&text, &draft)?);
        self.submitted = Some((pending, draft));
        Ok(())
    }

    async fn finish(&mut self) -> Result<Verified> {
        let (pending, draft) = self.submitted.take().unwrap();
        self.cached.push(pending);
        let masks = self.constraint.borrow_mut().masks(&self.cached, &draft)?;
        let words = masks.len() / (draft.len() + 1);
        let id = |(row, allowed): (usize, &[u32])| {
            let mut logits = self.logits(self.cached.len() + row);
            mask(&mut logits, allowed);
            choose(&mut logits, &Sampling::default(), &[], None).unwrap()
        };
        let ids = masks.chunks(words).enumerate().map(id).collect();
        self.cached.extend(&draft);
        Ok(Verified { draft, ids, ..Verified::default() })
    }
}

impl Queue for Dice {}

/// Proposes the right tokens up to a random place, and random tokens there.
struct Guess<'a>(&'a [u32], Random);

impl Drafter for Guess<'_> {
    fn draft(&mut self, tokens: &[u32], _room: usize) -> Draft {
        let rest = self.0.get(tokens.len() - 1..).unwrap_or_default();
        let right = self.1.below(6) as usize;
        let mut draft: Vec<u32> = rest.iter().copied().take(right).collect();
        draft.extend([self.1.below(4096), self.1.below(4096)]);
        Draft::Tokens(draft)
    }

    fn learn(&mut self, _round: &Round) {}

    fn origin(&self) -> Origin {
        Origin::Lookup
    }
}

struct Collect {
    constraint: Shared,
    room: usize,
    ids: Vec<u32>,
    complete: bool,
}

impl Sink for Collect {
    fn room(&self) -> usize {
        self.room - self.ids.len()
    }

    fn push(&mut self, id: u32, _origin: Origin, _last: bool) -> Result<ControlFlow<()>> {
        self.ids.push(id);
        Ok(ControlFlow::Continue(()))
    }

    fn completes(&mut self, before: &[u32], fresh: &[u32]) -> Result<Option<usize>> {
        let complete = self.constraint.borrow_mut().completes(before, fresh)?;
        self.complete = complete.is_some();
        Ok(complete)
    }
}

/// Parses JSON. Numbers too large for a float are infinity in JavaScript but an error in serde_json, so they are replaced.
fn parse(text: &str) -> serde_json::Result<Value> {
    serde_json::from_str(text).or_else(|error| match error.to_string().starts_with("number out of range") {
        true => {
            let mut parts = text.split(['e', 'E']);
            let first = parts.next().unwrap_or_default().to_owned();
            let small = |part: &str| {
                let digits = part.trim_start_matches(['+', '-']);
                let rest = digits.trim_start_matches(|digit: char| digit.is_ascii_digit());
                if digits.len() - rest.len() > 2 { format!("9{rest}") } else { part.to_owned() }
            };
            serde_json::from_str(&parts.fold(first, |text, part| format!("{text}e{}", small(part))))
        }
        false => Err(error),
    })
}

#[test]
fn every_text_that_ends_parses_and_validates() {
    const ROOM: usize = 300;
    let tokenizer = Rc::new(tokenizer());
    let grammars = grammars(&tokenizer);
    let encode = || {
        let tokenizer = tokenizer.clone();
        Box::new(move |before: &[u32], text: &str| tokenizer.encode_behind(before, text).unwrap())
    };
    let closes =
        |id: u32| tokenizer.token_bytes(id).is_some_and(|bytes| matches!(bytes.first(), Some(b'"' | b'}' | b']')));
    let ends: Vec<bool> = (0..tokenizer.vocab_size() as u32).map(|id| id == END || closes(id)).collect();
    let mut random = Random(0);
    let (mut ended, mut cut) = (0, 0);
    for seed in 0..1000 {
        let schema = random.schema(3);
        let format = ResponseFormat::json_schema(schema.clone());
        let write = |drafter: &mut dyn Drafter| {
            let constraint = || {
                let form = grammars.compile(&format).unwrap_or_else(|error| panic!("{schema}: {error}"));
                Constrained::new(form, encode(), 1, ends.len(), &[END])
            };
            let constraint = constraint();
            let (cached, ends) = (Vec::new(), ends.clone());
            let mut target = Dice { seed, constraint: constraint.clone(), ends, cached, submitted: None };
            let mut sink = Collect { constraint, room: ROOM, ids: Vec::new(), complete: false };
            run(rounds(&mut target, drafter, &mut Run::new(&[PROMPT]), &[END], &mut sink)).unwrap();
            (sink.ids, sink.complete)
        };
        let (ids, complete) = write(&mut NoDrafter);
        assert_eq!(write(&mut Guess(&ids, Random(seed))), (ids.clone(), complete), "{schema}: drafts change the text");
        if !complete && ids.last() != Some(&END) {
            assert_eq!(ids.len(), ROOM);
            cut += 1;
            continue;
        }
        let text = tokenizer.decode(&ids, true).unwrap();
        let value = parse(&text).unwrap_or_else(|error| panic!("{schema}: {text}: {error}"));
        let options = common::jsonschema::options().should_validate_formats(true).build(&schema).unwrap();
        assert!(options.is_valid(&value), "{schema}: {text}");
        ended += 1;
    }
    println!("{ended} ended, {cut} were cut");
    assert!(ended > 950, "{ended} ended, {cut} were cut");
}
