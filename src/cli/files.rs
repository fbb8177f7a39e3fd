//! Which folders hold the models.

use crate::error::{Error, Result};
use crate::weights::Folder;
use std::path::Path;

/// The tales pair's target.
pub(super) fn tales() -> Result<Folder> {
    part_of_tales("target")
}

/// The tales pair's draft model.
pub(super) fn tales_draft() -> Result<Folder> {
    part_of_tales("draft")
}

/// In the checkout that the program was built in, or in the one where it runs.
fn part_of_tales(part: &str) -> Result<Folder> {
    let checkouts = [env!("CARGO_MANIFEST_DIR"), "."].map(Path::new);
    let mut folders = checkouts.map(|checkout| checkout.join("models").join("tales").join(part)).into_iter();
    match folders.find(|folder| folder.is_dir()) {
        Some(folder) => Folder::open(folder),
        None => Err(Error::NotFound {
            path: "models/tales".into(),
            reason: "only a checkout of the repository has these models: run the program there, or give --model the \
                     folder of another one, for example after `hf download HuggingFaceTB/SmolLM2-360M-Instruct \
                     --local-dir SmolLM2-360M-Instruct`"
                .into(),
        }),
    }
}

/// The folder that an option names.
pub(super) fn open(option: &'static str, path: &Path) -> Result<Folder> {
    if path.as_os_str().is_empty() {
        let (value, allowed) = ("an empty name".into(), "the name of a folder".into());
        return Err(Error::BadOption { option: option.into(), value, allowed });
    }
    match Folder::open(path) {
        Err(_) if !path.exists() && is_hub_id(path) => {
            let path = path.display().to_string();
            let flag = super::flag(option);
            let reason = format!(
                "there is no such folder, and this version does not download from the Hub: \
                 run `hf download {path} --local-dir {path}` first, or give {flag} another folder"
            );
            Err(Error::NotFound { path, reason })
        }
        opened => opened,
    }
}

/// Whether it looks like `owner/name`.
fn is_hub_id(path: &Path) -> bool {
    let plain = |part: &str| {
        let allowed = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        part.starts_with(|c: char| c.is_ascii_alphanumeric()) && part.chars().all(allowed)
    };
    path.to_str().and_then(|path| path.split_once('/')).is_some_and(|(owner, name)| plain(owner) && plain(name))
}
