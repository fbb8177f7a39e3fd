//! Models of the Hub: the local cache, and faults of the Hub, its servers and the disk.

use common::hub::{Answer, COMMIT, Fake, Misbehave, REPOSITORY, Request, digest_of, honest, taciturn};
use common::path;
use common::tempfile::TempDir;
use foretoken::internals::checkpoint::choose;
use foretoken::internals::hub::{Hub, HubId, Settings, connect};
use foretoken::{Error, Result};
use std::path::{Path, PathBuf};
use std::{env, fs};

/// A separate cache, made by the first download.
struct Cache {
    root: PathBuf,
    _parent: TempDir,
}

impl Cache {
    fn new() -> Self {
        let parent = TempDir::new().unwrap();
        Self { root: parent.path().join("hub"), _parent: parent }
    }

    fn folder(&self) -> PathBuf {
        self.root.join("models--owner--tales")
    }

    /// Downloads a model and returns its path below the snapshot.
    fn get(&self, fake: &Fake, id: &str) -> Result<String> {
        self.with(fake, id, Some("secret"), false)
    }

    fn offline(&self, fake: &Fake, id: &str) -> Result<String> {
        self.with(fake, id, None, true)
    }

    fn with(&self, fake: &Fake, id: &str, token: Option<&str>, offline: bool) -> Result<String> {
        self.at(&fake.hub.address, id, token, offline)
    }

    fn at(&self, endpoint: &str, id: &str, token: Option<&str>, offline: bool) -> Result<String> {
        let token = token.map(str::to_owned);
        let hub = Hub::new(Settings { endpoint: endpoint.into(), token, cache: self.root.clone(), offline })?;
        let mut last = (0, 0);
        let path = hub.download(&id.parse().unwrap(), &mut |done, all| last = (done, all))?;
        assert_eq!(last.0, last.1, "progress ends with all bytes");
        let snapshot = self.folder().join("snapshots").join(COMMIT);
        Ok(path.strip_prefix(snapshot).unwrap().to_str().unwrap().to_owned())
    }

    /// Reads a file of the snapshot.
    fn read(&self, name: &str) -> Vec<u8> {
        fs::read(self.folder().join("snapshots").join(COMMIT).join(name)).unwrap()
    }

    fn blob(&self, name: &str) -> PathBuf {
        self.folder().join("blobs").join(digest_of(name, &bytes_of(name)))
    }
}

const CONFIG: &str = "config.json";
const WEIGHTS: &str = "model.safetensors";

/// Returns some bytes, different for each name.
fn bytes_of(name: &str) -> Vec<u8> {
    let seed = name.bytes().fold(7_u64, |seed, byte| seed.wrapping_mul(31).wrapping_add(byte.into()));
    let length = if name == CONFIG { 100 } else { 300_000 };
    (0..length).map(|at| (seed.wrapping_mul(at + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8).collect()
}

fn files<'a>(names: &[&'a str]) -> Vec<(&'a str, Vec<u8>)> {
    names.iter().map(|name| (*name, bytes_of(name))).collect()
}

fn plain() -> Fake {
    Fake::new(&files(&[CONFIG, WEIGHTS, "README.md"]), honest(), honest())
}

/// Serves the files from both servers; the second one misbehaves.
fn stored(of_store: Misbehave) -> Fake {
    Fake::new(&files(&[CONFIG, WEIGHTS]), honest(), of_store)
}

/// Replaces the first `times` responses.
fn at_first(times: usize, mut instead: impl FnMut(Answer) -> Answer + Send + 'static) -> Misbehave {
    let mut count = 0;
    Box::new(move |_, answer| {
        count += 1;
        if count <= times { instead(answer) } else { answer }
    })
}

#[track_caller]
fn fails<T: std::fmt::Debug>(result: Result<T>, code: &str, says: &[&str]) {
    let error = result.unwrap_err();
    assert_eq!(error.code(), code, "{error}");
    for part in says {
        assert!(error.to_string().contains(part), "{part}: {error}");
    }
    assert!(!error.to_string().contains("secret"), "{error}");
}

