//! Flags that select models, and loading.

use super::bar::Bar;
use super::files;
use super::options::{CapacityFlags, DeviceFlags};
use clap::Args;
use foretoken::internals::backend::Device;
use foretoken::internals::checkpoint::of_assistant;
use foretoken::internals::gpu::GpuOptions;
use foretoken::internals::session::Session;
use foretoken::internals::weights::Folder;
use foretoken::{LoadOptions, Result};

/// Target and draft model.
#[derive(Args)]
pub(super) struct ModelFlags {
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

impl ModelFlags {
    /// Opens the target's files.
    pub fn target(&self) -> Result<Folder> {
        target(self.model.as_deref())
    }

    /// Opens the target's files without weights, for a target on a server.
    pub fn words(&self) -> Result<Folder> {
        self.model.as_deref().map_or_else(files::tales, |name| files::words("model", name))
    }

    /// Returns true if there is a draft model, without opening it.
    pub fn has_assistant(&self) -> bool {
        self.assistant_model.is_some() || !self.no_assistant && self.model.is_none()
    }

    /// Opens the draft model's files; `None`: no draft model.
    pub fn assistant(&self) -> Result<Option<Folder>> {
        match &self.assistant_model {
            Some(name) => files::open("assistant_model", name).map(Some).map_err(of_assistant),
            None if self.no_assistant || self.model.is_some() => Ok(None),
            None => files::tales_draft().map(Some),
        }
    }

    /// Loads both models.
    pub async fn load(&self, device: Device, options: &LoadOptions) -> Result<Session> {
        load(device, self.target()?, self.assistant()?, options).await
    }
}

/// Loads models. On a terminal, a bar shows the progress.
pub(super) async fn load(
    device: Device,
    target: Folder,
    assistant: Option<Folder>,
    options: &LoadOptions,
) -> Result<Session> {
    let bar = Bar::loading();
    Session::load(device, Box::new(target), assistant.map(|files| Box::new(files) as _), options, &mut |done, all| {
        bar.show(done, all)
    })
    .await
}

/// Models on this machine.
#[derive(Args)]
pub(super) struct LocalModels {
    #[command(flatten)]
    pub pair: ModelFlags,
    #[command(flatten)]
    capacity: CapacityFlags,
    #[command(flatten)]
    device: DeviceFlags,
}

impl LocalModels {
    /// Returns load options. They are valid, unless the target is on a server.
    pub fn options(&self) -> Result<LoadOptions> {
        self.device.set(self.capacity.options()?)
    }

    /// Opens the device. Returns it with validated options.
    pub async fn open(&self) -> Result<(Device, LoadOptions)> {
        let options = self.options()?;
        options.validate()?;
        let (device, _) = Device::open(&options, &GpuOptions::default()).await?;
        Ok((device, options))
    }

    /// Loads both models.
    pub async fn load(&self) -> Result<Session> {
        let (device, options) = self.open().await?;
        self.pair.load(device, &options).await
    }
}

/// Opens the files of `model`; `None`: the tales model.
pub(super) fn target(model: Option<&str>) -> Result<Folder> {
    model.map_or_else(files::tales, |name| files::open("model", name))
}
