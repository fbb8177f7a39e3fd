//! Preparation of several instances. The coordinator needs the tokenizer; each instance reads its own weights.

use super::{Instances, Parallel, Translated};
use crate::backend::Device;
use crate::error::Result;
use crate::gpu::{DeviceInfo, GpuOptions};
use crate::load::{ModelFiles, load_alone, open_assistant, without_assistant};
use crate::model::Memory;
use crate::options::{Arithmetic, ArithmeticChoice, DeviceChoice, LoadOptions};
use crate::session::{Generator, Prompts};
use crate::target::Queue;
use crate::text::Translator;
use crate::weights::Source;
use std::cell::RefCell;
use std::fmt::Display;
use std::rc::Rc;

/// Parts that are needed before there are instances.
pub struct PreparedParts {
    /// Tokenizer, chat template and limits of the target.
    pub prompts: Prompts,
    /// Arithmetic of the target's quantised weights.
    pub(super) arithmetic: Arithmetic,
    /// `true`: the draft model can be used.
    pub with_drafter: bool,
    /// Translator for a draft model with another tokenizer.
    translator: Option<Translator>,
    /// Warnings for the user.
    pub warnings: Vec<String>,
}

impl PreparedParts {
    /// Reads everything except weights. A draft model that cannot be used is left out, with a warning in the statistics.
    ///
    /// # Errors
    /// Errors of [`ModelFiles::open`]; [`Error::BadTokenizer`].
    pub async fn open(
        target: Box<dyn Source>,
        assistant: Option<Box<dyn Source>>,
        options: &LoadOptions,
    ) -> Result<Self> {
        let target = ModelFiles::open(target, options).await?;
        let arithmetic = match target.blueprint.arithmetic {
            ArithmeticChoice::Int8 if target.blueprint.may_quantise() => Arithmetic::Int8,
            _ => Arithmetic::F32,
        };
        Ok(Self::open_drafter(target.prompts().await?, arithmetic, target.warnings, assistant, options).await)
    }

    /// Reads the draft model's files, if given, except weights.
    pub(super) async fn open_drafter(
        prompts: Prompts,
        arithmetic: Arithmetic,
        mut warnings: Vec<String>,
        assistant: Option<Box<dyn Source>>,
        options: &LoadOptions,
    ) -> Self {
        let (mut with_drafter, mut translator) = (false, None);
        if let Some(assistant) = assistant {
            match open_assistant(assistant, options, &prompts, None, &mut warnings).await {
                Err(error) => warnings.push(without_assistant(&error)),
                Ok((_, tokenizers)) => {
                    translator = tokenizers.map(|[target, own]| Translator::new(target, own));
                    with_drafter = true;
                }
            }
        }
        Self { prompts, arithmetic, with_drafter, translator, warnings }
    }

    /// Adds instances on a device of this kind. `failed`: why they lack a draft model that was requested.
    pub fn with(
        self,
        instances: impl Instances + 'static,
        device: DeviceInfo,
        failed: Option<impl Display>,
    ) -> Generator<Parallel> {
        let Self { prompts, arithmetic, translator, mut warnings, .. } = self;
        warnings.extend(failed.map(without_assistant));
        let instances: Box<dyn Instances> = match translator {
            Some(translator) => Box::new(Translated::new(Box::new(instances), Box::new(translator))),
            None => Box::new(instances),
        };
        let (local, tuners) = (LocalDevice::default(), Default::default());
        Generator { prompts, executor: Parallel { arithmetic, instances, device, local, warnings, tuners } }
    }
}

/// The device of an instance, and its memory there.
pub struct InstanceDevice {
    /// The device.
    pub device: Device,
    /// Bytes planned on it.
    pub memory: Memory,
    /// Why no GPU is used, if the CPU was not requested.
    pub warning: Option<String>,
}

/// The device of this thread's instance, replaced when the instance is set up again. `None`: not loaded yet.
pub type LocalDevice = Rc<RefCell<Option<InstanceDevice>>>;

/// Loads an instance of a model on its own device: on the power-saving adapter if `low_power`; a draft model on the device that
/// `options.draft_device` selects. `context` and `loaded` are as in [`load_alone`].
pub async fn set_up(
    source: Box<dyn Source>,
    context: Option<usize>,
    options: &LoadOptions,
    low_power: bool,
    local: &LocalDevice,
    loaded: &mut dyn FnMut(u64, u64),
) -> Result<Box<dyn Queue>> {
    let on_cpu = context.is_some() && options.draft_device == DeviceChoice::Cpu;
    let wanted = if on_cpu { DeviceChoice::Cpu } else { options.device };
    let gpu = GpuOptions { low_power, ..GpuOptions::default() };
    let (device, warning) = Device::open(&options.clone().device(wanted), &gpu).await?;
    let engine = load_alone(&device, source, context, options, loaded).await?;
    local.replace(Some(InstanceDevice { device, memory: engine.memory(), warning }));
    Ok(engine)
}
