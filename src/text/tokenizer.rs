//! Tokenizer read from `tokenizer.json`: text to ids and back, with a strict separation of special tokens and ordinary text.

use std::collections::BTreeMap;
use std::fmt::{self, Display};
use std::ops::Range;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};
use tokenizers::{
    AddedToken, AddedVocabulary, DecoderWrapper, Encoding, Model, ModelWrapper, OffsetType, PostProcessor,
    PreTokenizedString, PreTokenizer,
};

use crate::error::{Error, Result};

/// Maximum size of a `tokenizer.json`, in bytes. The largest known file has 33 MB.
const MAX_FILE: usize = 64 << 20;

/// Limit of token ids: larger than any known vocabulary, but small enough to iterate over all ids.
const MAX_VOCAB: u32 = 1 << 20;

/// Tokenizer in the format of Hugging Face's `tokenizers`.
///
/// Padding, truncation and dropout in the file are ignored: a prompt is encoded whole and always to the same tokens.
#[derive(Debug)]
pub struct Tokenizer {
    file: String,
    inner: tokenizers::Tokenizer,
    /// Added tokens, configured not to find special tokens in text.
    literal: AddedVocabulary,
    /// Largest id plus one.
    end: u32,
    byte_fallback: bool,
    byte_level: bool,
}

impl Tokenizer {
    /// Reads the bytes of `tokenizer.json`. `file` is its name in error messages.
    pub fn from_json(file: &str, bytes: &[u8]) -> Result<Self> {
        Self::from_files(file, bytes, None)
    }

    /// Like [`Self::from_json`], and applies `added_tokens_decoder` of `tokenizer_config.json`, which adds tokens or changes their
    /// properties. As in transformers, other entries of that file about tokens are ignored, and new tokens get the next ids.
    pub fn from_files(file: &str, bytes: &[u8], tokenizer_config: Option<&[u8]>) -> Result<Self> {
        let bad = |reason: String| Error::BadTokenizer { file: file.to_owned(), reason };
        if bytes.len() > MAX_FILE {
            return Err(bad(format!("{} bytes, but the limit is {MAX_FILE}", bytes.len())));
        }
        check_parts(bytes).map_err(bad)?;
        let mut inner = tokenizers::Tokenizer::from_bytes(bytes).map_err(|error| bad(error.to_string()))?;
        if let ModelWrapper::WordPiece(_) = inner.get_model() {
            return Err(bad(
                "WordPiece, as models of the BERT kind have it, is not supported: those do not continue texts".into(),
            ));
        }
        if let Some(config) = tokenizer_config {
            let added = added_tokens(config).map_err(bad)?;
            inner.add_tokens(added).map_err(|error| bad(error.to_string()))?;
        }
        Self::new(file, inner)
    }

    /// Creates a tokenizer from one that was built by other means.
    pub(super) fn new(file: &str, mut inner: tokenizers::Tokenizer) -> Result<Self> {
        let bad = |reason: String| Error::BadTokenizer { file: file.to_owned(), reason };
        if let ModelWrapper::BPE(bpe) = inner.get_model()
            && bpe.dropout.is_some()
        {
            let mut bpe = bpe.clone();
            bpe.dropout = None;
            inner.with_model(bpe);
        }
        let end = inner.get_vocab(true).into_values().max().map_or(0, |id| id.saturating_add(1));
        if end == 0 || end > MAX_VOCAB {
            return Err(bad(format!("{end} token ids; allowed: 1 to {MAX_VOCAB}")));
        }
        let mut literal = inner.get_added_vocabulary().clone();
        literal.set_encode_special_tokens(true);
        let decodes =
            |with: fn(&DecoderWrapper) -> bool| inner.get_decoder().is_some_and(|decoder| has_part(decoder, with));
        let byte_fallback = decodes(|decoder| matches!(decoder, DecoderWrapper::ByteFallback(_)));
        let byte_level = decodes(|decoder| matches!(decoder, DecoderWrapper::ByteLevel(_)));
        Ok(Self { file: file.to_owned(), inner, literal, end, byte_fallback, byte_level })
    }

