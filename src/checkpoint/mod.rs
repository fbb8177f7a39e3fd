//! What the engine wants of a model's files, whatever their format: one trait, and who reads which format.

mod choose;
mod folder;
mod gguf;
mod words;

use crate::error::{Error, Result};
use crate::model::{ModelSpec, TokenSpec};
use crate::options::SamplingOptions;
use crate::text::{ChatTemplate, Tokenizer};
use crate::weights::{Reading, Source, Weights, has_safetensors};

pub use self::choose::{choose, of_assistant};

/// What every format says when it is opened.
pub struct Headers<S> {
    spec: ModelSpec,
    sampling: SamplingOptions,
    weights: Weights<S>,
    /// What in the files is ignored, and why.
    warnings: Vec<String>,
}

/// A model's files, of which only the headers were read.
pub trait Checkpoint<S: 'static> {
    /// What was read.
    fn headers(&self) -> &Headers<S>;

    /// What the model is and does.
    fn spec(&self) -> &ModelSpec {
        &self.headers().spec
    }

    /// How it recommends to choose tokens.
    fn sampling(&self) -> &SamplingOptions {
        &self.headers().sampling
    }

    /// What in the files is ignored, and why.
    fn warnings(&self) -> &[String] {
        &self.headers().warnings
    }

    /// Its tensors.
    fn weights(&self) -> &Weights<S> {
        &self.headers().weights
    }

    /// Its tokenizer. Fails with [`Error::NotFound`] or [`Error::BadTokenizer`].
    fn tokenizer(&self) -> Reading<'_, Tokenizer>;

    /// Its chat template, if it has one. Fails with [`Error::BadTemplate`].
    fn template(&self) -> Reading<'_, Option<ChatTemplate>>;

    /// The tensors, when all else was read.
    fn into_weights(self: Box<Self>) -> Weights<S>;
}

/// What texts need of a model: enough for one that runs elsewhere.
pub struct Texts {
    /// Its tokenizer.
    pub tokenizer: Tokenizer,
    /// Its chat template, if it has one.
    pub template: Option<ChatTemplate>,
    /// How it recommends to choose tokens.
    pub sampling: SamplingOptions,
    /// Which tokens begin and end a text.
    pub tokens: TokenSpec,
    /// Positions that it was made for, where that is known.
    pub positions: Option<usize>,
}

/// What texts need of a model's files, without its weights: those of a folder may be missing, and the architecture be any; of a GGUF
/// file the header is read.
///
/// # Errors
/// As [`open`], [`Checkpoint::tokenizer`] and [`Checkpoint::template`].
pub async fn texts<S: Source + 'static>(source: S, file: Option<&str>) -> Result<Texts> {
    if file.is_none() && source.size("tokenizer.json").await?.is_some() {
        let place = source.name();
        return folder::texts(&source).await.map_err(|error| error.within(&place));
    }
    let opened = open(source, file).await?;
    let (spec, sampling) = (opened.spec(), opened.sampling().clone());
    let (tokens, positions) = (spec.into(), Some(spec.max_position_embeddings));
    Ok(Texts { tokenizer: opened.tokenizer().await?, template: opened.template().await?, sampling, tokens, positions })
}

/// Opens the checkpoint: one in the format of Hugging Face (`config.json` and safetensors, MLX's among them), or a GGUF file where `file`
/// names one (`*` stands for any characters) or there is no safetensors file.
///
/// # Errors
/// [`Error::NotFound`], [`Error::BadConfig`], [`Error::UnsupportedArchitecture`], [`Error::BadWeights`], [`Error::BadOption`] where
/// several files match, or none.
pub async fn open<S: Source + 'static>(source: S, file: Option<&str>) -> Result<Box<dyn Checkpoint<S>>> {
    let place = source.name();
    let opened = async {
        let gguf = match file {
            None if has_safetensors(&source).await? => None,
            _ => {
                let names = source.list().await?;
                let names: Vec<_> = names.iter().map(String::as_str).collect();
                match (names.as_slice(), file) {
                    // A file that was named by itself may be one of several parts.
                    ([one], None) if one.ends_with(".gguf") => Some((*one).to_owned()),
                    _ => choose(&place, file, &names)?.into_iter().next(),
                }
            }
        };
        Ok::<Box<dyn Checkpoint<S>>, Error>(match gguf {
            Some(file) => Box::new(gguf::Gguf::open(source, &file).await?),
            None => Box::new(folder::Folder::open(source).await?),
        })
    };
    opened.await.map_err(|error| error.within(&place))
}
