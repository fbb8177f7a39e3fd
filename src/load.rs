//! A model's files to a session: config, weights and tokenizer of the target, and of an optional draft model.

mod assistant;
mod inspect;
mod remote;

use self::assistant::{ASSISTANT, alone, open_alone};
pub(crate) use self::assistant::{open_assistant, without_assistant};
pub use self::inspect::{DtypeShare, Inspection};

use crate::backend::cpu;
use crate::backend::gpu::{self, GpuModel, RoundBuffers};
use crate::backend::{Backend, Device};
use crate::checkpoint::{self, Checkpoint};
use crate::error::{Error, Result};
use crate::gpu::Gpu;
use crate::model::{Blueprint, Capacity, HiddenStates, ModelSpec};
#[cfg(not(target_arch = "wasm32"))]
use crate::options::Arithmetic;
use crate::options::{ArithmeticChoice, KvDtype, LoadOptions, UseMtp};
use crate::session::{Building, Origination, PromptCache, Prompts, Session, Single};
use crate::target::Translate;
use crate::text::{Tokenizer, Translator};
use crate::weights::{Dtype, Reading, Source, Tensor, Weights};
use std::cell::Cell;
use std::fmt::Display;
use std::rc::Rc;

/// Positions of the KV cache, unless the options set another number.
const DEFAULT_CONTEXT: usize = 4096;

/// A model read from its headers; nothing is on a device yet.
pub struct ModelFiles {
    /// Plan and sizes of the model.
    pub blueprint: Blueprint,
    /// Access to the model's files.
    pub checkpoint: Box<dyn Checkpoint>,
    /// Warnings about entries of the files that are ignored.
    pub warnings: Vec<String>,
}

impl ModelFiles {
    /// Reads the headers; checks the name and shape of every tensor.
    ///
    /// # Errors
    /// Errors of [`checkpoint::open`]; [`Error::BadOption`] if `max_context` exceeds the model's positions.
    pub async fn open(source: Box<dyn Source>, options: &LoadOptions) -> Result<Self> {
        Self::open_for(source, options, None).await
    }

    /// Reads the headers of a model, or of a drafter of `target`.
    #[inline(never)]
    fn open_for<'a>(
        source: Box<dyn Source>,
        options: &'a LoadOptions,
        target: Option<&'a Blueprint>,
    ) -> Reading<'a, Self> {
        Box::pin(async move {
            options.validate()?;
            let place = source.name();
            let checkpoint = checkpoint::open(source, options.file.as_deref()).await?;
            let mut spec = checkpoint.spec().clone();
            if spec.needs_target() {
                let Some(target) = target else { return Err(alone(&place)) };
                spec = spec
                    .for_target(&target.spec, |tensor| checkpoint.weights().contains(tensor))
                    .map_err(|error| error.within(&place))?;
            }
            let mut warnings = checkpoint.warnings().to_vec();
            warnings.extend(drop_unknown_tokens(&mut spec));
            let most = spec.max_position_embeddings;
            let max_context = options.context.max_context.unwrap_or(most.min(DEFAULT_CONTEXT));
            if max_context > most {
                let allowed = format!("2 to {most}, the positions that the model was made for");
                return Err(Error::BadOption { option: "max_context".into(), value: max_context.to_string(), allowed });
            }
            let kv_dtype = options.context.kv_dtype.unwrap_or_else(|| {
                // Keys of a model trained in bf16 can overflow f16. MLX's bf16 scales of quantised weights do not count.
                let is_wide = |(name, tensor): (&str, &Tensor)| match tensor.dtype {
                    Dtype::F32 => tensor.shape.len() > 1,
                    Dtype::Bf16 => tensor.shape.len() > 1 && name.ends_with(".weight"),
                    _ => false,
                };
                if checkpoint.weights().iter().any(is_wide) { KvDtype::F32 } else { KvDtype::F16 }
            });
            // A drafter may attend to the target's keys and values.
            let kv_dtype = target.map_or(kv_dtype, |target| target.capacity.kv_dtype);
            let capacity = Capacity { max_context, prefill_chunk: options.context.prefill_chunk, kv_dtype };
            let blueprint = Blueprint::new_for(target, spec, checkpoint.weights(), capacity, options.dtype);
            let mut blueprint = blueprint.map_err(|error| error.within(&place))?;
            blueprint.arithmetic = options.arithmetic;
            Ok(Self { blueprint, checkpoint, warnings })
        })
    }

    /// Returns the model's tokenizer.
    ///
    /// # Errors
    /// [`Error::NotFound`]; [`Error::BadTokenizer`], also if it has more tokens than the model.
    pub async fn tokenizer(&self) -> Result<Tokenizer> {
        let tokenizer = self.checkpoint.tokenizer().await?;
        let (tokens, vocab) = (tokenizer.vocab_size(), self.blueprint.spec.vocab_size);
        if tokens > vocab {
            let reason = format!("the tokenizer has {tokens} tokens, but the model {vocab} (vocab_size)");
            return Err(Error::BadTokenizer { file: self.checkpoint.weights().source().name(), reason });
        }
        Ok(tokenizer)
    }

    /// Returns the settings for prompts.
    ///
    /// # Errors
    /// As [`Self::tokenizer`], and [`Error::BadTemplate`].
    pub(crate) async fn prompts(&self) -> Result<Prompts> {
        let (template, sampling) = (self.checkpoint.template().await?, self.checkpoint.sampling().clone());
        let Blueprint { spec, capacity, .. } = &self.blueprint;
        Ok(Prompts::new(self.tokenizer().await?, template, sampling, spec.into(), capacity.max_context))
    }

    /// Keeps only what is needed to load the model onto devices, repeatedly if required.
    pub fn into_loadable(self) -> Loadable {
        Loadable::new(self.blueprint, &Rc::new(self.checkpoint.into_weights()))
    }

    /// Returns the MTP layer of the checkpoint as a drafter; `None`: it has none, or another drafter is used.
    ///
    /// # Errors
    /// [`Error::BadOption`] if the options request it and there is none, or an assistant too; [`Error::BadWeights`].
    fn mtp(&mut self, has_assistant: bool, options: &LoadOptions) -> Result<Option<Blueprint>> {
        let bad = |allowed| Error::BadOption { option: "use_mtp".into(), value: "true".into(), allowed };
        let weights = self.checkpoint.weights();
        match options.use_mtp {
            UseMtp::No => return Ok(None),
            UseMtp::Auto if has_assistant => return Ok(None),
            UseMtp::Yes if has_assistant => return Err(bad("auto or false, with an assistant model".into())),
            UseMtp::Auto | UseMtp::Yes => {}
        }
        let layer = self.blueprint.take_mtp(weights, options.dtype)?;
        if layer.is_none() && options.use_mtp == UseMtp::Yes {
            return Err(bad(format!("auto or false: {} has no MTP layer", weights.source().name())));
        }
        Ok(layer)
    }
}