    /// Encodes a text. Strings of special tokens in it become special tokens, as in transformers. `add_special` adds the tokens that the
    /// file's post-processor puts around a text, such as BOS.
    pub fn encode(&self, text: &str, add_special: bool) -> Result<Vec<u32>> {
        // The crate's `encode` is not used: its padding, truncation and threads would add much code to a web page.
        let encoding = self.tokenize(self.inner.get_added_vocabulary(), text, OffsetType::None);
        let encoding = match self.inner.get_post_processor() {
            Some(processor) => encoding.and_then(|encoding| processor.process(encoding, None, add_special)),
            None => encoding,
        };
        let encoding = encoding.map_err(|error| self.bad(error))?;
        match encoding.get_ids().iter().find(|id| **id >= self.end) {
            Some(id) => {
                Err(self.bad(format!("the post-processor adds the token {id}, which is not in the vocabulary")))
            }
            None => Ok(encoding.get_ids().to_vec()),
        }
    }

    /// Encodes a text in which strings of special tokens are ordinary text.
    pub fn encode_literal(&self, text: &str) -> Result<Vec<u32>> {
        let ids = self.encode_without_specials(text).map_err(|error| self.bad(error))?;
        let specials = ids.iter().filter_map(|id| self.special(*id));
        let leaked: Vec<&str> = specials.filter(|special| text.contains(special)).collect();
        if leaked.is_empty() {
            return Ok(ids);
        }
        // If the model's vocabulary also contains a special token as an ordinary word, it is found even so. Such words are split after
        // their first character.
        let (mut ids, mut rest) = (Vec::new(), text);
        while let Some(start) = leaked.iter().filter_map(|special| rest.find(special)).min() {
            let first = rest.get(start..).and_then(|word| word.chars().next()).map_or(1, char::len_utf8);
            let (head, tail) = rest.split_at_checked(start + first).unwrap_or((rest, ""));
            ids.extend(self.encode_without_specials(head).map_err(|error| self.bad(error))?);
            rest = tail;
        }
        ids.extend(self.encode_without_specials(rest).map_err(|error| self.bad(error))?);
        Ok(ids)
    }

    /// Returns the text of tokens. Ids without a token add nothing.
    pub fn decode(&self, ids: &[u32], skip_special: bool) -> Result<String> {
        let ids: Vec<u32> = ids.iter().copied().filter(|id| !(skip_special && self.is_special(*id))).collect();
        // Some decoders fail on empty input.
        if !ids.iter().any(|id| self.inner.id_to_token(*id).is_some()) {
            return Ok(String::new());
        }
        self.inner.decode(&ids, false).map_err(|error| self.bad(error))
    }

    /// Returns the largest id plus one, added tokens included. The model's matrices may have more rows, as padding.
    pub fn vocab_size(&self) -> usize {
        self.end as usize
    }

    /// Returns the id of a token.
    pub fn token_to_id(&self, token: &str) -> Option<u32> {
        self.inner.token_to_id(token)
    }

    /// Returns the token of an id as spelled in the vocabulary (byte-level vocabularies write a space as `Ġ`).
    pub fn id_to_token(&self, id: u32) -> Option<String> {
        self.inner.id_to_token(id)
    }

    /// Returns the bytes of text that a token represents, which may be part of a character. For an added token, these are the bytes of its
    /// name. `None`: no token has this id.
    pub fn token_bytes(&self, id: u32) -> Option<Vec<u8>> {
        if let Some(added) = self.literal.get_added_tokens_decoder().get(&id) {
            return Some(added.content.clone().into_bytes());
        }
        let token = self.id_to_token(id)?;
        if self.byte_level {
            return token.chars().map(byte_of).collect::<Option<_>>().or(Some(token.into_bytes()));
        }
        let byte = token.get(3..5).filter(|_| self.is_byte(id)).and_then(|digits| u8::from_str_radix(digits, 16).ok());
        // SentencePiece writes a space as `▁`.
        byte.map(|byte| vec![byte]).or_else(|| Some(token.replace('▁', " ").into_bytes()))
    }

