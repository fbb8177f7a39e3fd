//! A model's files -> a session: config, weights and tokenizer of the target, and of the draft model if there is one.

use crate::decode::{Blueprint, Capacity, Engine, Memory, Model, RoundBuffers, Translate};
use crate::error::{Error, Result};
use crate::gpu::Gpu;
use crate::model::{ModelSpec, parse_config};
use crate::options::{LoadOptions, SamplingDefaults};
use crate::session::{Building, Learned, Origination, Prompts, Session};
use crate::text::{ChatTemplate, Tokenizer, Translator};
use crate::weights::{Source, Weights, read_small};
use std::fmt::Display;
use std::rc::Rc;

/// Positions of the KV cache unless more are asked for.
const DEFAULT_CONTEXT: usize = 4096;
/// Largest accepted `config.json` and other small files, in bytes.
const SMALL_FILE: u64 = 1 << 20;
/// Largest accepted `tokenizer.json`, in bytes.
const TOKENIZER_FILE: u64 = 64 << 20;
/// Largest accepted `tokenizer_config.json`, in bytes: Gemma 3's lists 6,000 tokens in 1.2 MB.
const TOKENIZER_CONFIG: u64 = 8 << 20;

/// A model as its headers describe it: nothing is on the GPU yet.
pub struct Checkpoint<S> {
    /// What it is and does, and how much room it is given.
    pub blueprint: Blueprint,
    /// How it recommends to choose tokens.
    pub sampling: SamplingDefaults,
    /// Its tensors.
    pub weights: Weights<S>,
    /// What in its files is of no use, in words.
    pub warnings: Vec<String>,
}

impl<S: Source> Checkpoint<S> {
    /// Reads `config.json` and the headers of the weights; checks the name and shape of every tensor.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::BadConfig`], [`Error::UnsupportedArchitecture`], [`Error::BadWeights`],
    /// [`Error::BadOption`] for more context than the model has positions.
    pub async fn open(source: S, options: &LoadOptions) -> Result<Self> {
        options.validate()?;
        let place = source.name();
        Self::read(source, options).await.map_err(|error| error.within(&place))
    }

    async fn read(source: S, options: &LoadOptions) -> Result<Self> {
        let config = required(&source, "config.json", SMALL_FILE).await?;
        let generation_config = read_small(&source, "generation_config.json", SMALL_FILE).await?;
        let mut spec = parse_config(&config, generation_config.as_deref())?;
        let sampling = generation_config.as_deref().map(SamplingDefaults::parse).transpose()?.unwrap_or_default();
        let warnings = drop_unknown_tokens(&mut spec);
        let most = spec.max_position_embeddings;
        let max_context = options.max_context.unwrap_or(most.min(DEFAULT_CONTEXT));
        if max_context > most {
            let allowed = format!("2 to {most}, the positions that the model was made for");
            return Err(Error::BadOption { option: "max_context".into(), value: max_context.to_string(), allowed });
        }
        let capacity = Capacity { max_context, prefill_chunk: options.prefill_chunk, kv_dtype: options.kv_dtype };
        let weights = Weights::open(source).await?;
        Ok(Self { blueprint: Blueprint::new(spec, &weights, capacity)?, sampling, weights, warnings })
    }

    /// Bytes that it will need on the GPU.
    pub fn memory(&self) -> Memory {
        self.blueprint.memory()
    }

    /// Its tokenizer.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::BadTokenizer`].
    pub async fn tokenizer(&self) -> Result<Tokenizer> {
        let file = "tokenizer.json";
        let source = self.weights.source();
        let bytes = required(source, file, TOKENIZER_FILE).await?;
        let config = read_small(source, "tokenizer_config.json", TOKENIZER_CONFIG).await?;
        Tokenizer::from_files(file, &bytes, config.as_deref()).map_err(|error| error.within(&source.name()))
    }