#[test]
fn a_download_is_laid_out_as_python_expects_and_comes_once() {
    let (fake, cache) = (plain(), Cache::new());
    assert_eq!(cache.get(&fake, REPOSITORY).unwrap(), "");
    for name in [CONFIG, WEIGHTS] {
        assert!(cache.read(name) == bytes_of(name), "{name}");
        #[cfg(unix)]
        {
            let link = fs::read_link(cache.folder().join("snapshots").join(COMMIT).join(name)).unwrap();
            assert_eq!(link, Path::new("../../blobs").join(digest_of(name, &bytes_of(name))));
        }
    }
    assert_eq!(fs::read_to_string(cache.folder().join("refs/main")).unwrap(), COMMIT);
    assert_eq!(
        fs::read_dir(cache.folder().join("blobs")).unwrap().count(),
        2,
        "nothing is left over, README.md did not come"
    );
    assert_eq!(fs::read_dir(cache.root.join(".locks/models--owner--tales")).unwrap().count(), 2);
    let listing = format!("/api/models/{REPOSITORY}/revision/main?blobs=true");
    assert_eq!(fake.hub.paths()[0], listing);
    // Checking for changes takes one request. A commit cannot change, so it takes none.
    cache.get(&fake, REPOSITORY).unwrap();
    assert_eq!(fake.hub.paths(), [listing]);
    cache.get(&fake, &format!("{REPOSITORY}@{COMMIT}")).unwrap();
    assert!(fake.hub.asked().is_empty());
    cache.get(&fake, &format!("{REPOSITORY}@refs/pr/1")).unwrap();
    assert_eq!(fs::read_to_string(cache.folder().join("refs/refs/pr/1")).unwrap(), COMMIT);
    assert_eq!(fake.store.asked().len(), 1);
    // A blob that was deleted, and one that was truncated.
    fs::remove_file(cache.blob(WEIGHTS)).unwrap();
    fs::write(cache.blob(CONFIG), "{").unwrap();
    cache.get(&fake, REPOSITORY).unwrap();
    assert!(cache.read(WEIGHTS) == bytes_of(WEIGHTS) && cache.read(CONFIG) == bytes_of(CONFIG));
}

#[test]
fn the_token_goes_to_the_hub_alone() {
    let (fake, cache) = (plain(), Cache::new());
    cache.get(&fake, REPOSITORY).unwrap();
    let asked = fake.hub.asked();
    assert!(asked.iter().any(|request| request.path.starts_with("/cached/")));
    assert!(asked.iter().all(|request| request.token.as_deref() == Some("Bearer secret")), "{asked:?}");
    assert_eq!(fake.store.asked().into_iter().map(|request| request.token).collect::<Vec<_>>(), [None]);
}

#[test]
fn a_connection_that_is_cut_goes_on_where_it_ended() {
    let cut = |answer: Answer| Answer { cut: Some(answer.body.len() / 2), ..answer };
    let (fake, cache) = (stored(at_first(2, cut)), Cache::new());
    cache.get(&fake, REPOSITORY).unwrap();
    assert!(cache.read(WEIGHTS) == bytes_of(WEIGHTS));
    let ranges: Vec<_> = fake.store.asked().into_iter().map(|request| request.range).collect();
    assert_eq!(ranges, [None, Some((150_000, 300_000)), Some((225_000, 300_000))]);
    // A partial download of an earlier run.
    let (fake, cache) = (plain(), Cache::new());
    fs::create_dir_all(cache.folder().join("blobs")).unwrap();
    let incomplete = cache.blob(WEIGHTS).with_extension("incomplete");
    fs::write(&incomplete, &bytes_of(WEIGHTS)[..1000]).unwrap();
    cache.get(&fake, REPOSITORY).unwrap();
    assert_eq!(fake.store.asked()[0].range, Some((1000, 300_000)));
    assert!(cache.read(WEIGHTS) == bytes_of(WEIGHTS) && !incomplete.exists());
}

#[test]
fn servers_that_say_no_range_or_know_none_still_give_the_right_bytes() {
    let wholly = |_: &Request, _: Answer| Answer { status: 200, body: bytes_of(WEIGHTS), ..Answer::default() };
    let elsewhere = |_: &Request, answer: Answer| match answer.status {
        206 => Answer { status: 206, body: bytes_of(WEIGHTS), ..Answer::default() }
            .with("Content-Range", "bytes 0-299999/300000"),
        _ => answer,
    };
    for misbehave in [taciturn(), Box::new(move |request: &_, answer| wholly(request, answer)), Box::new(elsewhere)] {
        let (fake, cache) = (stored(misbehave), Cache::new());
        fs::create_dir_all(cache.folder().join("blobs")).unwrap();
        fs::write(cache.blob(WEIGHTS).with_extension("incomplete"), &bytes_of(WEIGHTS)[..1000]).unwrap();
        cache.get(&fake, REPOSITORY).unwrap();
        assert!(cache.read(WEIGHTS) == bytes_of(WEIGHTS));
        assert_eq!(fake.store.asked().len(), 1);
    }
}

