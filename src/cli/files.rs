//! The files of a model: a folder on disk, or the tales pair inside the program.

use crate::error::{Error, Result};
use crate::weights::{Folder, Memory, Source};
use std::borrow::Cow;
use std::ops::Range;
use std::path::Path;

/// The files of a model.
#[derive(Clone)]
pub(super) enum Files {
    Folder(Folder),
    Embedded(Memory),
}

impl Files {
    /// The target's: those of the folder if one is given, else the tales model.
    pub fn target(model: Option<&Path>) -> Result<Self> {
        match model {
            Some(path) => Self::open("model", path),
            None => Ok(tales("tales", TARGET)),
        }
    }

    /// The tales model's draft model.
    pub fn tales_draft() -> Self {
        tales("tales draft", DRAFT)
    }

    /// Those of the folder that an option names.
    pub fn open(option: &'static str, path: &Path) -> Result<Self> {
        if path.as_os_str().is_empty() {
            let (value, allowed) = ("an empty name".into(), "the name of a folder".into());
            return Err(Error::BadOption { option: option.into(), value, allowed });
        }
        match Folder::open(path) {
            Ok(folder) => Ok(Self::Folder(folder)),
            Err(_) if !path.exists() && is_hub_id(path) => {
                let path = path.display().to_string();
                let flag = super::flag(option);
                let reason = format!(
                    "there is no such folder, and this version does not download from the Hub: \
                     run `hf download {path} --local-dir {path}` first, or give {flag} another folder"
                );
                Err(Error::NotFound { path, reason })
            }
            Err(error) => Err(error),
        }
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

impl Source for Files {
    async fn size(&self, file: &str) -> Result<Option<u64>> {
        match self {
            Self::Folder(files) => files.size(file).await,
            Self::Embedded(files) => files.size(file).await,
        }
    }

    async fn read(&self, file: &str, range: Range<u64>) -> Result<Vec<u8>> {
        match self {
            Self::Folder(files) => files.read(file, range).await,
            Self::Embedded(files) => files.read(file, range).await,
        }
    }

    fn name(&self) -> String {
        match self {
            Self::Folder(files) => files.name(),
            Self::Embedded(files) => files.name(),
        }
    }
}

/// A file's name and its bytes.
type Embedded = (&'static str, &'static [u8]);

macro_rules! embed {
    ($folder:literal) => {
        embed!($folder, "config.json" "generation_config.json"
            "tokenizer_config.json" "tokenizer.json" "model.safetensors")
    };
    ($folder:literal, $($file:literal)*) => {
        [$(($file, include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/models/tales/", $folder, "/", $file)))),*]
    };
}

const TARGET: [Embedded; 5] = embed!("target");
const DRAFT: [Embedded; 5] = embed!("draft");

fn tales(name: &str, files: [Embedded; 5]) -> Files {
    Files::Embedded(Memory::new(name, files.map(|(file, bytes)| (file, Cow::Borrowed(bytes)))))
}
