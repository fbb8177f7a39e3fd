//! Tokenizer built from the metadata of a GGUF file. The names of kinds are llama.cpp's.

use serde_json::{Value, json};
use std::collections::HashMap;
use tokenizers::AddedToken;
use tokenizers::models::bpe::{BPE, Merges, Vocab};

use super::Tokenizer;
use crate::error::{Error, Result};

/// Tokenizer as described by the metadata of a GGUF file.
#[derive(Debug, Default)]
pub struct Vocabulary<'a> {
    /// Algorithm: `gpt2` (byte-level BPE), `llama` (SentencePiece's BPE with bytes as fallback) or `gemma4` (the same, with its merges given).
    pub model: &'a str,
    /// Name of the rule by which a byte-level vocabulary splits text before merging.
    pub pre: &'a str,
    /// Tokens by id.
    pub tokens: Vec<&'a str>,
    /// Types by id: 1 normal, 2 unknown, 3 control, 4 user-defined, 5 unused, 6 byte. Empty: all are normal.
    pub types: Vec<f64>,
    /// Scores by id. Of two possible merges, the one whose result has the higher score goes first. Empty: the one with the lower id.
    pub scores: Vec<f64>,
    /// Merges of two tokens each, in order of application. Required by `gpt2` and `gemma4`; `llama` derives them from the scores.
    pub merges: Option<Vec<&'a str>>,
    /// Further special tokens, whatever their type, such as the end of a turn.
    pub special: Vec<u32>,
    /// Token for text that no other token represents.
    pub unknown: Option<u32>,
    /// Token that begins a text.
    pub bos: Option<u32>,
    /// Token that ends a text.
    pub eos: Option<u32>,
    /// True if `bos` is put before each text. `None`: the default of the kind.
    pub add_bos: Option<bool>,
    /// True if `eos` is appended to each text.
    pub add_eos: bool,
    /// True if a `llama` text gets a leading space. `None`: true.
    pub space_prefix: Option<bool>,
}

const CONTROL: [f64; 2] = [2.0, 3.0];
const USER_DEFINED: f64 = 4.0;
const BYTE: f64 = 6.0;

/// Rule by which a byte-level vocabulary splits text.
struct TextSplit {
    /// `true`: characters are composed first (NFC).
    composes: bool,
    /// Patterns, each applied to the pieces that the previous one left.
    patterns: Vec<Value>,
    /// True if the pattern of GPT-2 is applied last.
    gpt2: bool,
    /// `true`: a piece that is a token is not merged from its parts. Such vocabularies also begin each text with a token.
    whole: bool,
}