#[test]
fn a_server_in_trouble_is_asked_again_when_it_wants_to_be() {
    let busy = |status, after: &'static str| move |_| Answer::status(status).with("Retry-After", after);
    let (fake, cache) = (stored(at_first(3, busy(503, "0"))), Cache::new());
    cache.get(&fake, REPOSITORY).unwrap();
    assert_eq!(fake.store.asked().len(), 4);
    let (fake, cache) = (stored(at_first(99, busy(429, "0"))), Cache::new());
    fails(cache.get(&fake, REPOSITORY), "network", &["429", "6 times in a row", WEIGHTS]);
    assert_eq!(fake.store.asked().len(), 6);
    let (fake, cache) = (stored(at_first(99, busy(504, "3600"))), Cache::new());
    fails(cache.get(&fake, REPOSITORY), "network", &["504", "in 3600 s"]);
    // Retry dates: long ago, and far ahead.
    let (fake, cache) = (stored(at_first(1, busy(503, "Thu, 01 Jan 1970 00:00:00 GMT"))), Cache::new());
    cache.get(&fake, REPOSITORY).unwrap();
    let (fake, cache) = (stored(at_first(99, busy(503, "Tue, 01 Jan 2999 00:00:00 GMT"))), Cache::new());
    fails(cache.get(&fake, REPOSITORY), "network", &["503 and allows a retry only in"]);
    assert_eq!(fake.store.asked().len(), 1);
    // After an expired signature the Hub gives another one.
    let (fake, cache) = (stored(at_first(1, busy(403, "0"))), Cache::new());
    cache.get(&fake, REPOSITORY).unwrap();
    let (fake, cache) = (stored(at_first(99, busy(410, "0"))), Cache::new());
    fails(cache.get(&fake, REPOSITORY), "network", &["410"]);
    assert_eq!(fake.store.asked().len(), 1);
}

#[test]
fn bytes_that_the_hub_does_not_list_are_refused() {
    let flip = |mut answer: Answer| {
        answer.body[1234] ^= 4;
        answer
    };
    let (fake, cache) = (stored(at_first(1, flip)), Cache::new());
    fails(cache.get(&fake, REPOSITORY), "integrity", &[WEIGHTS, "try again"]);
    assert!(!cache.blob(WEIGHTS).exists() && !cache.blob(WEIGHTS).with_extension("incomplete").exists());
    fails(cache.offline(&fake, REPOSITORY), "not-found", &["is not in"]);
    cache.get(&fake, REPOSITORY).unwrap();
    // Small files too.
    let fake = Fake::new(
        &files(&[CONFIG, WEIGHTS]),
        Box::new(|request, mut answer| {
            request.path.starts_with("/cached/").then(|| answer.body[9] ^= 4);
            answer
        }),
        honest(),
    );
    fails(Cache::new().get(&fake, REPOSITORY), "integrity", &[CONFIG]);
    let longer = |answer: Answer| Answer { body: [answer.body, vec![0]].concat(), ..answer };
    fails(Cache::new().get(&stored(at_first(1, longer)), REPOSITORY), "integrity", &["more than the 300000 bytes"]);
    // A partial download of an earlier run may be the cause.
    let (fake, cache) = (plain(), Cache::new());
    fs::create_dir_all(cache.folder().join("blobs")).unwrap();
    for damaged in [vec![0; 1000], vec![0; 300_000], vec![0; 300_001]] {
        fs::write(cache.blob(WEIGHTS).with_extension("incomplete"), damaged).unwrap();
        cache.get(&fake, REPOSITORY).unwrap();
        assert!(cache.read(WEIGHTS) == bytes_of(WEIGHTS));
        fs::remove_file(cache.blob(WEIGHTS)).unwrap();
    }
}

