//! A model's files -> a crew: the one who writes needs the tokenizer, each instance reads its weights for itself.

use super::{Crew, Parallel};
use crate::decode::{Engine, RoundBuffers};
use crate::error::Result;
use crate::gpu::{DeviceInfo, Gpu};
use crate::load::{ModelFiles, open_assistant, without_assistant};
use crate::options::{Arithmetic, ArithmeticChoice, LoadOptions};
use crate::session::Prompts;
use crate::weights::Source;
use std::fmt::Display;
use std::rc::Rc;

/// What is needed before there is a crew.
pub struct Prepared {
    prompts: Prompts,
    arithmetic: Arithmetic,
    /// Whether the draft model can be used.
    pub with_drafter: bool,
    warnings: Vec<String>,
}

impl Prepared {
    /// Reads everything but weights. A draft model with another tokenizer, and one that cannot be opened, is left out, and
    /// the statistics' warnings say why.
    ///
    /// # Errors
    /// What [`ModelFiles::open`] reports; [`Error::BadTokenizer`].
    pub async fn open<S: Source + 'static, A: Source + 'static>(
        target: S,
        assistant: Option<A>,
        options: &LoadOptions,
    ) -> Result<Self> {
        let target = ModelFiles::open(target, options).await?;
        let (tokenizer, template) = (Rc::new(target.tokenizer().await?), target.checkpoint.template().await?);
        let arithmetic = match target.blueprint.arithmetic {
            ArithmeticChoice::Int8 if target.blueprint.may_quantise() => Arithmetic::Int8,
            _ => Arithmetic::F32,
        };
        let (sampling, context) = (target.checkpoint.sampling().clone(), target.blueprint.capacity.max_context);
        let (mut with_drafter, mut warnings, spec) = (false, target.warnings, target.blueprint.spec);
        if let Some(assistant) = assistant {
            match open_assistant(assistant, options, context).await.map(|(_, other)| tokenizer.difference(&other)) {
                Err(error) => warnings.push(without_assistant(&error)),
                Ok(Some(difference)) => warnings.push(format!(
                    "the assistant model is not used: it has another tokenizer ({difference}), and with several targets \
                     drafts do not go through text"
                )),
                Ok(None) => with_drafter = true,
            }
        }
        let prompts = Prompts { tokenizer, template, sampling, spec, context };
        Ok(Self { prompts, arithmetic, with_drafter, warnings })
    }

    /// Positions of the target's cache.
    pub fn context(&self) -> usize {
        self.prompts.context
    }

    /// With a crew, on such a device; `failed` is why it has no draft model, where it should have one.
    pub fn with<C: Crew>(self, crew: C, device: DeviceInfo, failed: Option<impl Display>) -> Parallel<C> {
        let Self { prompts, arithmetic, mut warnings, .. } = self;
        warnings.extend(failed.map(without_assistant));
        Parallel { prompts, arithmetic, crew, device, warnings, latencies: None }
    }
}

/// A model on a device of its own, checked for the promise on which speculation rests. `context`: a draft model's, the
/// target's positions. `loaded` hears of uploaded bytes and of all bytes.
///
/// # Errors
/// As [`crate::Session::load`].
pub async fn load_engine<S: Source + 'static>(
    gpu: &Rc<Gpu>,
    source: S,
    context: Option<usize>,
    options: &LoadOptions,
    loaded: &mut dyn FnMut(u64, u64),
) -> Result<Engine> {
    let mut model = match context {
        Some(context) => open_assistant(source, options, context).await?.0,
        None => ModelFiles::open(source, options).await?,
    };
    // Measured by each for itself, it might be another one.
    if model.blueprint.arithmetic == ArithmeticChoice::Auto {
        model.blueprint.arithmetic = ArithmeticChoice::F32;
    }
    let model = model.into_loadable();
    let blueprint = &model.blueprint;
    let buffers = RoundBuffers::new(gpu, blueprint.capacity.prefill_chunk, blueprint.spec.vocab_size)?;
    let (all, mut done) = (blueprint.memory().weights, 0);
    let mut progress = |bytes| {
        done += bytes;
        loaded(done, all);
    };
    let model = model.put(gpu, &buffers, &mut progress).await?;
    // Memory is planned in whole blocks, so a little less than all was counted.
    loaded(all, all);
    let mut engine = Engine::new(gpu, buffers, model, None)?;
    engine.check_invariance().await?;
    Ok(engine)
}
