//! Conversion of `tokenizer.json` to the metadata of a GGUF file.

use super::header::Header;
use foretoken::internals::load::ModelFiles;
use foretoken::internals::text::{DEFAULT, Tokenizer, Vocabulary};
use foretoken::internals::weights::read_small;
use foretoken::{Error, Result};
use serde_json::Value;
use std::collections::{BTreeSet, HashMap};

const FILE: &str = "tokenizer.json";
const CONFIG: &str = "tokenizer_config.json";
/// Largest file that is read, in bytes.
const MOST: u64 = 64 << 20;

/// Types of tokens, with llama.cpp's numbers.
const NORMAL: i32 = 1;
const UNKNOWN: i32 = 2;
const CONTROL: i32 = 3;
const USER_DEFINED: i32 = 4;
const UNUSED: i32 = 5;
const BYTE: i32 = 6;

/// Text that each kind of pre-tokenizer splits differently. A tokenizer's kind is found by trying, as in llama.cpp's converter. Some
/// characters occur both as one code point and as a letter with a combining accent.
const PROBE: &str = "\n \n\n \n\n\n \t \t\t \t\n  \n   \n    \n     \n🚀 (normal) 😶\u{200d}🌫\u{fe0f} (multiple emojis concatenated) ✅ 🦙🦙 3 33 333 3333 33333 \
    333333 3333333 33333333 3.3 3..3 3...3 កាន់តែពិសេសអាច😁 ?我想在apple工作1314151天～ ------======= нещо на Български \
    ```````\"\"\"\"......!!!!!!?????? I've been 'told he's there, 'RE you sure? 'M not sure I'll make it, 'D you like some tea? \
    We'Ve a'lL  caf\u{e9} cafe\u{301} \u{df}tra\u{df}e HTTPServer_isOK camelCase ÉCOLE  x\r\ny\u{a0}z\u{3000}ひらがなカタカナ한국어 naïve+1e-9;//path/to\n";

/// Adds the tokenizer, and the chat template if there is one.
pub(super) async fn put(files: &ModelFiles, header: &mut Header) -> Result<()> {
    let (spec, source) = (&files.blueprint.spec, files.checkpoint.weights().source());
    let tokenizer = files.tokenizer().await?;
    let bad = |reason: String| Error::BadTokenizer { file: format!("{}/{FILE}", source.name()), reason };
    let parse = |bytes: Option<Vec<u8>>| -> Value {
        // Unreadable files were reported when the tokenizer was loaded.
        serde_json::from_slice(&bytes.unwrap_or_default()).unwrap_or_default()
    };
    let file = parse(read_small(source, FILE, MOST).await?);
    let config = parse(read_small(source, CONFIG, MOST).await?);
    let model = &file["model"];
    let merges = merges(model).ok_or_else(|| bad("only BPE with its merges can be written to a GGUF file".into()))?;
    let named = |name: &str| {
        let token = &config[name];
        token.as_str().or(token["content"].as_str()).and_then(|token| tokenizer.token_to_id(token))
    };
    let unknown = model["unk_token"].as_str().and_then(|token| tokenizer.token_to_id(token));
    let [with, without] = [true, false].map(|special| tokenizer.encode("a", special));
    let (with, without) = (with?, without?);
    let [add_bos, add_eos] = [with.first() != without.first(), with.last() != without.last()];
    let bos = if add_bos { with.first().copied() } else { spec.bos_token_id.or(named("bos_token")) };
    let eos = named("eos_token").or(spec.eos_token_id.first().copied());

    let texts: Vec<String> = tokens(&tokenizer, spec.vocab_size);
    let types = types(&tokenizer, &file, spec.vocab_size, unknown);
    let floats = types.iter().map(|kind| f64::from(*kind)).collect();
    let (is_byte_level, scores) = (file["decoder"].to_string().contains("ByteLevel"), scores(&texts, &merges));
    let spaced: Vec<String> = merges.iter().map(|(left, right)| format!("{left} {right}")).collect();
    let mut vocabulary = Vocabulary {
        model: if is_byte_level { "gpt2" } else { "llama" },
        tokens: texts.iter().map(String::as_str).collect(),
        types: floats,
        unknown,
        bos,
        eos,
        add_bos: Some(add_bos),
        add_eos,
        ..Vocabulary::default()
    };
    let words = words(&tokenizer)?;
    let is_same = |vocabulary: &Vocabulary<'_>| {
        let other = vocabulary.tokenizer(FILE)?;
        let alike = |text: &str| Ok(other.encode(text, true)? == tokenizer.encode(text, true)?);
        Ok::<_, Error>(alike(PROBE)? && alike(&words)?)
    };
    header.text("tokenizer.ggml.model", vocabulary.model);
    if is_byte_level {
        vocabulary.merges = Some(spaced.iter().map(String::as_str).collect());
        let is_whole = model["ignore_merges"] == true;
        let mut kind = None;
        for pre in Vocabulary::kinds(is_whole).chain(Vocabulary::kinds(!is_whole)) {
            vocabulary.pre = pre;
            if is_same(&vocabulary)? {
                kind = Some(pre);
                break;
            }
        }
        let reason = "it splits texts as no kind of llama.cpp's that is known here does (tokenizer.ggml.pre)";
        header.text("tokenizer.ggml.pre", kind.ok_or_else(|| bad(reason.into()))?);
        header.texts("tokenizer.ggml.merges", &spaced);
    } else {
        vocabulary.scores = scores.iter().map(|score| f64::from(*score)).collect();
        let mut space_prefix = None;
        for prefix in [true, false] {
            vocabulary.space_prefix = Some(prefix);
            if is_same(&vocabulary)? {
                space_prefix = Some(prefix);
                break;
            }
        }
        let reason = "it does not split texts as SentencePiece's BPE does, and is not byte-level";
        header.text("tokenizer.ggml.pre", "default");
        header.flag("tokenizer.ggml.add_space_prefix", space_prefix.ok_or_else(|| bad(reason.into()))?);
        header.numbers("tokenizer.ggml.scores", &scores);
    }
    header.texts("tokenizer.ggml.tokens", &texts);
    header.integers("tokenizer.ggml.token_type", &types);
    header.flag("tokenizer.ggml.add_bos_token", add_bos);
    header.flag("tokenizer.ggml.add_eos_token", add_eos);
    let mut others = spec.eos_token_id.iter().copied().filter(|end| Some(*end) != eos);
    let ids = [
        ("bos", bos),
        ("eos", eos),
        ("eot", others.next()),
        ("eom", others.next()),
        ("unknown", unknown),
        ("padding", named("pad_token")),
    ];
    for (name, id) in ids {
        if let Some(id) = id {
            header.count(&format!("tokenizer.ggml.{name}_token_id"), id as usize);
        }
    }
    let template = files.checkpoint.template().await?;
    for (name, source) in template.iter().flat_map(|template| template.sources()) {
        let key = if name == DEFAULT { String::new() } else { format!(".{name}") };
        header.text(&format!("tokenizer.chat_template{key}"), source);
    }
    Ok(())
}

