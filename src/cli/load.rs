//! Which models a command works on, with how much room, and bringing them to the device.

use super::bar::Bar;
use super::count;
use super::files;
use crate::checkpoint::of_assistant;
use crate::device::Device;
use crate::error::Result;
use crate::options::LoadOptions;
use crate::session::Session;
use crate::weights::Folder;
use clap::Args;

/// Target and draft model.
#[derive(Args)]
pub(super) struct Pair {
    /// The target: owner/name[@revision][:file] on the Hub, or a folder with config.json, model.safetensors, tokenizer.json
    /// [default: in a checkout, the tales model]
    #[arg(long, value_name = "MODEL")]
    pub model: Option<String>,
    /// The draft model, named likewise [default: with --model none, else the small tales model]
    #[arg(long, value_name = "MODEL", conflicts_with = "no_assistant")]
    assistant_model: Option<String>,
    /// Load no draft model
    #[arg(long)]
    no_assistant: bool,
}

/// How much room the models get.
#[derive(Args)]
pub(super) struct Room {
    /// Positions of the KV cache [default: as many as the model was made for, at most 4096]
    #[arg(long, value_name = "N", value_parser = count)]
    max_context: Option<usize>,
    /// Numbers of the weights: auto, as they are stored, f32, f16, q8 or q4
    #[arg(long, value_name = "TYPE", default_value = "auto")]
    dtype: String,
    /// Products of quantised weights: f32; int8, with activations rounded to 8 bits; or auto, what this device computes clearly
    /// faster, so that another one may write another text
    #[arg(long, value_name = "TYPE", default_value = "auto")]
    arithmetic: String,
    /// Numbers of the KV cache: f32, exact, or f16, half the memory [default: f16, or f32 for a model with weights in f32 or bf16]
    #[arg(long, value_name = "TYPE")]
    kv_dtype: Option<String>,
    /// Prompt tokens computed at a time
    #[arg(long, value_name = "N", value_parser = count, default_value_t = LoadOptions::new().context.prefill_chunk)]
    prefill_chunk: usize,
}

/// Where the models run.
#[derive(Args)]
pub(super) struct On {
    /// Where the models run: auto, webgpu (GPUs, by Vulkan, Metal or DirectX), cpu. auto takes the CPU where there is no GPU
    #[arg(long, value_name = "DEVICE", default_value = "auto")]
    device: String,
    /// Threads of the CPU, where the models run there [default: one for each core]
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
}

impl On {
    /// Adds it to the options of loading.
    pub fn set(&self, options: LoadOptions) -> Result<LoadOptions> {
        Ok(options.device(self.device.parse()?).threads(self.threads))
    }
}

impl Room {
    /// As the library wants it, validated.
    pub fn options(&self) -> Result<LoadOptions> {
        let options = LoadOptions::new()
            .max_context(self.max_context)
            .dtype(self.dtype.parse()?)
            .arithmetic(self.arithmetic.parse()?)
            .kv_dtype(self.kv_dtype.as_deref().map(str::parse).transpose()?)
            .prefill_chunk(self.prefill_chunk);
        options.validate()?;
        Ok(options)
    }
}

impl Pair {
    /// The target's files.
    pub fn target(&self) -> Result<Folder> {
        target(self.model.as_deref())
    }

    /// What texts need of the target, where that is elsewhere.
    pub fn words(&self) -> Result<Folder> {
        self.model.as_deref().map_or_else(files::tales, |name| files::words("model", name))
    }

    /// The draft model's files, if there is to be one.
    pub fn assistant(&self) -> Result<Option<Folder>> {
        match &self.assistant_model {
            Some(name) => files::open("assistant_model", name).map(Some).map_err(of_assistant),
            None if self.no_assistant || self.model.is_some() => Ok(None),
            None => files::tales_draft().map(Some),
        }
    }

    /// Loads both; a bar on a terminal shows how far it is.
    pub async fn load(&self, device: Device, options: &LoadOptions) -> Result<Session> {
        let (target, assistant) = (self.target()?, self.assistant()?);
        let bar = Bar::loading();
        Session::load(device, target, assistant, options, &mut |done, all| bar.show(done, all)).await
    }
}

/// The target's files: those of the model if one is named, else those of the tales model.
pub(super) fn target(model: Option<&str>) -> Result<Folder> {
    model.map_or_else(files::tales, |name| files::open("model", name))
}
