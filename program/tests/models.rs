//! The list of downloaded models, of a cache that looks like that of Python's library.

use crate::command;
use common::hub::{COMMIT, Fake, honest};
use common::path;
use common::tempfile::TempDir;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A commit that no revision names.
const OLDER: &str = "89abcdef0123456789abcdef0123456789abcdef";

/// A cache of the Hub.
struct Cache(TempDir);

impl Cache {
    /// Adds a file to a repository's folder, `models--owner--name`.
    fn add(&self, repository: &str, file: &str, bytes: &[u8]) {
        let place = self.0.path().join(repository).join(file);
        fs::create_dir_all(place.parent().unwrap()).unwrap();
        fs::write(place, bytes).unwrap();
    }

    /// Adds a revision's files. `revision`: its name, if it has one.
    fn revision(&self, repository: &str, revision: Option<&str>, commit: &str, files: &[(&str, &[u8])]) {
        if let Some(revision) = revision {
            self.add(repository, &format!("refs/{revision}"), commit.as_bytes());
        }
        for (name, bytes) in files {
            self.add(repository, &format!("snapshots/{commit}/{name}"), bytes);
        }
    }

    /// Adds the files of `main`.
    fn model(&self, repository: &str, files: &[(&str, &[u8])]) {
        self.revision(repository, Some("main"), COMMIT, files);
    }

    fn program(&self, args: &[&str]) -> Command {
        let mut command = command(args);
        command.env("HF_HUB_CACHE", self.0.path());
        command
    }

    fn output(&self, args: &[&str]) -> Output {
        self.program(args).output().unwrap()
    }
}

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap()
}

/// Returns the files of the small tales model.
fn tales() -> Vec<(String, Vec<u8>)> {
    let entries = fs::read_dir(path("models/tales/draft")).unwrap();
    let files = entries.map(|entry| entry.unwrap().path()).filter(|file| file.is_file());
    let named = |file: PathBuf| (file.file_name().unwrap().to_str().unwrap().to_owned(), fs::read(&file).unwrap());
    files.map(named).collect()
}

/// Writes the small tales model as a GGUF file.
fn gguf(folder: &Path) -> Vec<u8> {
    let file = folder.join("tales.gguf");
    let made = command(&["quantize", "models/tales/draft", file.to_str().unwrap(), "--type", "Q8_0"]).output().unwrap();
    assert!(made.status.success(), "{made:?}");
    fs::read(file).unwrap()
}

/// Fills a cache with models that run, and others.
fn filled() -> Cache {
    let (cache, scratch) = (Cache(TempDir::new().unwrap()), TempDir::new().unwrap());
    let files = tales();
    let files: Vec<(&str, &[u8])> = files.iter().map(|(name, bytes)| (name.as_str(), &bytes[..])).collect();
    let without = |left_out: &str| files.iter().copied().filter(|(name, _)| *name != left_out).collect::<Vec<_>>();
    cache.model("models--owner--tales", &files);
    cache.revision("models--owner--tales", Some("refs/pr/1"), COMMIT, &files);
    cache.revision("models--owner--tales", None, OLDER, &files);
    cache.revision("models--owner--branch", Some("v2"), COMMIT, &files);
    let gguf = gguf(scratch.path());
    cache.model(
        "models--owner--Files-GGUF",
        &[
            ("README.md", b"Tales."),
            ("tales-Q8_0.gguf", &gguf),
            ("more/t-00002-of-00002.gguf", b"GGUF"),
            ("cut.gguf", &gguf[..99]),
        ],
    );
    cache.model("models--owner--cut", &without("model.safetensors"));
    cache.add("models--owner--cut", "blobs/0123.incomplete", &[0; 9]);
    // This program names the revision at the end only.
    cache.revision("models--owner--begun", None, COMMIT, &[("config.json", b"{}")]);
    cache.add("models--owner--begun", "blobs/4567.incomplete", &[0; 9]);
    cache.add("models--owner--nothing", "blobs/89ab.incomplete", &[0; 9]);
    cache.model("models--owner--broken", &[&[("config.json", &b"{"[..])][..], &without("config.json")].concat());
    let other = br#"{"architectures": ["MambaForCausalLM"], "model_type": "mamba"}"#;
    cache.model("models--owner--mamba", &[&[("config.json", &other[..])][..], &without("config.json")].concat());
    cache.model("models--owner--mute", &without("tokenizer.json"));
    cache.model("models--owner--words", &[("tokenizer.json", b"{}")]);
    cache.model("models--gpt2", &files);
    cache.add("datasets--owner--texts", "blobs/cdef", &[0; 1234]);
    cache.add(".locks/models--owner--tales", "0123.lock", b"");
    cache.add("", "version.txt", b"1");
    cache
}

