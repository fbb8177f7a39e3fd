//! Selects the files of a model from a list of file names.

use crate::error::{Error, Result};
use crate::weights::{INDEX, SINGLE, SMALL_FILES, SplitFile, TEMPLATES};
use std::collections::BTreeSet;

/// Option that selects one of several GGUF files of the model.
const FILE: &str = "file";
/// Option that selects one of several GGUF files of the draft model.
const ASSISTANT_FILE: &str = "assistant_file";

/// Maximum number of file names in an error message.
const MOST_LISTED: usize = 30;

/// Returns the files to load, chosen from `names`: either a folder's files with one weights file or the shard index, or all parts of one
/// GGUF file, in order. `file` selects a GGUF file if there are several; `*` in it matches any characters.
///
/// # Errors
/// [`Error::NotFound`] with the path `model` if no file is usable. [`Error::BadOption`] if several GGUF files match, or none.
pub fn choose(model: &str, file: Option<&str>, names: &[&str]) -> Result<Vec<String>> {
    let has = |name: &&&str| names.contains(name);
    if let (None, Some(weights)) = (file, [SINGLE, INDEX].iter().find(has)) {
        return Ok(SMALL_FILES
            .iter()
            .chain(&TEMPLATES)
            .filter(has)
            .chain([weights])
            .map(ToString::to_string)
            .collect());
    }
    // Each GGUF model is identified by the name of its first part.
    let is_first =
        |name: &str| name.ends_with(".gguf") && SplitFile::from_name(name).is_none_or(|split| split.part(0) == name);
    let models: BTreeSet<&str> = names.iter().copied().filter(|name| is_first(name)).collect();
    let matching: Vec<&str> = models.iter().copied().filter(|name| matches(file.unwrap_or("*"), name)).collect();
    match (&matching[..], file) {
        ([first], _) => Ok(parts(first)),
        // Without a file list, patterns cannot be resolved, so `file` is used as the exact name.
        (_, Some(file)) if names.is_empty() => Ok(vec![file.into()]),
        _ if models.is_empty() => Err(Error::NotFound { path: model.into(), reason: lacking(file, names) }),
        _ => Err(Error::BadOption {
            option: FILE.into(),
            value: file.unwrap_or("none").into(),
            allowed: format!(
                "one of the GGUF files of {model}, natively as owner/name:FILE; * stands for any characters: {}",
                listed(&if matching.is_empty() { models.into_iter().collect() } else { matching })
            ),
        }),
    }
}

/// Changes the option named in an error to the one for the draft model's file.
pub fn of_assistant(error: Error) -> Error {
    match error {
        Error::BadOption { option, value, allowed } if option == FILE => {
            Error::BadOption { option: ASSISTANT_FILE.into(), value, allowed }
        }
        other => other,
    }
}

/// Returns why no file can be chosen, and what to do about it.
fn lacking(file: Option<&str>, names: &[&str]) -> String {
    if file.is_some() {
        return "it has no GGUF file: name the model without a file".into();
    }
    if names.iter().any(|name| [".bin", ".pt", ".pth"].iter().any(|end| name.ends_with(end))) {
        return format!(
            "its weights are pickled PyTorch files (.bin), which can run any code and are not read: take a repository with \
             {SINGLE} or a GGUF file, or have it converted at https://huggingface.co/spaces/safetensors/convert"
        );
    }
    format!("there is neither {SINGLE}, nor {INDEX}, nor a GGUF file, but {}", listed(names))
}

fn listed(names: &[&str]) -> String {
    if names.is_empty() {
        return "nothing that is known".into();
    }
    let more = names.len().saturating_sub(MOST_LISTED);
    let list = names.iter().take(MOST_LISTED).copied().collect::<Vec<_>>().join(", ");
    if more > 0 { format!("{list} and {more} more") } else { list }
}

/// Returns the names of all parts of the GGUF file with first part `first`.
fn parts(first: &str) -> Vec<String> {
    SplitFile::from_name(first)
        .map_or(vec![first.into()], |split| (0..split.parts).map(|number| split.part(number)).collect())
}

/// Returns true if `name` matches `pattern`, in which `*` matches any characters.
fn matches(pattern: &str, name: &str) -> bool {
    let Some((first, rest)) = pattern.split_once('*') else { return pattern == name };
    let Some(mut name) = name.strip_prefix(first) else { return false };
    let Some((middle, last)) = rest.rsplit_once('*') else { return name.ends_with(rest) };
    for piece in middle.split('*') {
        match name.find(piece) {
            Some(at) => name = &name[at + piece.len()..],
            None => return false,
        }
    }
    name.ends_with(last)
}
