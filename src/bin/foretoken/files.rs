//! Folders of the models.

use super::bar::Bar;
use foretoken::internals::files;
use foretoken::internals::weights::Folder;
use foretoken::{CancelToken, Error, Result};
use std::path::Path;

/// Opens the target of the tales pair.
pub(super) fn tales() -> Result<Folder> {
    part_of_tales("target")
}

/// Opens the draft model of the tales pair.
pub(super) fn tales_draft() -> Result<Folder> {
    part_of_tales("draft")
}

/// Opens a folder in the checkout that the program was built in, or in the one in the current directory.
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