impl TextSplit {
    /// Returns the rule with this name, based on `llm_tokenizer_bpe` of llama.cpp and the models' `tokenizer.json`; `None` if the name is
    /// unknown.
    fn named(pre: &str) -> Option<Self> {
        // Base of most patterns.
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
            "gpt-2" | "phi-2" | "exaone4" | "granite-docling" => gpt2,
            "mpt" | "olmo" => Self { composes: true, ..gpt2 },
            "smollm" | "starcoder" | "refact" | "command-r" | "exaone" => {
                Self { patterns: vec![json!({ "type": "Digits", "individual_digits": true })], ..gpt2 }
            }
            "llama-bpe" | "llama3" | "llama-v3" | "falcon3" | "pixtral" | "lfm2" | "glm4" => {
                Self { whole: true, ..patterns(&[&words(r"\p{N}{1,3}")]) }
            }
            "dbrx" | "smaug-bpe" | "chatglm-bpe" => patterns(&[&words(r"\p{N}{1,3}")]),
            "qwen2" => Self { composes: true, ..patterns(&[&words(r"\p{N}")]) },
            // Marks belong to words.
            "qwen35" => {
                let marked =
                    words(r"\p{N}").replace(r"\p{L}+", r"[\p{L}\p{M}]+").replace(r"^\s\p{L}", r"^\s\p{L}\p{M}");
                Self { composes: true, ..patterns(&[&marked]) }
            }
            "deepseek-r1-qwen" | "stablelm2" | "hunyuan" => patterns(&[&words(r"\p{N}")]),
            "seed-coder" => patterns(&[&words(r"\p{N}").replace(r"\p{N}]+[\r\n]*", r"\p{N}\r\n]+")]),
            "tekken" => Self { whole: true, ..patterns(&[&cased("", r"\p{N}")]) },
            "gpt-4o" => patterns(&[&cased("(?i:'s|'t|'re|'ve|'m|'ll|'d)?", r"\p{N}{1,3}")]),
            "deepseek-coder" => patterns(&["[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", HAN, r"\p{N}"]),
            "deepseek-v3" | "hunyuan-dense" => {
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
    /// Returns the names for [`Self::pre`] of vocabularies that keep a piece whole if it is a token, or of the others. Of names with the
    /// same rule, returns the first.
    pub fn kinds(whole: bool) -> impl Iterator<Item = &'static str> {
        let kinds = [
            "gpt-2",
            "mpt",
            "smollm",
            "llama-bpe",
            "dbrx",
            "qwen2",
            "qwen35",
            "deepseek-r1-qwen",
            "tekken",
            "gpt-4o",
            "deepseek-coder",
            "deepseek-v3",
        ];
        kinds.into_iter().filter(move |kind| TextSplit::named(kind).is_some_and(|split| split.whole == whole))
    }

    /// Builds the tokenizer. `file` is the file's name in error messages.
    ///
    /// # Errors
    /// [`Error::BadTokenizer`] for an unknown kind or inconsistent data.
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
            "llama" => self.sentence_piece(None, self.space_prefix.unwrap_or(true), self.derived_merges())?,
            // Nothing is merged across line breaks.
            "gemma4" => self.sentence_piece(Some(split(r"[^\n]+|\n+")), false, self.given_merges()?)?,
            other => {
                return Err(format!(
                    "tokenizer.ggml.model: {other:?} is not supported; supported: gpt2, llama, gemma4"
                ));
            }
        };
        let json = parts.to_string();
        let mut inner = tokenizers::Tokenizer::from_bytes(json).map_err(|error| error.to_string())?;
        let vocab: Vocab = self.tokens.iter().zip(0..).map(|(token, id)| (self.spelled(token), id)).collect();
        // The builder requires this.
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
        // Runs of spaces are found by merging, because added tokens are searched before spaces are replaced.
        let is_as_written = |id: &u32| self.tokens.get(*id as usize).is_some_and(|token| self.spelled(token) == *token);
        let user_defined = of_type(&[USER_DEFINED]).filter(|id| !special.contains(id) && is_as_written(id));
        let all = special.iter().map(|&id| added(id, true)).chain(user_defined.map(|id| added(id, false)));
        inner.add_tokens(all.collect::<Result<Vec<_>, _>>()?).map_err(|error| error.to_string())?;
        Ok(inner)
    }

    fn byte_level(&self) -> Result<(Value, Merges, bool), String> {
        let Some(TextSplit { composes, mut patterns, gpt2, whole }) = TextSplit::named(self.pre) else {
            // Without it llama.cpp guesses, and warns that output becomes worse.
            return Err(format!("tokenizer.ggml.pre: {:?} is not supported: it says how text is split", self.pre));
        };
        let merges = self.given_merges()?;
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

    fn sentence_piece(
        &self,
        split: Option<Value>,
        has_prefix: bool,
        merges: Merges,
    ) -> Result<(Value, Merges, bool), String> {
        let mut normalizers = vec![json!({ "type": "Replace", "pattern": { "String": " " }, "content": SPACE })];
        let mut decoders = vec![
            json!({ "type": "Replace", "pattern": { "String": SPACE }, "content": " " }),
            json!({ "type": "ByteFallback" }),
            json!({ "type": "Fuse" }),
        ];
        if has_prefix {
            normalizers.insert(0, json!({ "type": "Prepend", "prepend": SPACE }));
            decoders.push(json!({ "type": "Strip", "content": " ", "start": 1, "stop": 0 }));
        }
        let parts = self.parts(
            Some(json!({ "type": "Sequence", "normalizers": normalizers })),
            split,
            json!({ "type": "Sequence", "decoders": decoders }),
            true,
        )?;
        Ok((parts, merges, false))
    }

    fn given_merges(&self) -> Result<Merges, String> {
        let Some(merges) = &self.merges else { return Err("tokenizer.ggml.merges is missing".into()) };
        let pair = |merge: &&str| {
            let (left, right) = merge.split_once(' ')?;
            Some((left.to_owned(), right.to_owned()))
        };
        let merges: Option<Merges> = merges.iter().map(pair).collect();
        merges.ok_or("tokenizer.ggml.merges has an entry without a space".into())
    }

    /// Returns a `tokenizer.json` without a vocabulary. `begins`: true if each text gets `bos` by default.
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

    /// Returns the merges that a SentencePiece vocabulary implies: every split of a token into two tokens. Merges are ordered by the score
    /// of the result, then by the length of the left part, longest first.
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
        // Ties keep the order of the tokens, then of their parts, as in `generate_merges` of transformers.
        merges.sort_by(|a, b| b.0.total_cmp(&a.0).then(b.1.cmp(&a.1)).then(b.2.cmp(&a.2)));
        let text = |id: usize| tokens.get(id).cloned().unwrap_or_default();
        merges.into_iter().map(|(_, _, _, left, right)| (text(left), text(right))).collect()
    }

    /// Returns a token as the model expects it. A SentencePiece vocabulary may contain runs of plain spaces.
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

/// Character that represents a space in SentencePiece.
const SPACE: &str = "\u{2581}";
