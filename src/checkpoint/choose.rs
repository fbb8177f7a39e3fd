//! Which GGUF file of several is meant.

use crate::error::{Error, Result};

/// The one that matches, or the only one; none where there is none and none was asked for. Of a split file its first part counts.
pub(super) fn choose(place: &str, files: &[String], pattern: Option<&str>) -> Result<Option<String>> {
    let is_first = |name: &&String| !name.contains("-of-") || name.contains("-00001-of-");
    let mut models: Vec<_> = files.iter().filter(|name| name.ends_with(".gguf")).filter(is_first).collect();
    models.sort();
    let all = models.clone();
    if let Some(pattern) = pattern {
        // Where the names cannot be told, the pattern has to be one.
        if files.is_empty() {
            return Ok(Some(pattern.to_owned()));
        }
        models.retain(|name| matches(pattern, name));
    }
    let names = |models: &[&String]| models.iter().map(|name| name.as_str()).collect::<Vec<_>>().join(", ");
    match (models.as_slice(), pattern) {
        ([one], _) => Ok(Some((*one).clone())),
        ([], None) => Ok(None),
        (several, _) => Err(Error::BadOption {
            option: if pattern.is_some() { "file" } else { "model" }.into(),
            value: pattern.unwrap_or(place).to_owned(),
            allowed: format!("one of its GGUF files: {}", names(if several.is_empty() { &all } else { several })),
        }),
    }
}

/// Whether a name is the pattern, in which `*` stands for any characters.
fn matches(pattern: &str, name: &str) -> bool {
    let Some((start, rest)) = pattern.split_once('*') else { return pattern == name };
    let Some(mut name) = name.strip_prefix(start) else { return false };
    loop {
        if matches(rest, name) {
            return true;
        }
        let mut chars = name.chars();
        if chars.next().is_none() {
            return false;
        }
        name = chars.as_str();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn the_only_one_or_the_one_that_matches() {
        let some = |name: &str| Ok(Some(name.to_owned()));
        assert_eq!(choose("m", &files(&["README.md", "config.json"]), None), Ok(None));
        assert_eq!(choose("m", &files(&["README.md", "a.gguf"]), None), some("a.gguf"));
        let parts = files(&["a-00002-of-00002.gguf", "a-00001-of-00002.gguf"]);
        assert_eq!(choose("m", &parts, None), some("a-00001-of-00002.gguf"));
        let both = files(&["m-Q4_K_M.gguf", "m-Q8_0.gguf"]);
        assert_eq!(choose("m", &both, Some("*Q8_0.gguf")), some("m-Q8_0.gguf"));
        assert_eq!(choose("m", &both, Some("m-*4*M.gguf")), some("m-Q4_K_M.gguf"));
        assert_eq!(choose("m", &[], Some("x.gguf")), some("x.gguf"));
        for pattern in [None, Some("m*"), Some("*Q5*")] {
            let error = choose("m", &both, pattern).unwrap_err();
            assert_eq!(error.code(), "bad-option");
            assert!(error.to_string().contains("m-Q4_K_M.gguf, m-Q8_0.gguf"), "{error}");
        }
    }
}
