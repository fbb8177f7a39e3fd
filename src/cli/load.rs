//! Options that select models, capacity and device, and loading.

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
    /// Target: owner/name[@revision][:file] on the Hub, or a folder with config.json, model.safetensors, tokenizer.json [default: in a
    /// checkout, the tales model]
    #[arg(long, value_name = "MODEL")]
    pub model: Option<String>,
    /// Draft model, same syntax as --model [default: none if --model is given, else the small tales model]
    #[arg(long, value_name = "MODEL", conflicts_with = "no_assistant")]
    assistant_model: Option<String>,
    /// Load no draft model
    #[arg(long)]
    no_assistant: bool,
}

/// Capacity and number types of the models.
#[derive(Args)]
pub(super) struct Room {
    /// Positions of the KV cache [default: as many as the model was made for, at most 4096]
    #[arg(long, value_name = "N", value_parser = count)]
    max_context: Option<usize>,
    /// Type of the weights: auto (as stored), f32, f16, q8 or q4
    #[arg(long, value_name = "TYPE", default_value = "auto")]
    dtype: String,
    /// Arithmetic for quantised weights: f32; int8, which rounds activations to 8 bits; or auto (int8 if clearly faster on this device;
    /// output can then differ between devices)
    #[arg(long, value_name = "TYPE", default_value = "auto")]
    arithmetic: String,
    /// Type of the KV cache: f32 (exact) or f16 (half the memory) [default: f16, or f32 for a model with weights in f32 or bf16]
    #[arg(long, value_name = "TYPE")]
    kv_dtype: Option<String>,
    /// Prompt tokens computed at a time
    #[arg(long, value_name = "N", value_parser = count, default_value_t = LoadOptions::new().context.prefill_chunk)]
    prefill_chunk: usize,
}

/// Device of the models.
#[derive(Args)]
pub(super) struct On {
    /// Device of the models: auto, webgpu (GPUs, by Vulkan, Metal or DirectX) or cpu. auto uses the CPU if there is no GPU
    #[arg(long, value_name = "DEVICE", default_value = "auto")]
    device: String,
    /// Threads, if the models run on the CPU [default: one for each core]
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
}

impl On {
    /// Adds the device to load options.
    pub fn set(&self, options: LoadOptions) -> Result<LoadOptions> {
        Ok(options.device(self.device.parse()?).threads(self.threads))
    }
}

impl Room {
    /// Returns validated load options.
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
    /// Opens the target's files.
    pub fn target(&self) -> Result<Folder> {
        target(self.model.as_deref())
    }

    /// Opens the target's files without weights, for a target on a server.
    pub fn words(&self) -> Result<Folder> {
        self.model.as_deref().map_or_else(files::tales, |name| files::words("model", name))
    }

    /// Opens the draft model's files; `None`: no draft model.
    pub fn assistant(&self) -> Result<Option<Folder>> {
        match &self.assistant_model {
            Some(name) => files::open("assistant_model", name).map(Some).map_err(of_assistant),
            None if self.no_assistant || self.model.is_some() => Ok(None),
            None => files::tales_draft().map(Some),
        }
    }

    /// Loads both models. On a terminal, a bar shows the progress.
    pub async fn load(&self, device: Device, options: &LoadOptions) -> Result<Session> {
        let (target, assistant) = (self.target()?, self.assistant()?);
        let bar = Bar::loading();
        Session::load(device, target, assistant, options, &mut |done, all| bar.show(done, all)).await
    }
}

/// Opens the files of `model`; `None`: the tales model.
pub(super) fn target(model: Option<&str>) -> Result<Folder> {
    model.map_or_else(files::tales, |name| files::open("model", name))
}