    /// Returns the bytes of all tokens below `end`, as [`Tokenizer::token_bytes`] does. Those of a special token follow a byte FF, which no
    /// text contains. Empty for an id without a token.
    pub fn vocabulary(&self, end: usize) -> Vec<Vec<u8>> {
        let bytes = |id| {
            let mut bytes = self.token_bytes(id).unwrap_or_default();
            if self.is_special(id) {
                bytes.insert(0, 0xff);
            }
            bytes
        };
        (0..end as u32).map(bytes).collect()
    }

    /// Returns true for a special token: a control token that is not part of the text.
    pub fn is_special(&self, id: u32) -> bool {
        self.special(id).is_some()
    }

    /// Describes the first difference to another tokenizer. `None`: every id is the same token, so a model with one tokenizer can verify
    /// draft tokens of a model with the other without translation.
    pub fn difference(&self, other: &Self) -> Option<String> {
        let name = |token: Option<String>| token.map_or("unused".to_owned(), |token| format!("{token:?}"));
        (0..self.end.max(other.end)).find_map(|id| {
            let (ours, theirs) = (self.id_to_token(id), other.id_to_token(id));
            if ours != theirs {
                return Some(format!("token {id} is {}, not {}", name(theirs), name(ours)));
            }
            let special = if other.is_special(id) { "special" } else { "not special" };
            (self.is_special(id) != other.is_special(id)).then(|| format!("token {id}, {}, is {special}", name(ours)))
        })
    }

    /// Encodes a text and returns each token with its byte range in the text. Strings of special tokens become special tokens; none are
    /// added. Tokens that share a character have the same range.
    pub(super) fn encode_with_offsets(&self, text: &str) -> Result<Vec<(u32, Range<usize>)>> {
        let encoding = self.tokenize(self.inner.get_added_vocabulary(), text, OffsetType::Byte);
        let encoding = encoding.map_err(|error| self.bad(error))?;
        let places = encoding.get_offsets().iter().map(|&(start, end)| start..end);
        Ok(encoding.get_ids().iter().copied().zip(places).collect())
    }

    /// Encodes a text that follows other tokens, as if both were one text. If a token would span the boundary, encodes the text separately.
    pub fn encode_behind(&self, before: &[u32], text: &str) -> Result<Vec<u32>> {
        let before = self.decode(before, true)?;
        let tokens = self.encode_with_offsets(&format!("{before}{text}"))?;
        match tokens.iter().position(|(_, place)| place.start == before.len()) {
            Some(first) => Ok(tokens[first..].iter().map(|(id, _)| *id).collect()),
            None => self.encode_literal(text),
        }
    }

    /// Returns the strings of all special tokens.
    pub(super) fn specials(&self) -> impl Iterator<Item = &str> {
        let ids = self.literal.get_added_tokens_decoder().keys();
        ids.filter_map(|id| self.special(*id)).filter(|special| !special.is_empty())
    }

    /// Returns the string of a special token.
    pub fn special(&self, id: u32) -> Option<&str> {
        let token = self.literal.get_added_tokens_decoder().get(&id)?;
        token.special.then_some(&token.content)
    }

    /// Returns true if the decoder treats this token as one byte of a character.
    pub fn is_byte(&self, id: u32) -> bool {
        self.byte_fallback
            && self.id_to_token(id).is_some_and(|token| {
                let digits = token.strip_prefix("<0x").and_then(|token| token.strip_suffix('>'));
                digits.is_some_and(|digits| digits.len() == 2 && u8::from_str_radix(digits, 16).is_ok())
            })
    }

