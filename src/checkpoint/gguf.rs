//! A GGUF file as a checkpoint. Its metadata replaces a folder's small files.

use super::words::{self, text};
use super::{Checkpoint, Headers};
use crate::error::{Error, Result};
use crate::model::ModelSpec;
use crate::options::SamplingOptions;
use crate::text::{ChatTemplate, NAMED, Tokenizer, Vocabulary};
use crate::weights::{Metadata, Reading, Source, Weights};
use serde_json::{Map, Value};

/// Control tokens that end an answer. Some files name only the token that ends a text.
const ENDS_OF_TURNS: [&str; 6] =
    ["<|im_end|>", "<|eot_id|>", "<|eom_id|>", "<|end|>", "<end_of_turn>", "<|endoftext|>"];

pub(super) struct Gguf {
    file: String,
    metadata: Metadata,
    headers: Headers,
}

impl Gguf {
    pub async fn open(source: Box<dyn Source>, file: &str) -> Result<Self> {
        let (weights, metadata) = Weights::open_gguf(source, file).await?;
        let mut spec = words::spec(file, &metadata, &weights).await?;
        add_ends(&mut spec, &metadata);
        let warnings = idle_ids(&metadata, spec.vocab_size);
        let headers = Headers { spec, sampling: SamplingOptions::default(), weights, warnings };
        Ok(Self { file: file.to_owned(), metadata, headers })
    }

    fn id(&self, name: &str) -> Result<Option<u32>> {
        let key = format!("tokenizer.ggml.{name}_token_id");
        match self.metadata.get(&key) {
            None => Ok(None),
            Some(value) => match value.as_u64().and_then(|id| u32::try_from(id).ok()) {
                Some(id) => Ok(Some(id)),
                None => Err(self.bad(format!("{key}: {value} is not a token id"))),
            },
        }
    }

    fn bad(&self, reason: String) -> Error {
        Error::BadTokenizer { file: self.file.clone(), reason }
    }

    fn read_tokenizer(&self) -> Result<Tokenizer> {
        let metadata = &self.metadata;
        let named = |name: &str| text(metadata, &format!("tokenizer.ggml.{name}"));
        let (Some(model), Some(tokens)) = (named("model"), metadata.texts("tokenizer.ggml.tokens")) else {
            return Err(self.bad("there is no tokenizer in it: tokenizer.ggml.model and .tokens are missing".into()));
        };
        let tokens: Vec<_> = tokens.collect();
        let count = tokens.len();
        let numbers = |name: &str| {
            metadata.numbers(&format!("tokenizer.ggml.{name}")).map_or_else(Vec::new, |numbers| numbers.collect())
        };
        let pre = named("pre").unwrap_or_default();
        let [bos, eos] = ["bos", "eos"].map(|name| self.id(name));
        // Converters write -1 or 4294967295 for missing ids.
        let known = |name: &str| {
            let id = metadata.get(&format!("tokenizer.ggml.{name}_token_id"))?.as_u64()?;
            u32::try_from(id).ok().filter(|&id| (id as usize) < count)
        };
        let says = |name: &str| metadata.get(&format!("tokenizer.ggml.{name}")).and_then(|value| value.as_bool());
        // Gemma's scores do not give the order of its merges; the ids do.
        let is_gemma = text(metadata, "general.architecture").is_some_and(|name| name.starts_with("gemma"));
        Vocabulary {
            pre: &pre,
            tokens,
            types: numbers("token_type"),
            scores: if is_gemma { Vec::new() } else { numbers("scores") },
            merges: metadata.texts("tokenizer.ggml.merges").map(|merges| merges.collect()),
            special: ["eot", "padding"].into_iter().filter_map(known).chain(ends_of_turns(metadata)).collect(),
            unknown: known("unknown"),
            bos: bos?,
            eos: eos?,
            add_bos: says("add_bos_token"),
            add_eos: says("add_eos_token") == Some(true),
            space_prefix: says("add_space_prefix"),
            model: &model,
        }
        .tokenizer(&self.file)
    }

    /// Reads the chat templates and passes the special tokens to them under their `tokenizer_config.json` names.
    fn read_template(&self) -> Result<Option<ChatTemplate>> {
        let source = |key: &str| match self.metadata.get(key) {
            None => Ok(None),
            Some(value) => match value.as_str() {
                Some(source) => Ok(Some(source.to_owned())),
                None => Err(Error::BadTemplate { reason: format!("{key} in the GGUF file is no text") }),
            },
        };
        let Some(default) = source("tokenizer.chat_template")? else { return Ok(None) };
        let mut config = Map::new();
        if let Some(tokens) = self.metadata.texts("tokenizer.ggml.tokens") {
            let tokens: Vec<_> = tokens.collect();
            for (name, word) in [("bos", "bos"), ("eos", "eos"), ("unknown", "unk"), ("padding", "pad")] {
                let id = self.metadata.get(&format!("tokenizer.ggml.{name}_token_id")).and_then(|id| id.as_u64());
                if let Some(token) = id.and_then(|id| tokens.get(usize::try_from(id).ok()?)) {
                    config.insert(format!("{word}_token"), Value::from(*token));
                }
            }
        }
        let config = Value::from(config).to_string();
        let mut template = ChatTemplate::from_files(Some(config.as_bytes()), Some(default.as_bytes()))?;
        if let Some(template) = &mut template {
            for name in NAMED {
                if let Some(source) = source(&format!("tokenizer.chat_template.{name}"))? {
                    template.add(name, source.as_bytes())?;
                }
            }
        }
        Ok(template)
    }
}

/// Returns a warning for each optional token id that is not in the vocabulary. Converters write -1 or 4294967295 for missing ids.
fn idle_ids(metadata: &Metadata, vocab: usize) -> Vec<String> {
    let mut warnings = Vec::new();
    for name in ["padding", "unknown"] {
        let key = format!("tokenizer.ggml.{name}_token_id");
        if let Some(id) = metadata.get(&key)
            && id.as_u64().is_none_or(|known| known >= vocab as u64)
        {
            warnings.push(format!("{key} {id} is ignored: the model has {vocab} tokens"));
        }
    }
    warnings
}

/// Adds the tokens that end an answer to those that end a text.
fn add_ends(spec: &mut ModelSpec, metadata: &Metadata) {
    let named = ["eot", "eom"].map(|name| metadata.get(&format!("tokenizer.ggml.{name}_token_id")));
    let named = named.into_iter().flatten().filter_map(|id| id.as_u64()).filter_map(|id| u32::try_from(id).ok());
    for id in named.chain(ends_of_turns(metadata)) {
        if !spec.eos_token_id.contains(&id) {
            spec.eos_token_id.push(id);
        }
    }
}

/// Returns the ids of tokens whose spelling marks the end of an answer. Many converted files do not give them the control token type.
fn ends_of_turns(metadata: &Metadata) -> impl Iterator<Item = u32> {
    let tokens = metadata.texts("tokenizer.ggml.tokens").into_iter().flatten();
    tokens.zip(0..).filter(|(token, _)| ENDS_OF_TURNS.contains(token)).map(|(_, id)| id)
}

impl Checkpoint for Gguf {
    fn headers(&self) -> &Headers {
        &self.headers
    }

    fn tokenizer(&self) -> Reading<'_, Tokenizer> {
        Box::pin(async { self.read_tokenizer().map_err(|error| error.within(&self.weights().source().name())) })
    }

    fn template(&self) -> Reading<'_, Option<ChatTemplate>> {
        Box::pin(async { self.read_template() })
    }

    fn into_weights(self: Box<Self>) -> Weights {
        self.headers.weights
    }
}
