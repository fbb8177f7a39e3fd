//! Resolves a name to model files: a local folder or file, or a model of the Hub.

use crate::cancel::CancelToken;
use crate::error::{Error, Result};
#[cfg(feature = "hub")]
use crate::hub::{Hub, HubId, Settings};
use crate::weights::Folder;
use std::path::PathBuf;

/// Location of the model that an option names.
pub enum Place {
    /// A folder or file.
    Here(PathBuf),
    #[cfg(feature = "hub")]
    /// A model of the Hub.
    Hub(HubId),
}

/// Finds the location of a name. Local files take precedence over the Hub.
pub fn locate(option: &'static str, name: &str) -> Result<Place> {
    if name.is_empty() {
        let (value, allowed) = ("an empty name".into(), "owner/name on the Hub, or the name of a folder".into());
        return Err(Error::BadOption { option: option.into(), value, allowed });
    }
    let path = PathBuf::from(name);
    if path.exists() {
        return Ok(Place::Here(path));
    }
    #[cfg(feature = "hub")]
    if let Ok(id) = name.parse() {
        return Ok(Place::Hub(id));
    }
    let hub = match cfg!(feature = "hub") {
        true => "models of the Hub are called owner/name, owner/name@revision or owner/name:file.gguf",
        false => "models of the Hub need the crate's feature hub",
    };
    Err(Error::NotFound { path: name.into(), reason: format!("there is no such folder or file, and {hub}") })
}

/// Opens the files that an option names: a folder, or a model of the Hub, which is downloaded if it is not cached.
/// `progress(done, all)` is called with the bytes so far and all bytes.
pub fn open(
    option: &'static str,
    name: &str,
    cancel: &CancelToken,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Folder> {
    get(option, name, true, cancel, progress)
}

/// As [`open`], for a model on a server: opens tokenizer and configuration only.
pub fn words(
    option: &'static str,
    name: &str,
    cancel: &CancelToken,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Folder> {
    get(option, name, false, cancel, progress)
}

#[cfg_attr(not(feature = "hub"), expect(unused_variables, reason = "nothing is downloaded"))]
fn get(
    option: &'static str,
    name: &str,
    with_weights: bool,
    cancel: &CancelToken,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Folder> {
    Folder::open(match locate(option, name)? {
        Place::Here(path) => path,
        #[cfg(feature = "hub")]
        Place::Hub(id) => {
            let hub = hub()?.cancelled_by(cancel);
            // A GGUF file is one file, so it is downloaded whole.
            let found = match with_weights || id.file.is_some() {
                true => hub.download(&id, progress),
                false => hub.download_words(&id, progress),
            };
            found.map_err(|error| neither(error, &id))?
        }
    })
}

/// Adds to the error that no folder has this name either, since a folder may have been meant.
#[cfg(feature = "hub")]
pub fn neither(error: Error, id: &HubId) -> Error {
    match error {
        Error::NotFound { path, reason } if path == id.to_string() => {
            Error::NotFound { path, reason: format!("{reason}; nor is there such a folder here") }
        }
        other => other,
    }
}

/// Returns the Hub that the environment selects.
#[cfg(feature = "hub")]
pub fn hub() -> Result<Hub> {
    Hub::new(Settings::from_env())
}