    /// Refuses a tokenizer with more tokens than the model.
    pub(crate) fn check_tokens(&self, tokenizer: &Tokenizer) -> Result<()> {
        let (tokens, vocab) = (tokenizer.vocab_size(), self.blueprint.spec.vocab_size);
        if tokens > vocab {
            let reason = format!("it has {tokens} tokens, but config.json says {vocab}");
            let file = format!("{}/tokenizer.json", self.weights.source().name());
            return Err(Error::BadTokenizer { file, reason });
        }
        Ok(())
    }

    pub(crate) async fn template(&self) -> Result<Option<ChatTemplate>> {
        let source = self.weights.source();
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
}

impl Session {
    /// Loads a target and, if given, a draft model. One with another tokenizer drafts through text; one that cannot be
    /// loaded is left out, and the statistics' warnings say why. The sources stay with the session, which reads them again
    /// when the device is lost. `loaded` hears of bytes on the GPU and of all bytes.
    ///
    /// # Errors
    /// What [`Checkpoint::open`] reports; [`Error::BadTokenizer`]; [`Error::OutOfGpuMemory`]; what the device reports.
    pub async fn load<S: Source + 'static, A: Source + 'static>(
        gpu: &Rc<Gpu>,
        target: S,
        assistant: Option<A>,
        options: &LoadOptions,
        loaded: &mut dyn FnMut(u64, u64),
    ) -> Result<Self> {
        if options.sp_degree != 1 {
            let allowed = "1: several targets are for `parallel::Parallel`".into();
            return Err(Error::BadOption { option: "sp_degree".into(), value: options.sp_degree.to_string(), allowed });
        }
        let target = Checkpoint::open(target, options).await?;
        let tokenizer = Rc::new(target.tokenizer().await?);
        target.check_tokens(&tokenizer)?;
        let template = target.template().await?;
        let (context, sampling) = (target.blueprint.capacity.max_context, target.sampling.clone());
        let warnings = target.warnings.clone();
        let mut pair = Pair { target, assistant: None, tokenizers: None, warnings };
        match assistant {
            None => {}
            Some(source) => match open_assistant(source, options, context).await {
                Err(error) => pair.warnings.push(without_assistant(&error)),
                Ok((assistant, other)) => {
                    if let Some(difference) = tokenizer.difference(&other) {
                        pair.warnings.push(format!(
                            "the assistant model has another tokenizer ({difference}): its drafts go through text, which \
                             costs speed"
                        ));
                        pair.tokenizers = Some([tokenizer.clone(), Rc::new(other)]);
                    }
                    pair.assistant = Some(assistant);
                }
            },
        }
        let mut shown = 0;
        // A second attempt starts from nothing; who watches need not see that.
        let mut progress = |done: u64, all| {
            shown = done.max(shown);
            loaded(shown, all);
        };
        let (engine, warnings) = match pair.build(gpu, &mut progress).await {
            Err(Error::DeviceLost { .. }) => pair.build(&gpu.reopen().await?, &mut progress).await,
            built => built,
        }?;
        let learned = Learned::new(&engine);
        let spec = engine.target().spec().clone();
        let prompts = Prompts { tokenizer, template, sampling, spec, context };
        Ok(Self { engine, prompts, learned, origin: Box::new(pair), warnings })
    }
}

/// The models of a session as they were chosen.
struct Pair<S, A> {
    target: Checkpoint<S>,
    assistant: Option<Checkpoint<A>>,
    /// Theirs, where they differ.
    tokenizers: Option<[Rc<Tokenizer>; 2]>,
    /// What the user should know about their files.
    warnings: Vec<String>,
}

impl<S: Source, A: Source> Pair<S, A> {
    /// Puts both on a device, and checks that it keeps the promise on which speculation rests. Without the draft model,
    /// where that fails: then the warnings say why.
    async fn build(&self, gpu: &Rc<Gpu>, loaded: &mut dyn FnMut(u64, u64)) -> Result<(Engine, Vec<String>)> {
        let Self { target, assistant, tokenizers, warnings } = self;
        let mut warnings = warnings.clone();
        let all = target.memory().weights + assistant.as_ref().map_or(0, |assistant| assistant.memory().weights);
        let mut done = 0;
        let mut progress = |bytes| {
            done += bytes;
            loaded(done, all);
        };
        let Blueprint { spec, capacity, .. } = &target.blueprint;
        let buffers = RoundBuffers::new(gpu, capacity.prefill_chunk, spec.vocab_size)?;
        let on_gpu = put(gpu, target, &buffers, &mut progress).await?;
        let mut draft = None;
        if let Some(assistant) = assistant {
            match put(gpu, assistant, &buffers, &mut progress).await {
                Ok(model) => draft = Some(model),
                Err(lost @ Error::DeviceLost { .. }) => return Err(lost),
                Err(error) => warnings.push(without_assistant(&error)),
            }
        }
        // Memory is planned in whole blocks, so a little less than all was counted.
        loaded(all, all);
        let mut engine = Engine::new(gpu, buffers, on_gpu, draft)?;
        warnings.extend(engine.check_invariance().await?.warning().map(Into::into));
        if let (Some([target, draft]), Some(_)) = (tokenizers, engine.draft()) {
            engine.translate_by(Box::new(Translator::new(target.clone(), draft.clone())))?;
        }
        Ok((engine, warnings))
    }
}

/// Ids beyond the vocabulary never come, so configs that name some work elsewhere, and here.
fn drop_unknown_tokens(spec: &mut ModelSpec) -> Vec<String> {
    let vocab = spec.vocab_size;
    let mut warnings = Vec::new();
    let mut is_known = |key: &str, id: u32| {
        let known = (id as usize) < vocab;
        if !known {
            warnings.push(format!("{key} {id} is ignored: the model has {vocab} tokens (vocab_size in config.json)"));
        }
        known
    };
    spec.eos_token_id.retain(|&id| is_known("eos_token_id", id));
    spec.bos_token_id = spec.bos_token_id.filter(|&id| is_known("bos_token_id", id));
    warnings
}

pub(crate) fn without_assistant(reason: impl Display) -> String {
    format!("the assistant model is not used: {reason}")
}

impl Translate for Translator {
    fn to_draft(&mut self, text: &[u32]) -> Result<Vec<u32>> {
        self.to_draft(text)
    }

