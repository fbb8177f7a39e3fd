//! The Hub's cache, as Python's huggingface_hub lays it out: `models--owner--name` folders with `blobs`, `refs` and `snapshots`.

use foretoken::{Error, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// A model in the cache, or another repository that occupies space there.
pub(super) struct Cached {
    /// Name, as `--model` takes it.
    pub id: String,
    /// Bytes of its files.
    pub size: u64,
    /// Folder or GGUF file, or the reason why there is none to open.
    pub path: Result<PathBuf, String>,
    /// True if the download of a file of its repository was interrupted.
    pub is_interrupted: bool,
}

/// Lists the cache. A folder that does not exist is empty.
///
/// # Errors
/// [`Error::NotFound`] if the folder cannot be read.
pub(super) fn list(cache: &Path) -> Result<Vec<Cached>> {
    if !cache.exists() {
        return Ok(Vec::new());
    }
    let entries = fs::read_dir(cache).map_err(|error| Error::NotFound {
        path: cache.display().to_string(),
        reason: format!("{error}: set HF_HUB_CACHE to the folder of the cache, or change its rights"),
    })?;
    let mut found = Vec::new();
    for entry in entries.flatten() {
        let (folder, name) = (entry.path(), entry.file_name().to_string_lossy().into_owned());
        let Some((kind, name)) = name.split_once("--") else { continue };
        let id = name.replacen("--", "/", 1);
        match kind {
            "models" => found.extend(repository(&folder, &id)),
            "datasets" | "spaces" => {
                let reason = format!("it is no model, but one of the {kind}");
                found.push(Cached::new(id, size(&folder.join("blobs")), Err(reason)));
            }
            _ => {}
        }
    }
    Ok(found)
}

impl Cached {
    fn new(id: String, size: u64, path: Result<PathBuf, String>) -> Self {
        Self { id, size, path, is_interrupted: false }
    }
}

/// Lists the models of a repository: those of each revision.
fn repository(folder: &Path, id: &str) -> Vec<Cached> {
    let blobs = files(&folder.join("blobs"));
    let is_interrupted = blobs.keys().any(|name| name.ends_with(".incomplete"));
    let mut commits = BTreeMap::<String, String>::new();
    for name in files(&folder.join("refs")).keys() {
        let commit = fs::read_to_string(folder.join("refs").join(name)).unwrap_or_default().trim().to_owned();
        // Several revisions may be the same commit. `main` need not be named.
        if name == "main" || !commits.contains_key(&commit) {
            commits.insert(commit, if name == "main" { String::new() } else { format!("@{name}") });
        }
    }
    let has_revisions = !commits.is_empty();
    let mut found = Vec::new();
    for entry in fs::read_dir(folder.join("snapshots")).into_iter().flatten().flatten() {
        let commit = entry.file_name().to_string_lossy().into_owned();
        let revision = match commits.remove(&commit) {
            Some(revision) => revision,
            // This program names the revision when the download is complete.
            None if is_interrupted && !has_revisions => String::new(),
            None => format!("@{commit}"),
        };
        found.extend(snapshot(&entry.path(), &format!("{id}{revision}")));
    }
    if found.is_empty() {
        let bytes = blobs.values().sum();
        found.push(Cached::new(id.to_owned(), bytes, Err("it has no complete files".into())));
    }
    for model in &mut found {
        model.is_interrupted = is_interrupted;
        if !id.contains('/') {
            model.path = Err("its name has no owner; this program needs owner/name".into());
        }
    }
    found
}

/// Lists the models of a revision: its folder and each of its GGUF files.
fn snapshot(folder: &Path, id: &str) -> Vec<Cached> {
    let files = files(folder);
    let (gguf, others): (BTreeMap<_, _>, BTreeMap<_, _>) =
        files.into_iter().partition(|(name, _)| name.ends_with(".gguf"));
    let mut found = Vec::new();
    if !others.is_empty() && (gguf.is_empty() || others.keys().any(|name| name.ends_with(".safetensors"))) {
        found.push(Cached::new(id.to_owned(), others.values().sum(), Ok(folder.to_path_buf())));
    }
    let first: BTreeSet<_> = gguf.keys().map(|name| first_part(name)).collect();
    for name in first {
        let bytes = gguf.iter().filter(|(part, _)| first_part(part) == name).map(|(_, bytes)| bytes).sum();
        let path = folder.join(&name);
        let path = if path.is_file() { Ok(path) } else { Err(format!("its first part, {name}, is not there")) };
        found.push(Cached::new(format!("{id}:{name}"), bytes, path));
    }
    found
}

/// Returns the first part of a split GGUF file, such as `model-00001-of-00003.gguf`, or the name of one that is not split.
fn first_part(name: &str) -> String {
    let split = name.strip_suffix(".gguf").and_then(|stem| {
        let (before, parts) = stem.rsplit_once("-of-")?;
        let (before, part) = before.rsplit_once('-')?;
        let is_number = |text: &str| text.len() == 5 && text.bytes().all(|byte| byte.is_ascii_digit());
        (is_number(part) && is_number(parts)).then(|| format!("{before}-00001-of-{parts}.gguf"))
    });
    split.unwrap_or_else(|| name.to_owned())
}

/// Returns the bytes of the files below a folder.
fn size(folder: &Path) -> u64 {
    files(folder).values().sum()
}

/// Returns the files below a folder and their bytes, by name. Links are followed to files, but not to folders or to nothing.
fn files(folder: &Path) -> BTreeMap<String, u64> {
    fn add(folder: &Path, before: &str, found: &mut BTreeMap<String, u64>) {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let name = format!("{before}{}", entry.file_name().to_string_lossy());
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                add(&entry.path(), &format!("{name}/"), found);
            } else if let Some(data) = fs::metadata(entry.path()).ok().filter(fs::Metadata::is_file) {
                found.insert(name, data.len());
            }
        }
    }
    let mut found = BTreeMap::new();
    add(folder, "", &mut found);
    found
}
