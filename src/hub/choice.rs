//! Which files of a repository make up the model.

use super::id::HubId;
use crate::error::{Error, Result};
use crate::weights::{INDEX, SINGLE, parse_index};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// What a folder may hold besides weights.
const SMALL: [&str; 5] =
    ["config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json", "chat_template.jinja"];
/// Files that a message lists at most.
const MOST_LISTED: usize = 30;

/// The files to be had, in the order in which they are to come; shards come in addition when their index is read. They are
/// either those of a folder, or the parts of one GGUF file.
///
/// # Errors
/// [`Error::NotFound`] where there is none that can be used, or where there are several.
pub(super) fn choose(id: &HubId, names: &[&str]) -> Result<Vec<String>> {
    let weights = [SINGLE, INDEX].into_iter().find(|file| names.contains(file));
    if let (None, Some(weights)) = (&id.file, weights) {
        let small = SMALL.into_iter().filter(|file| names.contains(file));
        return Ok(small.chain([weights]).map(Into::into).collect());
    }
    let pattern = id.file.as_deref().unwrap_or("*");
    // By the name of the first part.
    let models: BTreeSet<&str> = names
        .iter()
        .filter(|name| name.ends_with(".gguf") && part(name).is_none_or(|(_, number, _)| number == 1))
        .copied()
        .collect();
    let matching: Vec<&str> = models.iter().filter(|name| matches(pattern, name)).copied().collect();
    match matching[..] {
        [first] => parts(id, first, names),
        _ => Err(Error::NotFound { path: id.to_string(), reason: reason(id, names, &models, &matching) }),
    }
}

/// Why nothing was chosen, and what to do.
fn reason(id: &HubId, names: &[&str], models: &BTreeSet<&str>, matching: &[&str]) -> String {
    let repository = &id.repository;
    if !models.is_empty() {
        let (what, list) = match matching {
            [] => (
                format!("no GGUF file is called {}", id.file.as_deref().unwrap_or_default()),
                models.iter().copied().collect(),
            ),
            several => (format!("there are {} GGUF files", several.len()), several.to_vec()),
        };
        let example = list.first().copied().unwrap_or_default();
        return format!("{what}; choose one, as in {repository}:{example}, of: {}", listed(&list));
    }
    if id.file.is_some() {
        return format!("it has no GGUF file to choose: name it {repository}, without a file");
    }
    let has = |end: &str| names.iter().any(|name| name.ends_with(end));
    if [".bin", ".pt", ".pth"].into_iter().any(has) {
        return format!(
            "its weights are pickled PyTorch files (.bin), which can run any code and are not read: take a repository with \
             {SINGLE} or a GGUF file, or have it converted at https://huggingface.co/spaces/safetensors/convert"
        );
    }
    format!("it has neither {SINGLE}, nor {INDEX}, nor a GGUF file; it has: {}", listed(names))
}

fn listed(names: &[&str]) -> String {
    let more = names.len().saturating_sub(MOST_LISTED);
    let list = names.iter().take(MOST_LISTED).copied().collect::<Vec<_>>().join(", ");
    if more > 0 { format!("{list} and {more} more") } else { list }
}

/// All parts of the GGUF file whose first one is given.
fn parts(id: &HubId, first: &str, names: &[&str]) -> Result<Vec<String>> {
    let Some((stem, _, count)) = part(first) else { return Ok(vec![first.into()]) };
    let all: Vec<_> = (1..=count).map(|number| format!("{stem}-{number:05}-of-{count:05}.gguf")).collect();
    match all.iter().find(|part| !names.contains(&part.as_str())) {
        Some(missing) => {
            Err(Error::NotFound { path: id.to_string(), reason: format!("its part {missing} is not there") })
        }
        None => Ok(all),
    }
}

/// `stem`, number and count of `stem-00001-of-00003.gguf`.
fn part(name: &str) -> Option<(&str, u32, u32)> {
    let (rest, count) = name.strip_suffix(".gguf")?.rsplit_once("-of-")?;
    let (stem, number) = rest.rsplit_once('-')?;
    let read = |digits: &str| digits.parse().ok().filter(|_| digits.len() == 5);
    Some((stem, read(number)?, read(count)?))
}

/// Whether the name is as the pattern says, in which `*` stands for any characters.
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

/// The shards that an index names.
pub(super) fn shards(index: &[u8]) -> Result<BTreeSet<String>> {
    let map = parse_index(index).map_err(|rule| Error::BadWeights { file: INDEX.into(), rule })?;
    Ok(map.into_values().collect())
}

/// What to open: the folder, or the GGUF file.
pub(super) fn entry(folder: &Path, files: &[String]) -> PathBuf {
    files.first().filter(|file| file.ends_with(".gguf")).map_or_else(|| folder.into(), |file| folder.join(file))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_any_characters() {
        for (pattern, name) in
            [("*", ""), ("*", "a"), ("a*c", "abc"), ("a*c", "ac"), ("*b*", "abc"), ("*b*b", "abbb"), ("a", "a")]
        {
            assert!(matches(pattern, name), "{pattern} {name}");
        }
        for (pattern, name) in [("a", "ab"), ("a*b", "a"), ("ab*b", "ab"), ("*b*b", "ab"), ("*c*b*", "abc"), ("", "a")]
        {
            assert!(!matches(pattern, name), "{pattern} {name}");
        }
    }

    #[test]
    fn what_is_chosen_of_a_repository() {
        let chosen = |id: &str, names: &[&str]| choose(&id.parse().unwrap(), names).map_err(|error| error.to_string());
        let folder =
            ["README.md", "config.json", "model.safetensors", "onnx/model.onnx", "pytorch_model.bin", "tokenizer.json"];
        assert_eq!(chosen("a/b", &folder).unwrap(), ["config.json", "tokenizer.json", SINGLE]);
        assert_eq!(chosen("a/b", &["config.json", INDEX]).unwrap(), ["config.json", INDEX]);
        let quantised = ["config.json", "m-q4.gguf", "m-q8-00001-of-00002.gguf", "m-q8-00002-of-00002.gguf"];
        assert_eq!(chosen("a/b:*q4.gguf", &quantised).unwrap(), [quantised[1]]);
        assert_eq!(chosen("a/b:*q8*", &quantised).unwrap(), quantised[2..]);
        assert_eq!(chosen("a/b", &quantised[..2]).unwrap(), [quantised[1]]);
        assert_eq!(chosen("a/b:*", &[SINGLE, "x.gguf"]).unwrap(), ["x.gguf"]);
        let refused = |id: &str, names: &[&str], says: &[&str]| {
            let error = chosen(id, names).unwrap_err();
            assert!(says.iter().all(|part| error.contains(part)), "{error}");
        };
        refused(
            "a/b",
            &quantised,
            &["there are 2 GGUF files; choose one, as in a/b:m-q4.gguf, of: m-q4.gguf, m-q8-00001-of"],
        );
        refused("a/b:*q5*", &quantised, &["no GGUF file is called *q5*", "m-q4.gguf"]);
        refused("a/b:*q8*", &quantised[..3], &["m-q8-00002-of-00002.gguf is not there"]);
        refused("a/b:*", &folder, &["without a file"]);
        refused("a/b", &["pytorch_model.bin"], &["pickled", "safetensors/convert"]);
        refused("a/b", &["adapter_model.safetensors"], &["neither", "it has: adapter_model.safetensors"]);
    }
}
