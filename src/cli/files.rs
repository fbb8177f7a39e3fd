//! Which folders hold the models.

use super::bar::Bar;
use crate::error::{Error, Result};
use crate::hub::{Hub, HubId, Settings};
use crate::weights::Folder;
use std::path::{Path, PathBuf};

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
            reason:
                "only a checkout of the repository has these models: run the program there, or name another one, such \
                     as --model HuggingFaceTB/SmolLM2-360M-Instruct"
                    .into(),
        }),
    }
}

/// The files that an option names: a folder, or a model of the Hub, which is downloaded first where it is not in the cache.
pub(super) fn open(option: &'static str, name: &str) -> Result<Folder> {
    Folder::open(match locate(option, name)? {
        Place::Here(path) => path,
        Place::Hub(id) => {
            let bar = Bar::new(&format!("downloading {id} {{bar:30}} {{bytes}} of {{total_bytes}}, {{eta}} left"));
            hub()?.download(&id, &mut |done, all| bar.show(done, all)).map_err(|error| neither(error, &id))?
        }
    })
}

/// What an option names.
pub(super) enum Place {
    Here(PathBuf),
    Hub(HubId),
}

/// What is here goes before what the Hub has.
pub(super) fn locate(option: &'static str, name: &str) -> Result<Place> {
    if name.is_empty() {
        let (value, allowed) = ("an empty name".into(), "owner/name on the Hub, or the name of a folder".into());
        return Err(Error::BadOption { option: option.into(), value, allowed });
    }
    let path = PathBuf::from(name);
    match name.parse() {
        Ok(id) if !path.exists() => Ok(Place::Hub(id)),
        Err(()) if !path.exists() => Err(Error::NotFound {
            path: name.into(),
            reason:
                "there is no such folder or file, and models of the Hub are called owner/name, owner/name@revision or \
                     owner/name:file.gguf"
                    .into(),
        }),
        _ => Ok(Place::Here(path)),
    }
}

/// What looks like the name of a model may have been meant for that of a folder.
pub(super) fn neither(error: Error, id: &HubId) -> Error {
    match error {
        Error::NotFound { path, reason } if path == id.to_string() => {
            Error::NotFound { path, reason: format!("{reason}; nor is there such a folder here") }
        }
        other => other,
    }
}

/// The Hub that the environment names.
pub(super) fn hub() -> Result<Hub> {
    Hub::new(Settings::from_env())
}
