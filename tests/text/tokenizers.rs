//! Tokenizers of published models: ids, texts and streams equal those of Python's `tokenizers`. The tests need the files that
//! `node scripts/tokenizers.mjs` fetches.

use common::tokenizers::{Random, file};
use foretoken::internals::text::{ChatTemplate, TextStream, Tokenizer, Vocabulary};
use serde_json::Value;
use std::path::PathBuf;

/// Returns a text of phrases and characters, as made by tests/golden/tokenizers.py.
fn line(random: &mut Random, phrases: &[&str]) -> String {
    let count = random.below(12);
    let mut text = String::new();
    for _ in 0..count {
        if random.below(5) > 0 { text += random.pick(phrases) } else { text.push(random.char()) }
    }
    text
}

fn fnv(bytes: impl IntoIterator<Item = u8>) -> String {
    let step = |state: u64, byte: u8| (state ^ u64::from(byte)).wrapping_mul(0x100_0000_01B3);
    format!("{:016x}", bytes.into_iter().fold(0xCBF2_9CE4_8422_2325, step))
}

fn golden() -> Value {
    serde_json::from_slice(&file("tests/golden/tokenizers.json")).unwrap()
}

fn phrases(golden: &Value) -> Vec<&str> {
    golden["phrases"].as_array().unwrap().iter().map(|phrase| phrase.as_str().unwrap()).collect()
}

fn published(name: &str) -> Option<Vec<u8>> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("target/tokenizers");
    let bytes = std::fs::read(folder.join(name).join("tokenizer.json")).ok();
    if bytes.is_none() {
        println!("{name} is not here: node scripts/tokenizers.mjs fetches it");
    }
    bytes
}

#[test]
fn tokenizers_of_published_models_are_those_of_python() {
    let golden = golden();
    let phrases = phrases(&golden);
    for (name, expected) in golden["tokenizers"].as_object().unwrap() {
        let Some(bytes) = published(name) else { continue };
        // These files must not contradict tokenizer.json.
        let config = file(&format!("target/tokenizers/{name}/tokenizer_config.json"));
        let tokenizer = Tokenizer::from_files("tokenizer.json", &bytes, Some(&config)).unwrap();
        ChatTemplate::from_files(Some(&config), None).unwrap();
        let greeting: Vec<u32> = serde_json::from_value(expected["greeting"].clone()).unwrap();
        assert_eq!(tokenizer.encode("Hello wörld <s>", true).unwrap(), greeting, "{name}");
        let mut random = Random(20);
        for (at, block) in expected["blocks"].as_array().unwrap().iter().enumerate() {
            let lines: Vec<String> =
                (0..golden["block"].as_u64().unwrap()).map(|_| line(&mut random, &phrases)).collect();
            let ids: Vec<Vec<u32>> = lines.iter().map(|line| tokenizer.encode(line, true).unwrap()).collect();
            let words = ids.iter().flat_map(|ids| ids.iter().copied().chain([u32::MAX])).flat_map(u32::to_le_bytes);
            assert_eq!(fnv(words), block[0], "{name}: ids of block {at}");
            let texts: Vec<String> = ids.iter().map(|ids| tokenizer.decode(ids, true).unwrap()).collect();
            let bytes = texts.iter().flat_map(|text| text.bytes().chain([0xFF]));
            assert_eq!(fnv(bytes), block[1], "{name}: texts of block {at}");
            for (ids, text) in ids.iter().zip(&texts).step_by(10) {
                let mut stream = TextStream::new(&[]);
                let mut streamed: String = ids.iter().map(|&id| stream.push(&tokenizer, id).unwrap()).collect();
                streamed += &stream.finish(&tokenizer).unwrap();
                assert_eq!(&streamed, text, "{name}: {ids:?}");
            }
            // No text of a user becomes a special token.
            for line in lines.iter().step_by(10) {
                let literal = tokenizer.encode_literal(line).unwrap();
                let found = literal
                    .iter()
                    .find(|&&id| tokenizer.is_special(id) && line.contains(&tokenizer.id_to_token(id).unwrap()));
                assert_eq!(found, None, "{name}: {line:?}");
            }
        }
    }
}

