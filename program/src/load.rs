//! Flags that select models, and loading.

use super::bar::Bar;
use super::files;
use clap::Args;
use foretoken::internals::backend::Device;
use foretoken::internals::checkpoint::of_assistant;
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
