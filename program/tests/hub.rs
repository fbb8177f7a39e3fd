//! Models of the Hub, as the program gets them.

use crate::{command, parsed};
use common::hub::{Fake, REPOSITORY, honest};
use common::path;
use common::tempfile::TempDir;
use std::fs;
use std::process::Command;

/// Returns the files of the small tales model.
fn tales() -> Vec<(&'static str, Vec<u8>)> {
    let folder = path("models/tales/draft");
    let names =
        ["config.json", "generation_config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"];
    names.map(|name| (name, fs::read(folder.join(name)).unwrap())).into()
}

fn program(fake: &Fake, cache: &TempDir, args: &[&str]) -> Command {
    let mut command = command(args);
    command.env("HF_ENDPOINT", &fake.hub.address).env("HF_HUB_CACHE", cache.path());
    command.env("HF_TOKEN", "secret").env("NO_PROXY", "127.0.0.1");
    command
}

#[test]
fn two_processes_at_once_download_once_and_the_text_is_that_of_the_folder() {
    let (fake, cache) = (Fake::new(&tales(), honest(), honest()), TempDir::new().unwrap());
    let generate = |model: &str| {
        let args = ["generate", "Once upon a time", "--max-new-tokens", "4", "--json", "--model", model];
        program(&fake, &cache, &args).spawn().unwrap()
    };
    let both = [generate(REPOSITORY), generate(REPOSITORY)].map(|child| parsed(&child.wait_with_output().unwrap()));
    let folder = path("models/tales/draft");
    let wanted = parsed(&generate(folder.to_str().unwrap()).wait_with_output().unwrap());
    assert!(both.iter().all(|report| report["text"] == wanted["text"]), "{both:?}");
    assert_eq!(fake.store.asked().len(), 1);
    let mut paths = fake.hub.paths();
    paths.retain(|path| path.starts_with("/cached/"));
    assert_eq!(paths.len(), 4, "{paths:?}");
}

#[test]
fn inspecting_a_model_of_the_hub_reads_its_headers_alone() {
    let (fake, cache) = (Fake::new(&tales(), honest(), honest()), TempDir::new().unwrap());
    let inspect = |model: &str| parsed(&program(&fake, &cache, &["inspect", model, "--json"]).output().unwrap());
    let report = inspect(REPOSITORY);
    let ranges: usize =
        fake.store.asked().iter().map(|request| request.range.unwrap()).map(|(start, end)| end - start).sum();
    assert!(ranges < 50_000, "{ranges}");
    assert!(!cache.path().join("models--owner--tales").exists(), "nothing is kept");
    let folder = path("models/tales/draft");
    let wanted = inspect(folder.to_str().unwrap());
    for key in ["spec", "tensors", "memory", "plan", "download_bytes"] {
        assert_eq!(report[key], wanted[key], "{key}");
    }
    assert_eq!(report["model"], REPOSITORY);
    assert_eq!(report["download_bytes"], tales().iter().map(|(_, bytes)| bytes.len()).sum::<usize>());
    let read = |offline: &str| {
        program(&fake, &cache, &["inspect", REPOSITORY]).env("HF_HUB_OFFLINE", offline).output().unwrap()
    };
    assert!(String::from_utf8(read("1").stderr).unwrap().contains("HF_HUB_OFFLINE"));
    assert!(String::from_utf8(read("0").stdout).unwrap().contains("fits"));
}

#[test]
fn what_is_here_goes_before_what_the_hub_has() {
    let (fake, cache) = (Fake::new(&[], honest(), honest()), TempDir::new().unwrap());
    let said = |model: &str| {
        let folder = path("models");
        let run = program(&fake, &cache, &["generate", "Once", "--model", model]).current_dir(folder).output().unwrap();
        assert_eq!(run.status.code(), Some(1));
        String::from_utf8(run.stderr).unwrap()
    };
    // A folder without a model.
    fs::create_dir_all(cache.path().join("empty/folder")).unwrap();
    let empty = program(&fake, &cache, &["generate", "Once", "--model", "empty/folder"])
        .current_dir(cache.path())
        .output()
        .unwrap();
    assert!(String::from_utf8(empty.stderr).unwrap().contains("empty/folder: there is neither"));
    assert!(fake.hub.asked().is_empty());
    for part in ["tails", "owner/name", "no such folder"] {
        assert!(said("tails").contains(part), "{part}");
    }
    for part in ["owner/tails", "check the name", "nor is there such a folder"] {
        assert!(said("owner/tails").contains(part), "{part}: {}", said("owner/tails"));
    }
}

#[test]
fn a_repository_of_gguf_files_wants_one_of_them() {
    let names = ["tales-Q4_K_M.gguf", "tales-Q8_0.gguf", "config.json"];
    let (fake, cache) = (Fake::new(&names.map(|name| (name, vec![0; 9])), honest(), honest()), TempDir::new().unwrap());
    for option in ["--model", "--assistant-model"] {
        let refused = program(&fake, &cache, &["generate", "Once", option, REPOSITORY]).output().unwrap();
        let said = String::from_utf8(refused.stderr).unwrap();
        assert!(said.contains(&format!("{option}: none is not allowed")), "{said}");
    }
}