#[test]
fn the_list_has_each_model_and_the_reason_why_others_do_not_run() {
    let (cache, fake) = (filled(), Fake::new(&[], honest(), honest()));
    let list = ["models", "--device", "cpu", "--json"];
    let listed = cache.program(&list).env("HF_ENDPOINT", &fake.hub.address).output().unwrap();
    assert!(listed.status.success() && fake.hub.asked().is_empty(), "{listed:?}");
    let entries: Vec<Value> = text(listed.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let older = format!("owner/tales@{OLDER}");
    let runs = ["owner/branch@v2", "owner/Files-GGUF:tales-Q8_0.gguf", "owner/tales", &older];
    let reasons = [
        ("gpt2", "has no owner"),
        ("owner/begun", "was interrupted"),
        ("owner/broken", "config.json: -: "),
        ("owner/cut", "was interrupted, and the next load completes it: there is neither model.safetensors"),
        ("owner/Files-GGUF:cut.gguf", "cut.gguf: its header goes on"),
        ("owner/Files-GGUF:more/t-00001-of-00002.gguf", "its first part"),
        ("owner/mamba", "the architecture mamba is not supported"),
        ("owner/mute", "there is no such file"),
        ("owner/nothing", "was interrupted"),
        ("owner/texts", "one of the datasets"),
        ("owner/words", "there is neither model.safetensors"),
    ];
    let names: Vec<_> = entries.iter().map(|entry| entry["model"].as_str().unwrap()).collect();
    assert_eq!(names, [&runs[..], &reasons.map(|(name, _)| name)].concat());
    let (here, not) = entries.split_at(runs.len());
    for entry in here {
        assert_eq!((&entry["unfit"], &entry["architecture"]), (&Value::Null, &"llama".into()), "{entry}");
        assert!(entry["device"].as_str().unwrap().starts_with("CPU with "), "{entry}");
        let number = |key: &str| entry[key].as_f64().unwrap();
        let bytes = number("bytes_per_token") + number("kv_bytes_per_token");
        let estimated = number("probe_gb_per_s") * 1e9 / bytes;
        assert!((number("estimated_tokens_per_second") / estimated - 1.0).abs() < 1e-9, "{entry}");
    }
    assert_eq!((&here[2]["dtype"], &here[1]["dtype"]), (&"F16".into(), &"Q8_0".into()));
    let bytes: usize = tales().iter().map(|(_, bytes)| bytes.len()).sum();
    assert_eq!((&here[2]["size"], &here[3]["size"]), (&bytes.into(), &bytes.into()));
    for (entry, (_, reason)) in not.iter().zip(reasons) {
        assert!(entry["unfit"].as_str().unwrap().contains(reason), "{entry}");
        assert!(entry.get("estimated_tokens_per_second").is_none(), "{entry}");
        // The reason names no folder of the cache.
        assert!(!entry["unfit"].as_str().unwrap().contains(cache.0.path().to_str().unwrap()), "{entry}");
    }
    assert_eq!((&not[8]["size"], &not[9]["size"]), (&9.into(), &1234.into()));
    assert_eq!((&not[7]["architecture"], &not[6]["architecture"]), (&"llama".into(), &Value::Null));
}

/// A name of the list is one that the other commands take, and the estimates are of the same bytes.
#[test]
fn a_listed_name_opens_the_model() {
    let cache = filled();
    let listed = text(cache.output(&["models", "--device", "cpu", "--json"]).stdout);
    for entry in listed.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()).take(4) {
        let inspect = ["inspect", entry["model"].as_str().unwrap(), "--device", "cpu", "--json"];
        let inspected = cache.program(&inspect).env("HF_HUB_OFFLINE", "1").output().unwrap();
        assert!(inspected.status.success(), "{inspected:?}");
        let report: Value = serde_json::from_slice(&inspected.stdout).unwrap();
        for key in ["architecture", "unfit", "bytes_per_token", "kv_bytes_per_token"] {
            assert_eq!(entry[key], report[key], "{key}: {entry}");
        }
    }
}

#[test]
fn the_table_is_aligned() {
    let cache = filled();
    let table = text(cache.output(&["models", "--device", "cpu"]).stdout);
    let (rows, note) = table.split_once("\n\n").unwrap();
    assert!(note.starts_with("tokens/s: at most about this many without drafts, on CPU with "), "{note}");
    let title = rows.lines().next().unwrap();
    for title in ["ARCHITECTURE", "TYPE", "TOKENS/S"].map(|name| title.find(name).unwrap()) {
        for row in rows.lines() {
            assert!(row[..title].ends_with("  ") && !row[title..].starts_with(' '), "{row}");
        }
    }
    let reasons: Vec<_> = rows.lines().filter_map(|row| row.split_once("does not run: ")).collect();
    assert_eq!(reasons.len(), 11, "{rows}");
    for (_, reason) in &reasons {
        assert!(reason.len() <= 104, "{reason}");
    }
    assert!(reasons.iter().any(|(_, reason)| reason.ends_with(" ...")), "{rows}");
}

#[test]
fn an_empty_cache_says_how_to_get_a_model() {
    let cache = Cache(TempDir::new().unwrap());
    for folder in [cache.0.path().to_path_buf(), cache.0.path().join("nowhere")] {
        for flags in [&["models"][..], &["models", "--json"]] {
            let listed = command(flags).env("HF_HUB_CACHE", &folder).output().unwrap();
            assert!(listed.status.success() && listed.stdout.is_empty(), "{listed:?}");
            let err = text(listed.stderr);
            assert!(err.contains(folder.to_str().unwrap()) && err.contains("foretoken chat --model"), "{err}");
        }
    }
    cache.add("", "file", b"");
    let listed = command(&["models"]).env("HF_HUB_CACHE", cache.0.path().join("file")).output().unwrap();
    assert_eq!(listed.status.code(), Some(1));
    assert!(text(listed.stderr).contains("set HF_HUB_CACHE"));
}
