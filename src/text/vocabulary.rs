//! What a GGUF file says of its tokenizer -> a tokenizer. The names of kinds are llama.cpp's.

use serde_json::{Value, json};
use std::collections::HashMap;
use tokenizers::AddedToken;
use tokenizers::models::bpe::{BPE, Merges, Vocab};

use super::Tokenizer;
use crate::error::{Error, Result};

/// A tokenizer as the metadata of a GGUF file describes it.
#[derive(Debug, Default)]
pub struct Vocabulary<'a> {
    /// How text becomes tokens: `gpt2` (byte-level BPE) or `llama` (SentencePiece's BPE with bytes as a last resort).
    pub model: &'a str,
    /// How a byte-level vocabulary splits text before it merges.
    pub pre: &'a str,
    /// By id.
    pub tokens: Vec<&'a str>,
    /// By id: 1 normal, 2 unknown, 3 control, 4 user-defined, 5 unused, 6 byte. Empty: all are normal.
    pub types: Vec<f64>,
    /// By id: of two possible merges, that with the higher score of its result goes first. Empty: that with the lower id.
    pub scores: Vec<f64>,
    /// Two tokens each, in the order in which they apply; none: as the scores say.
    pub merges: Option<Vec<&'a str>>,
    /// More tokens that have a meaning whatever their type, such as the one that ends a turn.
    pub special: Vec<u32>,
    /// The token for what no other stands for.
    pub unknown: Option<u32>,
    /// The token that begins a text.
    pub bos: Option<u32>,
    /// The token that ends a text.
    pub eos: Option<u32>,
    /// Whether the first of these goes in front of each text; none: as is usual for the kind.
    pub add_bos: Option<bool>,
    /// Whether the other goes behind.
    pub add_eos: bool,
    /// Whether a `llama` text begins with a space more; none: it does.
    pub space_prefix: Option<bool>,
}

const CONTROL: [f64; 2] = [2.0, 3.0];
const USER_DEFINED: f64 = 4.0;
const BYTE: f64 = 6.0;

/// How a byte-level vocabulary splits text.
struct Split {
    /// Composes characters first (NFC).
    composes: bool,
    /// Each applies to what the one before left whole.
    patterns: Vec<Value>,
    /// Whether the pattern of GPT-2 comes last.
    gpt2: bool,
    /// A piece that is a token is not merged from its parts. Vocabularies of this kind begin each text with a token.
    whole: bool,
}

impl Split {
    /// After `llm_tokenizer_bpe` of llama.cpp and the `tokenizer.json` of the models; none for a kind that is not known.
    fn named(pre: &str) -> Option<Self> {
        // What most patterns are made of.
        let words = |digits: &str| {
            format!(
                r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|{digits}| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*{ENDS}"
            )
        };
        let cased = |suffix: &str, digits: &str| {
            let upper = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]";
            let lower = r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]";
            format!(
                r"[^\r\n\p{{L}}\p{{N}}]?{upper}*{lower}+{suffix}|[^\r\n\p{{L}}\p{{N}}]?{upper}+{lower}*{suffix}|{digits}| ?[^\s\p{{L}}\p{{N}}]+[\r\n/]*{ENDS}"
            )
        };
        const ENDS: &str = r"|\s*[\r\n]+|\s+(?!\S)|\s+";
        const HAN: &str = "[一-龥\u{800}-一가-\u{d7ff}]+";
        let patterns = |patterns: &[&str]| Self {
            composes: false,
            patterns: patterns.iter().map(|pattern| split(pattern)).collect(),
            gpt2: false,
            whole: false,
        };
        let gpt2 = Self { gpt2: true, ..patterns(&[]) };
        Some(match pre {
            "gpt-2" | "phi-2" => gpt2,
            "mpt" | "olmo" => Self { composes: true, ..gpt2 },
            "smollm" | "starcoder" | "refact" => {
                Self { patterns: vec![json!({ "type": "Digits", "individual_digits": true })], ..gpt2 }
            }
            "llama-bpe" | "llama3" | "llama-v3" | "falcon3" | "pixtral" => {
                Self { whole: true, ..patterns(&[&words(r"\p{N}{1,3}")]) }
            }
            "dbrx" | "smaug-bpe" => patterns(&[&words(r"\p{N}{1,3}")]),
            "qwen2" => Self { composes: true, ..patterns(&[&words(r"\p{N}")]) },
            "deepseek-r1-qwen" => patterns(&[&words(r"\p{N}")]),
            "tekken" => Self { whole: true, ..patterns(&[&cased("", r"\p{N}")]) },
            "gpt-4o" => patterns(&[&cased("(?i:'s|'t|'re|'ve|'m|'ll|'d)?", r"\p{N}{1,3}")]),
            "deepseek-coder" => patterns(&["[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", HAN, r"\p{N}"]),
            "deepseek-v3" => {
                let rest = r##"[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*"##;
                patterns(&[r"\p{N}{1,3}", "[一-龥\u{3040}-ゟ゠-ヿ]+", &format!("{rest}{ENDS}")])
            }
            _ => return None,
        })
    }
}