#[test]
fn what_the_hub_does_not_have_or_show_says_what_to_do() {
    let cache = Cache::new();
    let fake = plain();
    fails(
        cache.get(&fake, "owner/tails"),
        "not-found",
        &["owner/tails", "check the name", "HF_TOKEN", "hf auth login"],
    );
    fails(cache.get(&fake, "owner/tales@v9"), "not-found", &["no branch, tag or commit v9"]);
    let gated = |status| {
        Fake::new(
            &files(&[CONFIG, WEIGHTS]),
            Box::new(move |request, answer| {
                if request.path.starts_with("/api/") {
                    answer
                } else {
                    Answer::status(status).with("X-Error-Code", "GatedRepo")
                }
            }),
            honest(),
        )
    };
    fails(
        cache.with(&gated(401), REPOSITORY, None, false),
        "not-found",
        &["gated", "accept its conditions at http", "set HF_TOKEN"],
    );
    fails(cache.get(&gated(403), REPOSITORY), "not-found", &["gated", "the account of HF_TOKEN"]);
    let page: fn() -> Misbehave =
        || Box::new(|_, _| Answer { status: 200, body: b"<!doctype html>".into(), ..Answer::default() });
    fails(cache.get(&Fake::new(&[], page(), honest()), REPOSITORY), "network", &["HF_ENDPOINT"]);
    fails(cache.at("huggingface.co", REPOSITORY, None, false), "bad-option", &["HF_ENDPOINT"]);
    assert_eq!(fs::read_dir(cache.folder().join("blobs")).unwrap().count(), 0, "nothing was written");
}

#[test]
fn a_repository_of_gguf_files_wants_one_of_them() {
    let names = ["q/m-Q8_0-00001-of-00002.gguf", "q/m-Q8_0-00002-of-00002.gguf", "tales-Q4_K_M.gguf"];
    let (fake, cache) = (Fake::new(&files(&[&names[..], &[CONFIG]].concat()), honest(), honest()), Cache::new());
    fails(cache.get(&fake, REPOSITORY), "bad-option", &["owner/name:FILE", names[0], names[2]]);
    assert_eq!(cache.get(&fake, "owner/tales:*Q4_K_M.gguf").unwrap(), names[2]);
    assert_eq!(fake.store.paths().len(), 1);
    fails(cache.offline(&fake, "owner/tales:*Q8_0*"), "bad-option", &["*Q8_0* is not allowed", names[2]]);
    assert_eq!(cache.get(&fake, "owner/tales:*Q8_0*").unwrap(), names[0]);
    assert!(names.iter().all(|name| cache.read(name) == bytes_of(name)));
    assert_eq!(cache.offline(&fake, "owner/tales:*Q4*").unwrap(), names[2]);
    let pickled = Fake::new(&files(&[CONFIG, "pytorch_model.bin"]), honest(), honest());
    fails(cache.get(&pickled, REPOSITORY), "not-found", &["pickled", "safetensors"]);
}

#[test]
fn shards_come_with_their_index() {
    let shards = ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"];
    let index = "model.safetensors.index.json";
    let map = format!(r#"{{"metadata": {{}}, "weight_map": {{"a": "{}", "b": "{}"}}}}"#, shards[0], shards[1]);
    let mut all = files(&[CONFIG, shards[0], shards[1], "model-extra.safetensors"]);
    all.push((index, map.into()));
    let (fake, cache) = (Fake::new(&all, honest(), honest()), Cache::new());
    cache.get(&fake, REPOSITORY).unwrap();
    assert!(shards.iter().all(|name| cache.read(name) == bytes_of(name)));
    assert_eq!(fake.store.asked().len(), 2);
    cache.offline(&fake, REPOSITORY).unwrap();
    fs::remove_file(cache.blob(shards[1])).unwrap();
    fails(cache.offline(&fake, REPOSITORY), "not-found", &[shards[1]]);
    all.retain(|(name, _)| *name != shards[1]);
    fails(
        Cache::new().get(&Fake::new(&all, honest(), honest()), REPOSITORY),
        "not-found",
        &[shards[1], "belongs to it"],
    );
}

#[test]
fn without_the_hub_what_is_kept_is_enough() {
    let (fake, cache) = (plain(), Cache::new());
    fails(cache.offline(&fake, REPOSITORY), "not-found", &["models--owner--tales", "HF_HUB_OFFLINE"]);
    assert!(fake.hub.asked().is_empty());
    cache.get(&fake, REPOSITORY).unwrap();
    fake.hub.asked();
    cache.offline(&fake, REPOSITORY).unwrap();
    assert!(fake.hub.asked().is_empty());
    // No server has this port.
    let away = "http://127.0.0.1:9";
    cache.at(away, REPOSITORY, None, false).unwrap();
    fails(Cache::new().at(away, REPOSITORY, None, false), "network", &["3 times in a row", "check the connection"]);
}

/// On this device every write reports a full disk.
#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_says_so() {
    let (fake, cache) = (plain(), Cache::new());
    fs::create_dir_all(cache.folder().join("blobs")).unwrap();
    std::os::unix::fs::symlink("/dev/full", cache.blob(WEIGHTS).with_extension("incomplete")).unwrap();
    fails(cache.get(&fake, REPOSITORY), "not-found", &["No space left", "free some space", "HF_HOME"]);
}