    fn encode_without_specials(&self, text: &str) -> tokenizers::Result<Vec<u32>> {
        Ok(self.tokenize(&self.literal, text, OffsetType::None)?.get_ids().to_vec())
    }

    /// Returns the encoding before post-processing.
    fn tokenize(&self, added: &AddedVocabulary, text: &str, offsets: OffsetType) -> tokenizers::Result<Encoding> {
        let mut pieces: PreTokenizedString = added.extract_and_normalize(self.inner.get_normalizer(), text);
        if let Some(splitter) = self.inner.get_pre_tokenizer() {
            splitter.pre_tokenize(&mut pieces)?;
        }
        self.inner.get_model().tokenize_in_pretokenized(&mut pieces, None)?;
        pieces.into_encoding(None, 0, offsets)
    }

    fn bad(&self, error: impl ToString) -> Error {
        Error::BadTokenizer { file: self.file.clone(), reason: error.to_string() }
    }
}

/// Returns true if `is_it` holds for a decoder or one of its parts.
fn has_part(decoder: &DecoderWrapper, is_it: fn(&DecoderWrapper) -> bool) -> bool {
    match decoder {
        DecoderWrapper::Sequence(parts) => parts.get_decoders().iter().any(|part| has_part(part, is_it)),
        decoder => is_it(decoder),
    }
}

/// Returns the byte that a character of a byte-level vocabulary (GPT-2) represents. Printable bytes represent themselves. The other bytes
/// are represented, in order, by the characters from 256 on.
fn byte_of(character: char) -> Option<u8> {
    let prints = |byte: &u8| matches!(byte, 33..=126 | 161..=172 | 174..=255);
    match u32::from(character) {
        code @ 0..256 => Some(code as u8).filter(prints),
        code => (0..=255).filter(|byte| !prints(byte)).nth(code as usize - 256),
    }
}

/// Reads `added_tokens_decoder` of `tokenizer_config.json`, ordered by id.
fn added_tokens(config: &[u8]) -> Result<Vec<AddedToken>, String> {
    let bad = |reason: &dyn Display| format!("tokenizer_config.json: {reason}");
    let config: Value = serde_json::from_slice(config).map_err(|error| bad(&error))?;
    let mut found = BTreeMap::new();
    for (id, token) in config.get("added_tokens_decoder").and_then(Value::as_object).into_iter().flatten() {
        let flag = |name: &str| token.get(name) == Some(&Value::Bool(true));
        let (Ok(id), Some(content)) = (id.parse::<u32>(), token["content"].as_str()) else {
            return Err(bad(&format!("{token} as token {id} of added_tokens_decoder")));
        };
        let special = flag("special");
        let normalized = token.get("normalized").map_or(!special, |flag| *flag == true);
        let token = AddedToken::from(content, special).normalized(normalized).single_word(flag("single_word"));
        found.insert(id, token.lstrip(flag("lstrip")).rstrip(flag("rstrip")));
    }
    Ok(found.into_values().collect())
}

/// Small parts of the file, and two facts about the large part.
#[derive(Default, serde::Deserialize)]
#[serde(default)]
struct TokenizerParts {
    normalizer: Value,
    pre_tokenizer: Value,
    post_processor: Value,
    decoder: Value,
    model: ModelParts,
}

#[derive(Default, serde::Deserialize)]
#[serde(default)]
struct ModelParts {
    vocab: Vocab,
    merges: Option<Vec<Merge>>,
    continuing_subword_prefix: Option<String>,
}

/// Length in bytes of the longest word of a vocabulary that is an object; 0 for a list.
#[derive(Default)]
struct Vocab(usize);

/// Total bytes of the two strings of a merge.
struct Merge(usize);

impl<'de> Deserialize<'de> for Vocab {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(Lengths).map(|(longest, _)| Self(longest))
    }
}

impl<'de> Deserialize<'de> for Merge {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(Lengths).map(|(_, sum)| Self(sum))
    }
}

/// Visitor that returns the length of an object's longest key, and of a merge's strings without separator.
struct Lengths;