#[test]
fn patterns_of_published_tokenizers_find_what_they_find_in_python() {
    let golden = golden();
    let phrases = phrases(&golden);
    let compiled = |pattern: &Value| common::fancy_regex::Regex::new(pattern.as_str().unwrap()).unwrap();
    for (name, expected) in golden["patterns"].as_object().unwrap() {
        let regex = compiled(&expected[0]);
        let mut random = Random(20);
        let mut found = Vec::new();
        for _ in 0..golden["block"].as_u64().unwrap() {
            for piece in regex.find_iter(&line(&mut random, &phrases)) {
                found.extend(piece.unwrap().as_str().bytes().chain([0xFF]));
            }
        }
        assert_eq!(fnv(found), expected[1], "{name}");
    }
    for case in golden["rust"].as_array().unwrap() {
        let regex = compiled(&case[0]);
        let found = regex.find_iter(case[1].as_str().unwrap()).map(Result::unwrap);
        assert_eq!(Value::from_iter(found.flat_map(|found| [found.start(), found.end()])), case[2], "{case}");
    }
}

/// Type of the token for unknown text.
const UNKNOWN: f64 = 2.0;

/// The merges of a GGUF file.
#[derive(Clone, Copy)]
enum Kind {
    /// Merges of bytes, with the name of the pre-tokenizer.
    Bytes(&'static str),
    /// Merges implied by scores, for texts with a leading space.
    Scores,
    /// Merges implied by the order of tokens.
    Ids,
    /// Merges of characters, for texts without a leading space.
    Merges,
}

/// The fields that llama.cpp's converter writes for a `tokenizer.json`.
struct Converted {
    tokens: Vec<String>,
    types: Vec<f64>,
    merges: Vec<String>,
    /// Negative rank of the first merge that makes the token.
    scores: Vec<f64>,
}

impl Converted {
    fn of(json: &Value) -> Self {
        let (normal, control, user_defined, unused, byte) = (1.0, 3.0, 4.0, 5.0, 6.0);
        let vocab = json["model"]["vocab"].as_object().unwrap();
        let id = |id: &Value| id.as_u64().unwrap() as usize;
        let added = json["added_tokens"].as_array().unwrap();
        let ids = vocab.values().chain(added.iter().map(|token| &token["id"]));
        let count = 1 + ids.map(id).max().unwrap();
        let mut tokens: Vec<String> = (0..count).map(|id| format!("[PAD{id}]")).collect();
        let mut types = vec![unused; count];
        for (token, at) in vocab {
            tokens[id(at)] = token.clone();
            types[id(at)] = if token.len() == 6 && token.starts_with("<0x") { byte } else { normal };
        }
        for token in added {
            let at = id(&token["id"]);
            tokens[at] = token["content"].as_str().unwrap().to_owned();
            types[at] = match (tokens[at].as_str(), token["special"].as_bool().unwrap()) {
                ("<unk>", _) => UNKNOWN,
                (_, special) => {
                    if special {
                        control
                    } else {
                        user_defined
                    }
                }
            };
        }
        let merge = |merge: &Value| match merge {
            Value::Array(pair) => pair.iter().map(|part| part.as_str().unwrap()).collect::<Vec<_>>().join(" "),
            text => text.as_str().unwrap().to_owned(),
        };
        let merges: Vec<String> = json["model"]["merges"].as_array().unwrap().iter().map(merge).collect();
        let mut scores = vec![f64::NEG_INFINITY; count];
        for (merge, rank) in merges.iter().zip(0..) {
            let score = &mut scores[id(&vocab[&merge.replace(' ', "")])];
            *score = score.max(-f64::from(rank));
        }
        Self { tokens, types, merges, scores }
    }