#[test]
fn a_cache_that_cannot_be_written_says_so() {
    let (fake, cache) = (plain(), Cache::new());
    fs::write(&cache.root, "a file").unwrap();
    fails(cache.get(&fake, REPOSITORY), "not-found", &["HF_HOME"]);
    fs::remove_file(&cache.root).unwrap();
}

/// An [`Error`] has the same code in Rust and in JS.
#[test]
fn the_codes_are_those_of_the_browser() {
    let list = fs::read_to_string(path("www/error.ts")).unwrap();
    for error in [
        Error::Network { url: String::new(), reason: String::new() },
        Error::Integrity { file: String::new(), reason: String::new() },
    ] {
        assert!(list.contains(&format!("\"{}\"", error.code())));
    }
}

#[test]
fn what_is_chosen_of_many_files() {
    let chosen = |file, names: &[&str]| choose("a/b", file, names).map_err(|error| error.to_string());
    let folder =
        ["README.md", "config.json", "model.safetensors", "onnx/model.onnx", "pytorch_model.bin", "tokenizer.json"];
    assert_eq!(chosen(None, &folder).unwrap(), ["config.json", "tokenizer.json", "model.safetensors"]);
    assert_eq!(
        chosen(None, &["config.json", "model.safetensors.index.json"]).unwrap(),
        ["config.json", "model.safetensors.index.json"]
    );
    let rare = ["additional_chat_templates/rag.jinja", "chat_template.json", "model.safetensors"];
    assert_eq!(chosen(None, &rare).unwrap(), [rare[1], rare[0], rare[2]]);
    let quantised = ["config.json", "m-q4.gguf", "m-q8-00001-of-00002.gguf", "m-q8-00002-of-00002.gguf"];
    assert_eq!(chosen(Some("*q4.gguf"), &quantised).unwrap(), [quantised[1]]);
    assert_eq!(chosen(Some("*q8*"), &quantised[..3]).unwrap(), quantised[2..]);
    assert_eq!(chosen(None, &quantised[..2]).unwrap(), [quantised[1]]);
    assert_eq!(chosen(Some("*"), &["model.safetensors", "x.gguf"]).unwrap(), ["x.gguf"]);
    let refused = |file, names: &[&str], says: &[&str]| {
        let error = chosen(file, names).unwrap_err();
        assert!(says.iter().all(|part| error.contains(part)), "{error}");
    };
    refused(None, &quantised, &["file: none is not", "of a/b", ": m-q4.gguf, m-q8-00001-of-00002.gguf"]);
    refused(Some("*q5*"), &quantised, &["file: *q5* is not allowed", ": m-q4.gguf, m-q8-00001-of-00002.gguf"]);
    assert_eq!(chosen(Some("x.gguf"), &[]).unwrap(), ["x.gguf"]);
    refused(Some("*"), &folder, &["without a file"]);
    refused(None, &["pytorch_model.bin"], &["pickled", "safetensors/convert"]);
    refused(None, &["adapter_model.safetensors"], &["neither", "but adapter_model.safetensors"]);
}