/// A model that can be loaded onto devices.
pub struct Loadable {
    /// Plan and sizes of the model.
    pub blueprint: Blueprint,
    /// The requested arithmetic, then the chosen one, so that a replacement device uses it too.
    pub arithmetic: Cell<ArithmeticChoice>,
    weights: Rc<Weights>,
}

impl Loadable {
    fn new(blueprint: Blueprint, weights: &Rc<Weights>) -> Self {
        Self { arithmetic: Cell::new(blueprint.arithmetic), blueprint, weights: weights.clone() }
    }

    /// Loads the model onto a GPU. A drafter may need its `target`. `loaded` is called with the bytes of each portion.
    pub async fn put(
        &self,
        gpu: &Rc<Gpu>,
        buffers: &RoundBuffers,
        target: Option<&GpuModel>,
        loaded: &mut dyn FnMut(u64),
    ) -> Result<GpuModel> {
        let Self { blueprint, arithmetic, weights } = self;
        let place = weights.source().name();
        let blueprint = Blueprint { arithmetic: arithmetic.get(), ..blueprint.clone() };
        let model = GpuModel::load(gpu, &blueprint, Some(weights), buffers, target, loaded).await;
        let model = model.map_err(|error| error.within(&place))?;
        arithmetic.set(model.arithmetic().into());
        Ok(model)
    }

    /// Loads the model into the CPU's memory. A drafter may need its `target`. `loaded` is called with the bytes of each portion.
    async fn load_on_cpu(
        &self,
        processor: &Rc<cpu::Processor>,
        target: Option<&cpu::CpuModel>,
        loaded: &mut dyn FnMut(u64),
    ) -> Result<cpu::CpuModel> {
        let Self { blueprint, weights, .. } = self;
        let place = weights.source().name();
        cpu::CpuModel::load(processor, blueprint, weights, target, loaded).await.map_err(|error| error.within(&place))
    }
}