impl<'de> Visitor<'de> for Lengths {
    type Value = (usize, usize);

    fn expecting(&self, text: &mut fmt::Formatter) -> fmt::Result {
        text.write_str("words or merges")
    }

    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Ok((0, text.len().saturating_sub(1)))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut from: A) -> Result<Self::Value, A::Error> {
        let mut sum = 0;
        while let Some(part) = from.next_element::<Value>()? {
            sum += part.as_str().map_or(0, str::len);
        }
        Ok((0, sum))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut from: A) -> Result<Self::Value, A::Error> {
        let mut longest = 0;
        while let Some((word, _)) = from.next_entry::<String, IgnoredAny>()? {
            longest = longest.max(word.len());
        }
        Ok((longest, 0))
    }
}

/// Rejects parts that make the tokenizers crate panic or allocate without limit. No model of a supported architecture needs them.
fn check_parts(bytes: &[u8]) -> Result<(), String> {
    let parts: TokenizerParts = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
    let prefix = parts.model.merges.is_some() && parts.model.continuing_subword_prefix.is_some_and(|p| !p.is_empty());
    let too_long = parts.model.merges.iter().flatten().any(|merge| merge.0 > parts.model.vocab.0);
    let rules = [
        (has(&parts.normalizer, &is_precompiled), "the normalizer Precompiled"),
        (has(&parts.normalizer, &|part| part.get("prepend").is_some_and(|text| text == "")), "prepending nothing"),
        (has(&parts.normalizer, &|part| part.get("Regex").is_some_and(may_match_nothing)), "replacing empty matches"),
        (has(&parts.pre_tokenizer, &|part| part.get("length").is_some_and(|length| length == 0)), "pieces of length 0"),
        (has(&parts.post_processor, &|part| !is_sound_template(part)), "such a post-processor template"),
        (has(&parts.decoder, &|part| part.get("stop").is_some_and(|stop| stop != 0)), "stripping the ends of tokens"),
        (prefix, "BPE with continuing_subword_prefix"),
        (too_long, "a merge whose text is longer than every token"),
    ];
    match rules.iter().find(|(broken, _)| *broken) {
        Some((_, what)) => Err(format!("{what} is not supported")),
        None => Ok(()),
    }
}

/// Returns true if this part of the file contains a matching object, at any depth.
fn has(part: &Value, such: &dyn Fn(&Map<String, Value>) -> bool) -> bool {
    match part {
        Value::Object(map) => such(map) || map.values().any(|value| has(value, such)),
        Value::Array(list) => list.iter().any(|value| has(value, such)),
        _ => false,
    }
}

fn is_precompiled(part: &Map<String, Value>) -> bool {
    part.contains_key("precompiled_charsmap") || part.get("type").is_some_and(|name| name == "Precompiled")
}

/// Returns true if a regular expression may match the empty string, or if this is unclear.
fn may_match_nothing(regex: &Value) -> bool {
    let Some(regex) = regex.as_str().filter(|regex| !regex.is_empty()) else { return true };
    let escapes = regex
        .replace("\\\\", "")
        .split('\\')
        .skip(1)
        .any(|rest| !rest.starts_with(['s', 'S', 'd', 'n', 't', 'r', '.']));
    escapes || regex.contains(['(', '|', '*', '?', '^', '$']) || regex.contains("{0") || regex.contains("{,")
}

/// Returns true if a template for one text contains only that text and known special tokens.
fn is_sound_template(part: &Map<String, Value>) -> bool {
    let Some(Value::Array(pieces)) = part.get("single") else { return true };
    let known = |id: &Value| part.get("special_tokens").zip(id.as_str()).is_some_and(|(all, id)| all.get(id).is_some());
    pieces.iter().all(|piece| match (piece.pointer("/Sequence/id"), piece.pointer("/SpecialToken/id")) {
        (Some(id), None) => id == "A",
        (None, Some(id)) => known(id),
        _ => false,
    })
}
