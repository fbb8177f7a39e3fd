//! A model folder in the Hugging Face format: `config.json`, safetensors, `tokenizer.json` and related files.

use super::{Checkpoint, Headers, Texts};
use crate::error::{Error, Result};
use crate::model::{ModelSpec, parse_config, parse_tokens};
use crate::options::SamplingOptions;
use crate::text::{ChatTemplate, NAMED, Tokenizer, named_file};
use crate::weights::{Quantization, Reading, Source, Weights, read_small};
use serde_json::Value;

const SMALL_FILE: u64 = 1 << 20;
/// Maximum size of `tokenizer_config.json`, in bytes. Gemma 3's lists 6,000 tokens in 1.2 MB.
const TOKENIZER_CONFIG: u64 = 8 << 20;
const TOKENIZER_FILE: u64 = 64 << 20;

/// Matrix rows compared at a time.
const PORTION: u64 = 1024;

pub(super) struct FolderCheckpoint {
    headers: Headers,
}

impl FolderCheckpoint {
    pub async fn open(source: Box<dyn Source>) -> Result<Self> {
        let config = required(&*source, "config.json", SMALL_FILE).await?;
        let generation_config = read_small(&*source, "generation_config.json", SMALL_FILE).await?;
        let mut spec = parse_config(&config, generation_config.as_deref())?;
        let sampling = generation_config.as_deref().map(SamplingOptions::recommended).transpose()?.unwrap_or_default();
        let mut weights = Weights::open(source).await?;
        if let Some(quantization) = Quantization::parse(&config)? {
            weights.join(&quantization)?;
        }
        unstack(&spec, &mut weights)?;
        let warnings = untie(&mut spec, &weights).await?.into_iter().collect();
        Ok(Self { headers: Headers { spec, sampling, weights, warnings } })
    }
}

/// Splits the tensors in which some checkpoints stack the matrices of experts (Qwen3.5), if the others have a tensor for each expert.
fn unstack(spec: &ModelSpec, weights: &mut Weights) -> Result<()> {
    let experts = &spec.names().experts;
    for (stacked, names) in [("gate_up_proj", experts.up), ("down_proj", &[experts.down])] {
        if let Some((before, _)) = names[0].split_once('*') {
            weights.unstack(&format!("{before}{stacked}"), names)?;
        }
    }
    Ok(())
}

/// Clears `tie_word_embeddings` and returns a warning if the checkpoint has an LM head whose bytes differ from the embedding table. Like
/// transformers, this assumes that the config is wrong.
async fn untie(spec: &mut ModelSpec, weights: &Weights) -> Result<Option<String>> {
    let names = [spec.names().embedding, spec.names().head].map(|name| format!("{name}.weight"));
    if !spec.tie_word_embeddings || !weights.contains(&names[1]) {
        return Ok(None);
    }
    // A head with an unsupported type is reported when it is loaded.
    if let [Some(table), Some(head)] = names.each_ref().map(|name| weights.get(name)) {
        let mut is_equal = table.dtype == head.dtype && table.shape == head.shape;
        let mut rows = 0..0;
        while is_equal && rows.end < table.rows() {
            rows = rows.end..table.rows().min(rows.end + PORTION);
            let mut read = Vec::new();
            for name in &names {
                read.push(weights.read_rows(name, rows.clone()).await?);
            }
            is_equal = read[0] == read[1];
        }
        if is_equal {
            return Ok(None);
        }
    }
    spec.tie_word_embeddings = false;
    let [table, head] = names;
    Ok(Some(format!("tie_word_embeddings is ignored: {head} is not stored as {table} is")))
}

impl Checkpoint for FolderCheckpoint {
    fn headers(&self) -> &Headers {
        &self.headers
    }

    fn tokenizer(&self) -> Reading<'_, Tokenizer> {
        Box::pin(tokenizer(self.weights().source()))
    }

    fn template(&self) -> Reading<'_, Option<ChatTemplate>> {
        Box::pin(template(self.weights().source()))
    }

    fn into_weights(self: Box<Self>) -> Weights {
        self.headers.weights
    }
}

/// Reads a folder's tokenizer, template and options, but not its weights.
pub(super) async fn texts(source: &dyn Source) -> Result<Texts> {
    let tokenizer = tokenizer(source).await?;
    let config = required(source, "config.json", SMALL_FILE).await?;
    let generation_config = read_small(source, "generation_config.json", SMALL_FILE).await?;
    let sampling = generation_config.as_deref().map(SamplingOptions::recommended).transpose()?.unwrap_or_default();
    let (tokens, positions) = parse_tokens(&config, generation_config.as_deref(), tokenizer.vocab_size())?;
    Ok(Texts { tokenizer, template: template(source).await?, sampling, tokens, positions })
}

async fn tokenizer(source: &dyn Source) -> Result<Tokenizer> {
    let file = "tokenizer.json";
    let bytes = required(source, file, TOKENIZER_FILE).await?;
    let config = read_small(source, "tokenizer_config.json", TOKENIZER_CONFIG).await?;
    Tokenizer::from_files(file, &bytes, config.as_deref()).map_err(|error| error.within(&source.name()))
}

async fn template(source: &dyn Source) -> Result<Option<ChatTemplate>> {
    let config = read_small(source, "tokenizer_config.json", TOKENIZER_CONFIG).await?;
    let jinja = read_small(source, "chat_template.jinja", SMALL_FILE).await?;
    let mut template = ChatTemplate::from_files(config.as_deref(), jinja.as_deref())?;
    match &mut template {
        Some(template) if jinja.is_some() => {
            for name in NAMED {
                if let Some(source) = read_small(source, &named_file(name), SMALL_FILE).await? {
                    template.add(name, &source)?;
                }
            }
        }
        Some(_) => {}
        None => {
            let Some(old) = read_small(source, "chat_template.json", SMALL_FILE).await? else { return Ok(None) };
            let bad = |reason: String| Error::BadTemplate { reason: format!("chat_template.json: {reason}") };
            let old: Value = serde_json::from_slice(&old).map_err(|error| bad(error.to_string()))?;
            let source = old["chat_template"].as_str().ok_or_else(|| bad("it has no text chat_template".into()))?;
            template = ChatTemplate::from_files(config.as_deref(), Some(source.as_bytes()))?;
        }
    }
    Ok(template)
}

fn required<'a>(source: &'a dyn Source, file: &'a str, limit: u64) -> Reading<'a, Vec<u8>> {
    Box::pin(async move {
        read_small(source, file, limit).await?.ok_or_else(|| Error::NotFound {
            path: format!("{}/{file}", source.name()),
            reason: "there is no such file; a model's folder holds config.json, model.safetensors and tokenizer.json, or a GGUF file"
                .into(),
        })
    })
}