impl Session {
    /// Loads a target and, if given, a draft model. A draft model with another tokenizer drafts through text. If it cannot be
    /// loaded, it is left out, and a warning in the statistics gives the reason. The session keeps the sources and reads them
    /// again if the device is lost. `loaded(done, all)` is called with the bytes on the device and all bytes.
    ///
    /// # Errors
    /// Errors of [`ModelFiles::open`]; [`Error::BadTokenizer`]; [`Error::OutOfGpuMemory`]; device errors.
    pub async fn load(
        device: impl Into<Device>,
        target: Box<dyn Source>,
        assistant: Option<Box<dyn Source>>,
        options: &LoadOptions,
        loaded: &mut dyn FnMut(u64, u64),
    ) -> Result<Self> {
        let device = device.into();
        if options.is_parallel(assistant.is_some()) {
            let (option, value) = LoadOptions::parallel_option(options.sp_degree);
            let allowed = "what one device computes".into();
            return Err(Error::BadOption { option: option.into(), value, allowed });
        }
        let mut target = ModelFiles::open(target, options).await?;
        let prompts = target.prompts().await?;
        let mut warnings = target.warnings.clone();
        let mtp = match target.mtp(assistant.is_some(), options) {
            Err(error @ Error::BadWeights { .. }) => {
                warnings.push(not_used(MTP_LAYER, &error));
                None
            }
            found => found?,
        };
        let (mut tokenizers, mut drafter) = (None, None);
        if let Some(source) = assistant {
            let target = &mut target.blueprint;
            match open_assistant(source, options, &prompts, Some(target), &mut warnings).await {
                Err(error) => warnings.push(without_assistant(&error)),
                Ok((mut assistant, differing)) => {
                    assistant.blueprint.shares_sampler = true;
                    match &assistant.blueprint.spec.hidden_states {
                        HiddenStates::Context { after } => target.keep_hidden(after.clone()),
                        HiddenStates::Latest { .. } => target.keep_hidden(Vec::new()),
                        _ => {}
                    }
                    (drafter, tokenizers) = (Some((ASSISTANT, assistant.into_loadable())), differing);
                }
            }
        }
        let target = target.into_loadable();
        let mtp = mtp.map(|layer| (MTP_LAYER, Loadable::new(layer, &target.weights)));
        let pair = LoadedPair { drafter: drafter.or(mtp), target, tokenizers, warnings };
        let mut shown = 0;
        // A second attempt starts at 0 bytes; the progress shown does not go back.
        let mut progress = |done: u64, all| {
            shown = done.max(shown);
            loaded(shown, all);
        };
        let (engine, warnings) = match (pair.build(&device, &mut progress).await, &device) {
            (Err(Error::DeviceLost { .. }), Device::Gpu(gpu)) => {
                pair.build(&Device::Gpu(gpu.reopen().await?), &mut progress).await
            }
            (built, _) => built,
        }?;
        let prompt_cache = PromptCache::new(options.context.prompt_cache_bytes);
        Ok(Self {
            prompts,
            executor: Single::new(engine, prompt_cache, Box::new(pair), warnings, options.lookup_memory).await,
        })
    }
}

/// The models of a session, with the choices made for them.
struct LoadedPair {
    target: Loadable,
    /// The assistant, or the target's own drafter, and its name in warnings.
    drafter: Option<(&'static str, Loadable)>,
    /// Tokenizers of target and draft model, if they differ.
    tokenizers: Option<[Rc<Tokenizer>; 2]>,
    /// Warnings about the models' files, for the user.
    warnings: Vec<String>,
}

impl LoadedPair {
    /// Loads both models onto a device. On a GPU, checks that the kernels are invariant, as speculation requires; the CPU is by
    /// construction. If the draft model fails to load, it is left out, with a warning.
    #[inline(never)]
    fn build<'a>(&'a self, device: &'a Device, loaded: &'a mut dyn FnMut(u64, u64)) -> Building<'a> {
        Box::pin(async move {
            let Self { target, drafter, warnings, .. } = self;
            let mut warnings = warnings.clone();
            let (all, mut done) = (self.bytes(), 0);
            // Memory is planned in whole blocks, so the sum can be a little below `all`, or on the CPU a little above.
            let mut progress = |bytes| {
                done = all.min(done + bytes);
                loaded(done, all);
            };
            let mut engine: Box<dyn Backend> = match device {
                Device::Gpu(gpu) => {
                    let Blueprint { spec, capacity, .. } = &target.blueprint;
                    let allocate = || RoundBuffers::new(gpu, capacity, spec.vocab_size);
                    let buffers = gpu.allocating("the sampler", target.blueprint.sampler_bytes(), allocate).await?;
                    let model = target.put(gpu, &buffers, None, &mut progress).await?;
                    let mut draft = None;
                    if let Some((what, drafter)) = drafter {
                        let loaded = drafter.put(gpu, &buffers, Some(&model), &mut progress).await;
                        draft = or_warning(what, loaded, &mut warnings)?;
                    }
                    progress(all);
                    let mut engine = gpu::GpuBackend::new(gpu, buffers, model, draft)?;
                    engine.check_invariance().await?;
                    Box::new(engine)
                }
                Device::Cpu(processor) => {
                    let model = target.load_on_cpu(processor, None, &mut progress).await?;
                    let mut draft = None;
                    if let Some((what, drafter)) = drafter {
                        let loaded = drafter.load_on_cpu(processor, Some(&model), &mut progress).await;
                        draft = or_warning(what, loaded, &mut warnings)?;
                    }
                    progress(all);
                    Box::new(cpu::CpuBackend::new(model, draft))
                }
            };
            if let (Some([target, draft]), Some(_)) = (&self.tokenizers, engine.draft_memory()) {
                engine.translate_by(Box::new(Translator::new(target.clone(), draft.clone())))?;
            }
            Ok((engine, warnings))
        })
    }

    fn bytes(&self) -> u64 {
        let models = self.drafter.iter().map(|(_, drafter)| drafter).chain([&self.target]);
        models.map(|model| model.blueprint.memory().weights).sum()
    }
}