    fn tokenizer(&self, kind: Kind) -> Tokenizer {
        let merges = || self.merges.iter().map(String::as_str).collect();
        let (model, pre, merges, scores) = match kind {
            Kind::Bytes(pre) => ("gpt2", pre, Some(merges()), Vec::new()),
            Kind::Scores => ("llama", "default", None, self.scores.clone()),
            Kind::Ids => ("llama", "default", None, Vec::new()),
            Kind::Merges => ("gemma4", "", Some(merges()), Vec::new()),
        };
        Vocabulary {
            model,
            pre,
            tokens: self.tokens.iter().map(String::as_str).collect(),
            types: self.types.clone(),
            merges,
            scores,
            unknown: self.types.iter().position(|&kind| kind == UNKNOWN).map(|id| id as u32),
            space_prefix: Some(matches!(kind, Kind::Scores)),
            ..Vocabulary::default()
        }
        .tokenizer("model.gguf")
        .unwrap()
    }
}

/// Seed-OSS splits before line breaks that follow punctuation.
#[test]
fn line_breaks_after_punctuation_may_be_tokens_of_their_own() {
    let bytes = file("models/tales/target/tokenizer.json");
    let converted = Converted::of(&serde_json::from_slice(&bytes).unwrap());
    let [qwen, seed] = ["deepseek-r1-qwen", "seed-coder"].map(|pre| converted.tokenizer(Kind::Bytes(pre)));
    let ids = |tokenizer: &Tokenizer, text: &str| tokenizer.encode(text, false).unwrap();
    for text in ["One, two.", "It's 12 o'clock", "a\n\nb"] {
        assert_eq!(ids(&seed, text), ids(&qwen, text), "{text:?}");
    }
    let apart = [ids(&seed, "Stop!"), ids(&seed, "\n\n"), ids(&seed, "Go")].concat();
    assert_eq!(ids(&seed, "Stop!\n\nGo"), apart);
}

/// Devanagari writes vowels as marks, which Qwen3.5 keeps in the word. A mark alone is no punctuation.
#[test]
fn marks_may_belong_to_words() {
    let bytes = file("models/tales/target/tokenizer.json");
    let mut converted = Converted::of(&serde_json::from_slice(&bytes).unwrap());
    // A token of the last byte of a letter and the first one of a mark.
    let [first, second] = ["ķ", "à"];
    let joined = converted.tokens.len() as u32;
    converted.tokens.push(format!("{first}{second}"));
    converted.types.push(1.0);
    converted.scores.push(0.0);
    converted.merges.push(format!("{first} {second}"));
    let [qwen2, qwen35] = ["qwen2", "qwen35"].map(|pre| converted.tokenizer(Kind::Bytes(pre)));
    let ids = |tokenizer: &Tokenizer, text: &str| tokenizer.encode(text, false).unwrap();
    for text in ["One, two.", "It's 12 o'clock", "a\n\nb", "cafe\u{301}"] {
        assert_eq!(ids(&qwen35, text), ids(&qwen2, text), "{text:?}");
    }
    assert!(ids(&qwen35, "कि").contains(&joined));
    assert!(!ids(&qwen2, "कि").contains(&joined));
}

#[test]
fn the_metadata_of_a_gguf_file_make_the_same_tokenizer() {
    let golden = golden();
    let phrases = phrases(&golden);
    for (name, kind, lines) in [
        ("tales", Kind::Bytes("gpt-2"), 10_000),
        ("tales", Kind::Bytes("exaone4"), 500),
        ("llama3_1", Kind::Bytes("llama-bpe"), 10_000),
        ("llama3_1", Kind::Bytes("lfm2"), 500),
        ("llama3_1", Kind::Bytes("glm4"), 500),
        ("qwen3", Kind::Bytes("qwen2"), 10_000),
        ("gptoss", Kind::Bytes("gpt-4o"), 10_000),
        ("gpt35turbo", Kind::Bytes("dbrx"), 10_000),
        ("gpt35turbo", Kind::Bytes("chatglm-bpe"), 500),
        ("deepseek_v3", Kind::Bytes("deepseek-v3"), 10_000),
        ("deepseek_v3", Kind::Bytes("hunyuan-dense"), 500),
        ("llama2", Kind::Scores, 10_000),
        ("gemma3", Kind::Ids, 10_000),
        ("gemma3", Kind::Merges, 10_000),
    ] {
        let bytes = if name == "tales" { Some(file("models/tales/target/tokenizer.json")) } else { published(name) };
        let Some(bytes) = bytes else { continue };
        let wanted = Tokenizer::from_json("tokenizer.json", &bytes).unwrap();
        let found = Converted::of(&serde_json::from_slice(&bytes).unwrap()).tokenizer(kind);
        let mut random = Random(23);
        for _ in 0..lines {
            let line = line(&mut random, &phrases);
            let ids = wanted.encode(&line, false).unwrap();
            assert_eq!(found.encode(&line, false).unwrap(), ids, "{name}: {line:?}");
            assert_eq!(found.decode(&ids, false).unwrap(), wanted.decode(&ids, false).unwrap(), "{name}: {ids:?}");
        }
    }
}