#[test]
fn the_environment_says_where_models_are_kept_and_which_token_is_sent() {
    let read = |set: &[(&str, &str)]| {
        Settings::from_variables(|name| set.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned()))
    };
    let folder = TempDir::new().unwrap();
    let home = folder.path();
    fs::write(home.join("token"), "stored\n").unwrap();
    let at = home.to_str().unwrap();
    let plain = read(&[("HF_HOME", at)]);
    assert_eq!((&*plain.endpoint, plain.token.as_deref()), ("https://huggingface.co", Some("stored")));
    assert_eq!((plain.cache, plain.offline), (home.join("hub"), false));
    let given = [("HF_HOME", at), ("HF_TOKEN", " given "), ("HF_HUB_CACHE", "elsewhere"), ("HF_HUB_OFFLINE", "Yes")];
    let given = read(&given);
    assert_eq!((given.token.as_deref(), given.offline), (Some("given"), true));
    assert_eq!(given.cache, PathBuf::from("elsewhere"));
    assert!(!format!("{given:?}").contains("given"));
    let xdg = read(&[("XDG_CACHE_HOME", at), ("HF_HUB_OFFLINE", "0")]);
    assert_eq!((xdg.cache, xdg.token, xdg.offline), (home.join("huggingface").join("hub"), None, false));
    let own = env::home_dir().unwrap();
    let tilde = read(&[("HF_HOME", "~/models"), ("HF_TOKEN_PATH", at)]);
    assert_eq!(tilde.cache, own.join("models").join("hub"));
    for (path, cache) in
        [("~", own.clone()), ("~/a", own.join("a")), ("~other", "~other".into()), ("a/~", "a/~".into())]
    {
        assert_eq!(read(&[("HF_HUB_CACHE", path), ("HF_HOME", at)]).cache, cache, "{path}");
    }
}

#[test]
fn names_are_read_and_written() {
    for (text, parts) in [
        ("owner/name", ("owner/name", None, None)),
        ("owner/name@refs/pr/1", ("owner/name", Some("refs/pr/1"), None)),
        ("owner/name:*Q4_K_M.gguf", ("owner/name", None, Some("*Q4_K_M.gguf"))),
        ("_o-1/n.2@v1:q/a@b.gguf", ("_o-1/n.2", Some("v1"), Some("q/a@b.gguf"))),
    ] {
        let id: HubId = text.parse().unwrap();
        assert_eq!((&*id.repository, id.revision.as_deref(), id.file.as_deref()), parts);
        assert_eq!(id.to_string(), text);
    }
    for text in [
        "", "name", "/a/b", "./a", "../b", "a/b/c", "a/", "/b", "a/b@", "a/b:", "a/b@../c", "a/b:/c", "C:\\a\\b",
        "~/a", "a b/c",
    ] {
        assert!(text.parse::<HubId>().is_err(), "{text}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn without_symbolic_links_a_blob_is_linked_otherwise_or_copied() {
    let folder = TempDir::new().unwrap();
    let blob = folder.path().join("blob");
    fs::write(&blob, "bytes").unwrap();
    // No symbolic link can point to such a name, and no hard link to a file of another file system.
    let elsewhere = Path::new("/proc/version");
    for (blob, link) in [(blob.as_path(), "linked"), (elsewhere, "copied")] {
        let link = folder.path().join(link);
        connect("\0", blob, &link).unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_file());
        assert_eq!(fs::read(&link).unwrap(), fs::read(blob).unwrap());
    }
}

#[test]
fn a_star_stands_for_any_characters() {
    let matches = |pattern: &str, name: &str| {
        let [pattern, name] = [pattern, name].map(|text| format!("{text}.gguf"));
        choose("a/b", Some(&pattern), &[&name]).is_ok_and(|files| files == [name])
    };
    for (pattern, name) in
        [("*", ""), ("*", "a"), ("a*c", "abc"), ("a*c", "ac"), ("*b*", "abc"), ("*b*b", "abbb"), ("a", "a")]
    {
        assert!(matches(pattern, name), "{pattern} {name}");
    }
    for (pattern, name) in [("a", "ab"), ("a*b", "a"), ("ab*b", "ab"), ("*b*b", "ab"), ("*c*b*", "abc"), ("", "a")] {
        assert!(!matches(pattern, name), "{pattern} {name}");
    }
    // The end of the name, too.
    assert!(choose("a/b", Some("a*"), &["abc.gguf"]).is_ok() && choose("a/b", Some("*b*"), &["ac.gguf"]).is_err());
}