/// Returns one token for each row of the embedding table, as llama.cpp requires.
fn tokens(tokenizer: &Tokenizer, count: usize) -> Vec<String> {
    let token = |id| tokenizer.id_to_token(id).unwrap_or_else(|| format!("[PAD{id}]"));
    (0..count as u32).map(token).collect()
}

/// Returns the text of each token on a line, to test tokens that merges do not reach.
fn words(tokenizer: &Tokenizer) -> Result<String> {
    let words = (0..tokenizer.vocab_size() as u32).map(|id| tokenizer.decode(&[id], true));
    Ok(words.collect::<Result<Vec<_>>>()?.join("\n"))
}

fn types(tokenizer: &Tokenizer, file: &Value, count: usize, unknown: Option<u32>) -> Vec<i32> {
    let in_model = |token: &str| file["model"]["vocab"].get(token).is_some();
    let added: BTreeSet<_> = file["added_tokens"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|token| &token["id"])
        .filter_map(Value::as_u64)
        .collect();
    let has_bytes = file["model"]["byte_fallback"] == true;
    let kind = |id: u32| match tokenizer.id_to_token(id) {
        None => UNUSED,
        Some(_) if unknown == Some(id) => UNKNOWN,
        Some(_) if tokenizer.is_special(id) => CONTROL,
        Some(token) if has_bytes && token.len() == 6 && token.starts_with("<0x") => BYTE,
        Some(token) if added.contains(&u64::from(id)) || !in_model(&token) => USER_DEFINED,
        Some(_) => NORMAL,
    };
    (0..count as u32).map(kind).collect()
}

fn merges(model: &Value) -> Option<Vec<(String, String)>> {
    let merge = |merge: &Value| match merge {
        Value::String(both) => both.split_once(' ').map(|(left, right)| (left.to_owned(), right.to_owned())),
        _ => Some((merge.get(0)?.as_str()?.to_owned(), merge.get(1)?.as_str()?.to_owned())),
    };
    model["merges"].as_array()?.iter().map(merge).collect()
}

/// Returns scores that encode the order of merges: the earlier a merge makes a token, the higher its score.
fn scores(tokens: &[String], merges: &[(String, String)]) -> Vec<f32> {
    let mut ranks = HashMap::new();
    for (rank, (left, right)) in merges.iter().enumerate() {
        ranks.entry(format!("{left}{right}")).or_insert(rank);
    }
    let score = |token: &String| -(ranks.get(token).copied().unwrap_or(merges.len()) as f32);
    tokens.iter().map(score).collect()
}