fn split(pattern: &str) -> Value {
    json!({ "type": "Split", "pattern": { "Regex": pattern }, "behavior": "Isolated", "invert": false })
}

impl Vocabulary<'_> {
    /// The kinds of splitting ([`Self::pre`]) of vocabularies in which a piece that is a token stays whole, or of the others; of kinds
    /// that split alike the first.
    pub fn kinds(whole: bool) -> impl Iterator<Item = &'static str> {
        let kinds = [
            "gpt-2",
            "mpt",
            "smollm",
            "llama-bpe",
            "dbrx",
            "qwen2",
            "deepseek-r1-qwen",
            "tekken",
            "gpt-4o",
            "deepseek-coder",
            "deepseek-v3",
        ];
        kinds.into_iter().filter(move |kind| Split::named(kind).is_some_and(|split| split.whole == whole))
    }

    /// Builds it; `file` is the file's name in error messages.
    ///
    /// # Errors
    /// [`Error::BadTokenizer`] for a kind that is not known, and for what does not fit together.
    pub fn tokenizer(&self, file: &str) -> Result<Tokenizer> {
        let bad = |reason: String| Error::BadTokenizer { file: file.to_owned(), reason };
        self.build().map_err(bad).and_then(|inner| Tokenizer::new(file, inner))
    }

    fn build(&self) -> Result<tokenizers::Tokenizer, String> {
        let count = self.tokens.len();
        for (what, found) in [("token_type", self.types.len()), ("scores", self.scores.len())] {
            if found != 0 && found != count {
                return Err(format!("tokenizer.ggml.{what} has {found} entries for {count} tokens"));
            }
        }
        let (parts, merges, whole) = match self.model {
            "gpt2" => self.byte_level()?,
            "llama" => self.sentence_piece()?,
            other => {
                return Err(format!("tokenizer.ggml.model: {other:?} is not supported; supported: gpt2, llama"));
            }
        };
        let json = parts.to_string();
        let mut inner = tokenizers::Tokenizer::from_bytes(json).map_err(|error| error.to_string())?;
        let vocab: Vocab = self.tokens.iter().zip(0..).map(|(token, id)| (self.spelled(token), id)).collect();
        // The builder counts on it.
        if let Some((left, right)) = merges.iter().find(|(left, right)| !vocab.contains_key(&format!("{left}{right}")))
        {
            return Err(format!("tokenizer.ggml.merges: {left:?} and {right:?} make no token"));
        }
        let has_bytes = self.types.contains(&BYTE);
        let builder = BPE::builder().byte_fallback(has_bytes).fuse_unk(has_bytes).ignore_merges(whole);
        let builder = match self.unknown {
            Some(id) if has_bytes => builder.unk_token(self.token(id, "unknown_token_id")?),
            _ => builder,
        };
        let model = builder.vocab_and_merges(vocab, merges).build().map_err(|error| error.to_string())?;
        inner.with_model(model);
        let added = |id: u32, special| {
            let token = self.token(id, "special tokens")?;
            Ok::<_, String>(AddedToken::from(token, special).normalized(false))
        };
        let of_type = |types: &'static [f64]| {
            let ids = self.types.iter().zip(0..);
            ids.filter(move |(found, _)| types.contains(found)).map(|(_, id)| id)
        };
        let named = [self.bos, self.eos, self.unknown].into_iter().flatten().chain(self.special.iter().copied());
        let special: Vec<u32> = of_type(&CONTROL).chain(named).collect();
        // A run of spaces is found by merging, because a text is searched for added tokens before its spaces are replaced.
        let is_as_written = |id: &u32| self.tokens.get(*id as usize).is_some_and(|token| self.spelled(token) == *token);
        let user_defined = of_type(&[USER_DEFINED]).filter(|id| !special.contains(id) && is_as_written(id));
        let all = special.iter().map(|&id| added(id, true)).chain(user_defined.map(|id| added(id, false)));
        inner.add_tokens(all.collect::<Result<Vec<_>, _>>()?).map_err(|error| error.to_string())?;
        Ok(inner)
    }

    fn byte_level(&self) -> Result<(Value, Merges, bool), String> {
        let Some(Split { composes, mut patterns, gpt2, whole }) = Split::named(self.pre) else {
            // Without it llama.cpp guesses, and warns that texts become worse.
            return Err(format!("tokenizer.ggml.pre: {:?} is not supported: it says how text is split", self.pre));
        };
        let Some(merges) = &self.merges else { return Err("tokenizer.ggml.merges is missing".into()) };
        let pair = |merge: &&str| {
            let (left, right) = merge.split_once(' ')?;
            Some((left.to_owned(), right.to_owned()))
        };
        let merges: Option<Merges> = merges.iter().map(pair).collect();
        let merges = merges.ok_or("tokenizer.ggml.merges has an entry without a space")?;
        let bytes = json!({ "type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": gpt2 });
        patterns.push(bytes.clone());
        let parts = self.parts(
            composes.then(|| json!({ "type": "NFC" })),
            Some(json!({ "type": "Sequence", "pretokenizers": patterns })),
            bytes,
            whole,
        )?;
        Ok((parts, merges, whole))
    }

    fn sentence_piece(&self) -> Result<(Value, Merges, bool), String> {
        let mut normalizers = vec![json!({ "type": "Replace", "pattern": { "String": " " }, "content": SPACE })];
        let mut decoders = vec![
            json!({ "type": "Replace", "pattern": { "String": SPACE }, "content": " " }),
            json!({ "type": "ByteFallback" }),
            json!({ "type": "Fuse" }),
        ];
        if self.space_prefix.unwrap_or(true) {
            normalizers.insert(0, json!({ "type": "Prepend", "prepend": SPACE }));
            decoders.push(json!({ "type": "Strip", "content": " ", "start": 1, "stop": 0 }));
        }
        let parts = self.parts(
            Some(json!({ "type": "Sequence", "normalizers": normalizers })),
            None,
            json!({ "type": "Sequence", "decoders": decoders }),
            true,
        )?;
        Ok((parts, self.derived_merges(), false))
    }

    /// A `tokenizer.json` without a vocabulary. `begins`: whether each text has a first token unless the file says otherwise.
    fn parts(
        &self,
        normalizer: Option<Value>,
        pre_tokenizer: Option<Value>,
        decoder: Value,
        begins: bool,
    ) -> Result<Value, String> {
        let first = self.bos.filter(|_| self.add_bos.unwrap_or(begins));
        let last = self.eos.filter(|_| self.add_eos);
        let mut single = vec![json!({ "Sequence": { "id": "A", "type_id": 0 } })];
        let mut special = serde_json::Map::new();
        for (id, key, at) in [(first, "bos_token_id", 0), (last, "eos_token_id", 2)] {
            let Some(id) = id else { continue };
            let token = self.token(id, key)?;
            single.insert(at.min(single.len()), json!({ "SpecialToken": { "id": token, "type_id": 0 } }));
            special.insert(token.clone(), json!({ "id": token, "ids": [id], "tokens": [token] }));
        }
        Ok(json!({
            "version": "1.0",
            "added_tokens": [],
            "normalizer": normalizer,
            "pre_tokenizer": pre_tokenizer,
            "post_processor": { "type": "TemplateProcessing", "single": single, "pair": [], "special_tokens": special },
            "decoder": decoder,
            "model": { "type": "BPE", "vocab": {}, "merges": [] },
        }))
    }

    /// The merges that a SentencePiece vocabulary implies: each way to cut a token into two; first those of the token with the highest
    /// score, and of these the one with the longest left part.
    fn derived_merges(&self) -> Merges {
        let tokens: Vec<String> = self.tokens.iter().map(|token| self.spelled(token)).collect();
        let ids: HashMap<&str, usize> = tokens.iter().zip(0..).map(|(token, id)| (token.as_str(), id)).collect();
        let mut merges = Vec::new();
        for (id, token) in tokens.iter().enumerate() {
            let score = self.scores.get(id).copied().unwrap_or(-(id as f64));
            let cuts = token.char_indices().skip(1).zip(1..).map(|((at, _), chars)| (token.split_at(at), chars));
            let length = token.chars().count();
            let known = cuts.filter_map(|((left, right), chars)| {
                Some((score, chars, length - chars, *ids.get(left)?, *ids.get(right)?))
            });
            merges.extend(known);
        }
        // What is left equal comes in the order of the tokens, then of their parts, as in `generate_merges` of transformers.
        merges.sort_by(|a, b| b.0.total_cmp(&a.0).then(b.1.cmp(&a.1)).then(b.2.cmp(&a.2)));
        let text = |id: usize| tokens.get(id).cloned().unwrap_or_default();
        merges.into_iter().map(|(_, _, _, left, right)| (text(left), text(right))).collect()
    }

    /// A token as the model knows it: a run of spaces of a SentencePiece vocabulary may be there as such.
    fn spelled(&self, token: &str) -> String {
        match self.model {
            "llama" if !token.is_empty() && token.bytes().all(|byte| byte == b' ') => token.replace(' ', SPACE),
            _ => token.to_owned(),
        }
    }

    fn token(&self, id: u32, key: &str) -> Result<String, String> {
        let token = self.tokens.get(id as usize).map(|token| self.spelled(token));
        token.ok_or_else(|| format!("tokenizer.ggml.{key}: there is no token {id}"))
    }
}

/// What stands for a space in SentencePiece.
const SPACE: &str = "\u{2581}";
