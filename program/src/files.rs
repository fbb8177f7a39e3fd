//! Folders of the models.

use super::bar::Bar;
use foretoken::internals::files;
use foretoken::internals::weights::Folder;
use foretoken::{CancelToken, Error, Result};
use std::fs;
use std::path::{Path, PathBuf};

/// Opens the target of the tales pair.
pub(super) fn tales() -> Result<Folder> {
    open_tales("target")
}

/// Opens the draft model of the tales pair.
pub(super) fn tales_draft() -> Result<Folder> {
    open_tales("draft")
}

/// Finds a part of the tales in the checkout that the program was built in, or in the one in the current directory.
fn part_of_tales(part: &str) -> Option<PathBuf> {
    let checkouts = [concat!(env!("CARGO_MANIFEST_DIR"), "/.."), "."].map(Path::new);
    checkouts.map(|checkout| checkout.join("models").join("tales").join(part)).into_iter().find(|path| path.exists())
}

/// Returns the text of a tale; `None`: there is no checkout.
pub(super) fn tale() -> Option<String> {
    fs::read_to_string(part_of_tales("tale.txt")?).ok()
}

/// Reads a file of text.
pub(super) fn text(file: &Path) -> Result<String> {
    fs::read_to_string(file)
        .map_err(|error| Error::NotFound { path: file.display().to_string(), reason: error.to_string() })
}

fn open_tales(part: &str) -> Result<Folder> {
    match part_of_tales(part) {
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

/// Opens the files that an option names. A bar shows the progress of downloads.
pub(super) fn open(option: &'static str, name: &str) -> Result<Folder> {
    let bar = bar(name);
    files::open(option, name, &CancelToken::default(), &mut |done, all| bar.show(done, all))
}

/// Opens the files that an option names, without weights.
pub(super) fn words(option: &'static str, name: &str) -> Result<Folder> {
    let bar = bar(name);
    files::words(option, name, &CancelToken::default(), &mut |done, all| bar.show(done, all))
}

fn bar(name: &str) -> Bar {
    Bar::new(&format!("downloading {name} {{bar:30}} {{bytes}} of {{total_bytes}}, {{eta}} left"))
}
