//! A model's files, independent of their format: the trait `Checkpoint` and its two implementations.

mod choose;
mod folder;
mod gguf;
mod words;

use crate::error::Result;
use crate::model::{ModelSpec, TokenSpec};
use crate::options::SamplingOptions;
use crate::text::{ChatTemplate, Tokenizer};
use crate::weights::{Reading, Source, Weights, has_safetensors};

pub use self::choose::{choose, of_assistant};

/// Data that every format provides when it is opened.
pub struct Headers {
    spec: ModelSpec,
    sampling: SamplingOptions,
    weights: Weights,
    /// Ignored parts of the files, with the reasons.
    warnings: Vec<String>,
}

/// A model's files, of which only the headers have been read.
pub trait Checkpoint {
    /// Returns the headers.
    fn headers(&self) -> &Headers;

    /// Returns the model's architecture and sizes.
    fn spec(&self) -> &ModelSpec {
        &self.headers().spec
    }

    /// Returns the sampling options that the model recommends.
    fn sampling(&self) -> &SamplingOptions {
        &self.headers().sampling
    }

    /// Returns which parts of the files are ignored, and why.
    fn warnings(&self) -> &[String] {
        &self.headers().warnings
    }

    /// Returns the model's tensors.
    fn weights(&self) -> &Weights {
        &self.headers().weights
    }

    /// Reads the tokenizer. Fails with [`Error::NotFound`] or [`Error::BadTokenizer`].
    fn tokenizer(&self) -> Reading<'_, Tokenizer>;

    /// Reads the chat template, if there is one. Fails with [`Error::BadTemplate`].
    fn template(&self) -> Reading<'_, Option<ChatTemplate>>;

    /// Returns the tensors and drops everything else.
    fn into_weights(self: Box<Self>) -> Weights;
}

/// Everything needed to process text, without weights: sufficient for a model that runs on a server.
pub struct Texts {
    /// Tokenizer.
    pub tokenizer: Tokenizer,
    /// Chat template, if there is one.
    pub template: Option<ChatTemplate>,
    /// Sampling options that the model recommends.
    pub sampling: SamplingOptions,
    /// Tokens that begin and end a text.
    pub tokens: TokenSpec,
    /// Maximum number of positions. `None`: unknown.
    pub positions: Option<usize>,
}

/// Reads what is needed to process text, without weights. A folder may lack weights and have any architecture. For a GGUF file, the header
/// is read.
#[inline(never)]
pub fn texts(source: Box<dyn Source>, file: Option<&str>) -> Reading<'_, Texts> {
    Box::pin(async move {
        if file.is_none() && source.size("tokenizer.json").await?.is_some() {
            let place = source.name();
            return folder::texts(&*source).await.map_err(|error| error.within(&place));
        }
        let opened = open(source, file).await?;
        let (spec, sampling) = (opened.spec(), opened.sampling().clone());
        let (tokens, positions) = (spec.into(), Some(spec.max_position_embeddings));
        let (tokenizer, template) = (opened.tokenizer().await?, opened.template().await?);
        Ok(Texts { tokenizer, template, sampling, tokens, positions })
    })
}

/// Opens a checkpoint in the Hugging Face format (`config.json` and safetensors, also MLX's), or a GGUF file if `file` names one (`*`
/// matches any characters) or there is no safetensors file.
///
/// # Errors
/// `NotFound`, `BadConfig`, `UnsupportedArchitecture`, `BadWeights` of [`crate::Error`], or `BadOption` if several
/// files match, or none.
#[inline(never)]
pub fn open(source: Box<dyn Source>, file: Option<&str>) -> Reading<'_, Box<dyn Checkpoint>> {
    let place = source.name();
    Box::pin(async move { open_as_named(source, &place, file).await.map_err(|error| error.within(&place)) })
}

async fn open_as_named(source: Box<dyn Source>, place: &str, file: Option<&str>) -> Result<Box<dyn Checkpoint>> {
    let gguf = match file {
        None if has_safetensors(&*source).await? => None,
        _ => {
            let names = source.list().await?;
            let names: Vec<_> = names.iter().map(String::as_str).collect();
            match (names.as_slice(), file) {
                // A file given by its path may be one of several parts.
                ([one], None) if one.ends_with(".gguf") => Some((*one).to_owned()),
                _ => choose(place, file, &names)?.into_iter().next(),
            }
        }
    };
    Ok(match gguf {
        Some(file) => Box::new(gguf::Gguf::open(source, &file).await?),
        None => Box::new(folder::FolderCheckpoint::open(source).await?),
    })
}
