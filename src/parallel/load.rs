//! A model's files -> a crew: the one who writes needs the tokenizer, each instance reads its weights for itself.

use super::{Crew, Parallel, Translated};
use crate::checkpoint::Texts;
use crate::device::{Device, Engine};
use crate::error::Result;
use crate::gpu::{DeviceInfo, GpuOptions};
use crate::load::{ModelFiles, load_alone, open_assistant, translated, without_assistant};
use crate::model::Memory;
use crate::options::{Arithmetic, ArithmeticChoice, DeviceChoice, LoadOptions};
use crate::session::Prompts;
use crate::text::Translator;
use crate::weights::Source;
use std::cell::RefCell;
use std::fmt::Display;
use std::rc::Rc;

/// What is needed before there is a crew.
pub struct Prepared {
    prompts: Prompts,
    arithmetic: Arithmetic,
    /// Whether the draft model can be used.
    pub with_drafter: bool,
    /// Of a draft model with another tokenizer.
    translator: Option<Translator>,
    /// What the user should know, in words.
    pub warnings: Vec<String>,
}

impl Prepared {
    /// Reads everything but weights. A draft model that cannot be used is left out, and the statistics' warnings say why.
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
        let spec = (&target.blueprint.spec).into();
        let prompts = Prompts::new(tokenizer, template, sampling, spec, context);
        Ok(Self::open_drafter(prompts, arithmetic, target.warnings, assistant, options).await)
    }

    /// The same of a target on servers, whose context is known.
    pub(super) async fn of_texts<A: Source + 'static>(
        texts: Texts,
        context: usize,
        warnings: Vec<String>,
        assistant: Option<A>,
        options: &LoadOptions,
    ) -> Self {
        let Texts { tokenizer, template, sampling, tokens, .. } = texts;
        let prompts = Prompts::new(Rc::new(tokenizer), template, sampling, tokens, context);
        Self::open_drafter(prompts, Arithmetic::default(), warnings, assistant, options).await
    }

    async fn open_drafter<A: Source + 'static>(
        prompts: Prompts,
        arithmetic: Arithmetic,
        mut warnings: Vec<String>,
        assistant: Option<A>,
        options: &LoadOptions,
    ) -> Self {
        let (mut with_drafter, mut translator) = (false, None);
        if let Some(assistant) = assistant {
            let opened = open_assistant(assistant, options, prompts.context).await;
            match opened.map(|(_, other)| (prompts.tokenizer.difference(&other), other)) {
                Err(error) => warnings.push(without_assistant(&error)),
                Ok((None, _)) => with_drafter = true,
                Ok((Some(difference), other)) => {
                    warnings.push(translated(&difference));
                    translator = Some(Translator::new(prompts.tokenizer.clone(), Rc::new(other)));
                    with_drafter = true;
                }
            }
        }
        Self { prompts, arithmetic, with_drafter, translator, warnings }
    }

    /// Positions of the target's cache.
    pub fn context(&self) -> usize {
        self.prompts.context
    }

    /// With a crew, on such a device; `failed` is why it has no draft model, where it should have one.
    pub fn with(self, crew: impl Crew + 'static, device: DeviceInfo, failed: Option<impl Display>) -> Parallel {
        let Self { prompts, arithmetic, translator, mut warnings, .. } = self;
        warnings.extend(failed.map(without_assistant));
        let crew: Box<dyn Crew> = match translator {
            Some(translator) => Box::new(Translated::new(Box::new(crew), Box::new(translator))),
            None => Box::new(crew),
        };
        let (local, tuners) = (LocalDevice::default(), Default::default());
        Parallel { prompts, arithmetic, crew, device, local, warnings, tuners }
    }
}

/// The device of an instance, and what it takes of it.
pub struct InstanceDevice {
    /// The device.
    pub device: Device,
    /// Bytes there.
    pub memory: Memory,
    /// Why it is none of the GPUs, where nobody asked for the CPU.
    pub warning: Option<String>,
}

/// The device of this thread's instance, none before that is loaded; a new one when it is set up again.
pub type LocalDevice = Rc<RefCell<Option<InstanceDevice>>>;

/// Loads an instance of a model on a device of its own: on the adapter that saves power if `low_power`, a draft model where
/// `options.draft_device` says. `context` and `loaded` are as in [`load_alone`].
///
/// # Errors
/// As [`load_alone`] and [`Device::open`].
pub async fn set_up<S: Source + 'static>(
    source: S,
    context: Option<usize>,
    options: &LoadOptions,
    low_power: bool,
    local: &LocalDevice,
    loaded: &mut dyn FnMut(u64, u64),
) -> Result<Engine> {
    let on_cpu = context.is_some() && options.draft_device == DeviceChoice::Cpu;
    let wanted = if on_cpu { DeviceChoice::Cpu } else { options.device };
    let gpu = GpuOptions { low_power, ..GpuOptions::default() };
    let (device, warning) = Device::open(&options.clone().device(wanted), &gpu).await?;
    let engine = load_alone(&device, source, context, options, loaded).await?;
    local.replace(Some(InstanceDevice { device, memory: engine.memory(), warning }));
    Ok(engine)
}