    fn to_target(&self, drafted: &[u32]) -> Result<Vec<u32>> {
        self.to_target(drafted)
    }
}

impl<S: Source, A: Source> Origination for Pair<S, A> {
    fn engine(&self, gpu: Rc<Gpu>) -> Building<'_> {
        Box::pin(async move { self.build(&gpu, &mut |_, _| ()).await })
    }
}

/// The draft model, with the target's room, or less where it was made for less, and its tokenizer.
pub(crate) async fn open_assistant<A: Source>(
    source: A,
    options: &LoadOptions,
    context: usize,
) -> Result<(Checkpoint<A>, Tokenizer)> {
    let unbounded = LoadOptions { max_context: None, ..options.clone() };
    let mut assistant = Checkpoint::open(source, &unbounded).await?;
    let most = assistant.blueprint.spec.max_position_embeddings;
    assistant.blueprint.capacity.max_context = context.min(most);
    let tokenizer = assistant.tokenizer().await?;
    assistant.check_tokens(&tokenizer)?;
    Ok((assistant, tokenizer))
}

async fn put<S: Source>(
    gpu: &Rc<Gpu>,
    checkpoint: &Checkpoint<S>,
    buffers: &RoundBuffers,
    loaded: &mut dyn FnMut(u64),
) -> Result<Model> {
    let Checkpoint { blueprint, weights, .. } = checkpoint;
    let place = weights.source().name();
    Model::load(gpu, blueprint, Some(weights), buffers, loaded).await.map_err(|error| error.within(&place))
}

async fn required<S: Source>(source: &S, file: &str, limit: u64) -> Result<Vec<u8>> {
    read_small(source, file, limit).await?.ok_or_else(|| Error::NotFound {
        path: format!("{}/{file}", source.name()),
        reason: "there is no such file; a model's folder holds config.json, model.safetensors and tokenizer.json"
            .into(),
    })
}
