//! A folder in the format of Hugging Face: `config.json`, safetensors, `tokenizer.json` and what goes with them.

use super::{Checkpoint, Headers, Reading, Texts};
use crate::error::{Error, Result};
use crate::model::{parse_config, parse_tokens};
use crate::options::SamplingOptions;
use crate::text::{ChatTemplate, Tokenizer};
use crate::weights::{Quantization, Source, Weights, read_small};

/// Largest accepted `config.json` and other small files, in bytes.
const SMALL_FILE: u64 = 1 << 20;
/// Largest accepted `tokenizer_config.json`, in bytes: Gemma 3's lists 6,000 tokens in 1.2 MB.
const TOKENIZER_CONFIG: u64 = 8 << 20;
/// Largest accepted `tokenizer.json`, in bytes.
const TOKENIZER_FILE: u64 = 64 << 20;

pub(super) struct Folder<S> {
    headers: Headers<S>,
}

impl<S: Source> Folder<S> {
    pub async fn open(source: S) -> Result<Self> {
        let config = required(&source, "config.json", SMALL_FILE).await?;
        let generation_config = read_small(&source, "generation_config.json", SMALL_FILE).await?;
        let spec = parse_config(&config, generation_config.as_deref())?;
        let sampling = generation_config.as_deref().map(SamplingOptions::recommended).transpose()?.unwrap_or_default();
        let mut weights = Weights::open(source).await?;
        if let Some(quantization) = Quantization::parse(&config)? {
            weights.join(&quantization)?;
        }
        Ok(Self { headers: Headers { spec, sampling, weights } })
    }
}

impl<S: Source + 'static> Checkpoint<S> for Folder<S> {
    fn headers(&self) -> &Headers<S> {
        &self.headers
    }

    fn tokenizer(&self) -> Reading<'_, Tokenizer> {
        Box::pin(tokenizer(self.weights().source()))
    }

    fn template(&self) -> Reading<'_, Option<ChatTemplate>> {
        Box::pin(template(self.weights().source()))
    }

    fn into_weights(self: Box<Self>) -> Weights<S> {
        self.headers.weights
    }
}

/// What texts need of a folder, whose weights are not looked at.
pub(super) async fn texts(source: &impl Source) -> Result<Texts> {
    let tokenizer = tokenizer(source).await?;
    let config = required(source, "config.json", SMALL_FILE).await?;
    let generation_config = read_small(source, "generation_config.json", SMALL_FILE).await?;
    let sampling = generation_config.as_deref().map(SamplingOptions::recommended).transpose()?.unwrap_or_default();
    let (tokens, positions) = parse_tokens(&config, generation_config.as_deref(), tokenizer.vocab_size())?;
    Ok(Texts { tokenizer, template: template(source).await?, sampling, tokens, positions })
}

async fn tokenizer(source: &impl Source) -> Result<Tokenizer> {
    let file = "tokenizer.json";
    let bytes = required(source, file, TOKENIZER_FILE).await?;
    let config = read_small(source, "tokenizer_config.json", TOKENIZER_CONFIG).await?;
    Tokenizer::from_files(file, &bytes, config.as_deref()).map_err(|error| error.within(&source.name()))
}

async fn template(source: &impl Source) -> Result<Option<ChatTemplate>> {
    let config = read_small(source, "tokenizer_config.json", TOKENIZER_CONFIG).await?;
    let jinja = read_small(source, "chat_template.jinja", SMALL_FILE).await?;
    let mut template = ChatTemplate::from_files(config.as_deref(), jinja.as_deref())?;
    if let (Some(template), Some(_)) = (&mut template, jinja) {
        for name in ["tool_use", "rag"] {
            let file = format!("additional_chat_templates/{name}.jinja");
            if let Some(source) = read_small(source, &file, SMALL_FILE).await? {
                template.add(name, &source)?;
            }
        }
    }
    Ok(template)
}

async fn required<S: Source>(source: &S, file: &str, limit: u64) -> Result<Vec<u8>> {
    read_small(source, file, limit).await?.ok_or_else(|| Error::NotFound {
        path: format!("{}/{file}", source.name()),
        reason: "there is no such file; a model's folder holds config.json, model.safetensors and tokenizer.json, or a GGUF file"
            .into(),
    })
}