/// Drops special tokens beyond the vocabulary. They never occur, and other programs accept such configs.
fn drop_unknown_tokens(spec: &mut ModelSpec) -> Vec<String> {
    let vocab = spec.vocab_size;
    let mut warnings = Vec::new();
    let mut is_known = |key: &str, id: u32| {
        let known = (id as usize) < vocab;
        if !known {
            warnings.push(format!("{key} {id} is ignored: the model has {vocab} tokens (vocab_size)"));
        }
        known
    };
    spec.eos_token_id.retain(|&id| is_known("eos_token_id", id));
    spec.bos_token_id = spec.bos_token_id.filter(|&id| is_known("bos_token_id", id));
    warnings
}

/// The MTP layer of a target, in warnings.
const MTP_LAYER: &str = "MTP layer";

/// Returns the loaded drafter, or adds a warning about `what`. A lost device is an error, because the target has lost it too.
fn or_warning<M>(what: &str, loaded: Result<M>, warnings: &mut Vec<String>) -> Result<Option<M>> {
    match loaded {
        Ok(model) => Ok(Some(model)),
        Err(lost @ Error::DeviceLost { .. }) => Err(lost),
        Err(error) => {
            warnings.push(not_used(what, &error));
            Ok(None)
        }
    }
}

fn not_used(what: &str, reason: impl Display) -> String {
    format!("the {what} is not used: {reason}")
}

impl Translate for Translator {
    fn for_draft(&mut self, text: &[u32]) -> Result<Vec<u32>> {
        self.for_draft(text)
    }

    fn for_target(&self, drafted: &[u32]) -> Result<Vec<u32>> {
        self.for_target(drafted)
    }
}

impl Origination for LoadedPair {
    fn engine(&self, gpu: Rc<Gpu>) -> Building<'_> {
        Box::pin(async move { self.build(&Device::Gpu(gpu), &mut |_, _| ()).await })
    }
}

/// Loads one model onto a device, with the same check as a session. `context`: the target's positions if this is a draft model,
/// else `None`. `loaded(done, all)` is called with the bytes loaded and all bytes.
pub async fn load_alone(
    device: &Device,
    source: Box<dyn Source>,
    context: Option<usize>,
    options: &LoadOptions,
    loaded: &mut dyn FnMut(u64, u64),
) -> Result<Box<dyn Backend>> {
    let model = match context {
        Some(context) => open_alone(source, options, context, None).await?,
        None => ModelFiles::open(source, options).await?,
    };
    build_alone(device, model, context.is_none(), loaded).await
}

/// Loads a target's matrices, for instances that share them on the CPU; also returns the arithmetic of its quantised weights.
#[cfg(not(target_arch = "wasm32"))]
pub(crate) async fn load_matrices(
    source: Box<dyn Source>,
    options: &LoadOptions,
) -> Result<(cpu::Matrices, Arithmetic)> {
    let target = ModelFiles::open(source, options).await?.into_loadable();
    let model = target.load_on_cpu(&Rc::new(cpu::Processor::new(options.threads)), None, &mut |_| ()).await?;
    Ok((model.matrices(), model.arithmetic()))
}

/// Loads an opened model.
async fn build_alone(
    device: &Device,
    mut model: ModelFiles,
    is_target: bool,
    loaded: &mut dyn FnMut(u64, u64),
) -> Result<Box<dyn Backend>> {
    // Several targets must not choose differently, so none of them measures. The CPU does not measure.
    if is_target && matches!(device, Device::Gpu(_)) && model.blueprint.arithmetic == ArithmeticChoice::Auto {
        model.blueprint.arithmetic = ArithmeticChoice::F32;
    }
    let target = model.into_loadable();
    let pair = LoadedPair { target, drafter: None, tokenizers: None, warnings: Vec::new() };
    Ok(pair.build(device, loaded).await?.0)
}
