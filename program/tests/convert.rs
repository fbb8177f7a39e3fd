//! `foretoken quantize FOLDER FILE.gguf`: for every architecture the file computes what transformers computes from the folder, and the
//! tokenizer is the same. Models that GGUF cannot express are refused.

use crate::command;
use common::experts::{mxfp4, stacked};
use common::reference::Model;
use common::tempfile::TempDir;
use common::tokenizers::{Random, byte_fallback, file};
use common::{Golden, goldens, path, run};
use foretoken::internals::checkpoint;
use foretoken::internals::text::{ChatInput, Tokenizer};
use foretoken::internals::weights::{Dtype, Folder};
use foretoken::{KvDtype, Message};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// A temporary model folder.
struct Scratch(TempDir);

impl Scratch {
    fn new(folder: &Path, files: &[(&str, Vec<u8>)]) -> Self {
        let scratch = TempDir::new().unwrap();
        for entry in std::fs::read_dir(folder).unwrap() {
            let from = entry.unwrap().path();
            std::fs::copy(&from, scratch.path().join(from.file_name().unwrap())).unwrap();
        }
        for (name, bytes) in files {
            let path = scratch.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, bytes).unwrap();
        }
        Self(scratch)
    }

    fn folder(&self) -> &Path {
        self.0.path()
    }

    fn file(&self) -> PathBuf {
        self.folder().join("made.gguf")
    }

    /// Runs the conversion and returns its error.
    fn convert(&self, dtype: &str) -> Result<(), Value> {
        let file = self.file();
        let ran =
            command(&["quantize"]).arg(self.folder()).arg(&file).args(["--type", dtype, "--json"]).output().unwrap();
        match ran.status.success() {
            true => Ok(()),
            false => {
                assert!(!file.exists(), "what is wrong does not stay");
                Err(serde_json::from_slice::<Value>(&ran.stdout).unwrap()["error"].take())
            }
        }
    }
}

/// Returns a byte-level tokenizer of a few tokens, with the given pre-tokenizer. Token 1 begins a text, token 2 ends it.
fn tokenizer(pre_tokenizer: &Value) -> Vec<u8> {
    let added = ["<unk>", "<s>", "</s>"].iter().enumerate();
    let added: Vec<_> = added.map(|(id, token)| common::tokenizers::added(id, token, true)).collect();
    let bytes = json!({ "type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true });
    json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": added, "normalizer": null,
        "pre_tokenizer": pre_tokenizer, "post_processor": null, "decoder": bytes,
        "model": { "type": "BPE", "vocab": { "<unk>": 0, "<s>": 1, "</s>": 2, "3": 3, "33": 4, "a": 5, "Ġ": 6, "Ġa": 7 },
            "merges": [["3", "3"], ["Ġ", "a"]] },
    })
    .to_string()
    .into_bytes()
}

fn gpt2() -> Value {
    json!({ "type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true })
}

/// The CPU reference does not depend on the loader's order of rows.
#[test]
fn a_file_of_every_architecture_computes_what_transformers_does() {
    let mut refused = Vec::new();
    for folder in goldens() {
        let name = folder.file_name().unwrap().to_str().unwrap();
        let scratch = Scratch::new(&folder, &[("tokenizer.json", tokenizer(&gpt2()))]);
        if let Err(error) = scratch.convert("F32") {
            assert_eq!(error["code"], "bad-config", "{error}");
            refused.push((name.to_owned(), error["detail"]["key"].as_str().unwrap().to_owned()));
            continue;
        }
        let golden = Golden::read(&folder);
        let checkpoint = run(checkpoint::open(Box::new(Folder::open(scratch.file()).unwrap()), None)).unwrap();
        let model = run(Model::load(checkpoint.spec().clone(), checkpoint.weights())).unwrap();
        let text = [&golden.prompt_ids[..], &golden.greedy_ids[..golden.greedy_ids.len() - 1]].concat();
        let logits = model.logits(&text, KvDtype::F32);
        let vocab = checkpoint.spec().vocab_size;
        let greedy = &logits[(golden.prompt_ids.len() - 1) * vocab..];
        let best = |row: &[f32]| (0..row.len() as u32).max_by(|a, b| row[*a as usize].total_cmp(&row[*b as usize]));
        let ids: Vec<u32> = greedy.chunks_exact(vocab).filter_map(best).collect();
        assert_eq!(ids, golden.greedy_ids, "{name}");
        let largest = golden.prompt_logits.iter().fold(1f32, |most, x| most.max(x.abs()));
        let worst = logits.iter().zip(&golden.prompt_logits).fold(0f32, |worst, (a, b)| worst.max((a - b).abs()));
        println!("{name}: {:.1e}", worst / largest);
        assert!(worst / largest < 2e-4, "{name}: {worst}");
    }
    // A scale and a window that GGUF cannot express for these architectures, architectures that llama.cpp does not know, and unrotated
    // layers other than every fourth.
    let known = [
        ("gemma2", "attention_scale"),
        ("lfm3", "model_type"),
        ("mistral-window", "layers"),
        ("nanochat", "model_type"),
        ("smollm3-nope", "layers"),
    ];
    assert_eq!(refused, known.map(|(name, key)| (name.to_owned(), key.to_owned())));
}

/// Every layout of experts in the folder gives one file.
#[test]
fn experts_of_every_layout_are_converted_alike() {
    let [gpt_oss, qwen] = ["gpt-oss", "qwen3_5-moe"].map(|name| path("tests/golden/models").join(name));
    let single = std::fs::read(qwen.join("model.safetensors")).unwrap();
    for (folder, layouts) in [(&gpt_oss, mxfp4(&gpt_oss)), (&qwen, [stacked(&qwen), single])] {
        let [first, second] = layouts.map(|weights| {
            let files = [("tokenizer.json", tokenizer(&gpt2())), ("model.safetensors", weights)];
            let scratch = Scratch::new(folder, &files);
            scratch.convert("F32").unwrap();
            let opened = run(checkpoint::open(Box::new(Folder::open(scratch.file()).unwrap()), None)).unwrap();
            let weights = opened.weights();
            weights.iter().map(|(name, _)| (name.to_owned(), run(weights.read_f32(name)).unwrap())).collect::<Vec<_>>()
        });
        assert!(first.iter().any(|(name, _)| name.contains("_exps")));
        assert!(first == second, "{folder:?}");
    }
    let [published, _] = mxfp4(&gpt_oss);
    let scratch = Scratch::new(&gpt_oss, &[("model.safetensors", published)]);
    let output = scratch.folder().join("made");
    let ran = command(&["quantize"]).arg(scratch.folder()).arg(&output).args(["--type", "mlx4", "--json"]).output();
    let error = serde_json::from_slice::<Value>(&ran.unwrap().stdout).unwrap()["error"].take();
    assert_eq!((error["code"].as_str(), error["detail"]["option"].as_str()), (Some("bad-option"), Some("output")));
}

/// The layer of the file drafts what that of the folder drafts.
#[test]
fn an_mtp_layer_is_part_of_the_file() {
    let tokenizer = std::fs::read(path("models/tales/target/tokenizer.json")).unwrap();
    let scratch = Scratch::new(&path("tests/golden/drafters/qwen35-mtp"), &[("tokenizer.json", tokenizer)]);
    scratch.convert("F32").unwrap();
    let write = |model: &Path| {
        let options = ["--device", "cpu", "--kv-dtype", "f32", "--drafter", "draft_model", "--use-mtp=true", "--json"];
        let constant = ["--num-assistant-tokens-schedule", "constant", "--max-new-tokens", "60"];
        let mut command = command(&["generate", "Once upon a time there was a king"]);
        let ran = command.arg("--model").arg(model).args(options).args(constant).output().unwrap();
        let answer: Value = serde_json::from_slice(&ran.stdout).unwrap();
        [answer["token_ids"].clone(), answer["stats"]["per_step_accepted"].clone()]
    };
    let [ids, accepted] = write(scratch.folder());
    assert!(accepted.as_array().unwrap().iter().any(|count| count.as_u64() > Some(0)), "{accepted}");
    assert_eq!(write(&scratch.file()), [ids, accepted]);
}

#[test]
fn tensors_that_the_config_does_not_imply_are_refused() {
    let folder = path("tests/golden/models/llama-gqa-tied");
    let config: Value = serde_json::from_slice(&std::fs::read(folder.join("config.json")).unwrap()).unwrap();
    for (key, value) in [("intermediate_size", 161), ("num_hidden_layers", 4), ("vocab_size", 511)] {
        let mut config = config.clone();
        config[key] = value.into();
        let files = [("tokenizer.json", tokenizer(&gpt2())), ("config.json", config.to_string().into_bytes())];
        let error = Scratch::new(&folder, &files).convert("F16").unwrap_err();
        assert_eq!(error["code"], "bad-weights", "{error}");
    }
}

#[test]
fn matrices_have_the_type_that_was_asked_for() {
    let scratch = Scratch::new(&path("models/tales/draft"), &[]);
    for dtype in [Dtype::F16, Dtype::Bf16, Dtype::Q4_0, Dtype::Q4_1, Dtype::Q5_0, Dtype::Q5_1, Dtype::Q8_0] {
        scratch.convert(dtype.name()).unwrap();
        let checkpoint = run(checkpoint::open(Box::new(Folder::open(scratch.file()).unwrap()), None)).unwrap();
        for (name, tensor) in checkpoint.weights().iter() {
            let wanted = if tensor.shape.len() == 2 { dtype } else { Dtype::F32 };
            assert_eq!(tensor.dtype, wanted, "{name}");
        }
        std::fs::remove_file(scratch.file()).unwrap();
    }
    let error = scratch.convert("mlx4").unwrap_err();
    assert_eq!((&error["code"], &error["detail"]["option"]), (&"bad-option".into(), &"type".into()));
}

#[test]
fn tokenizer_and_template_are_the_same() {
    let mut random = Random(3);
    let llama = path("tests/golden/models/llama-gqa-tied");
    let sentence_piece = byte_fallback().to_string().into_bytes();
    let digits =
        json!({ "type": "Sequence", "pretokenizers": [{ "type": "Digits", "individual_digits": true }, gpt2()] });
    let cases = [
        ("tales", path("models/tales/draft"), file("models/tales/draft/tokenizer.json"), "gpt-2"),
        ("digits", llama.clone(), tokenizer(&digits), "smollm"),
        ("pieces", llama, sentence_piece, "default"),
    ];
    for (name, folder, bytes, pre) in cases {
        let scratch = Scratch::new(&folder, &[("tokenizer.json", bytes.clone())]);
        scratch.convert("F16").unwrap();
        let source = Folder::open(scratch.file()).unwrap();
        let (_, metadata) =
            run(foretoken::internals::weights::Weights::open_gguf(Box::new(source), "made.gguf")).unwrap();
        assert_eq!(metadata.get("tokenizer.ggml.pre").unwrap(), pre);
        let checkpoint = run(checkpoint::open(Box::new(Folder::open(scratch.file()).unwrap()), None)).unwrap();
        let own = run(checkpoint::open(Box::new(Folder::open(&folder).unwrap()), None)).unwrap();
        let (made, given) = (run(checkpoint.tokenizer()).unwrap(), Tokenizer::from_json("given", &bytes).unwrap());
        for _ in 0..2000 {
            let text = random.text();
            assert_eq!(made.encode(&text, true).unwrap(), given.encode(&text, true).unwrap(), "{name}: {text:?}");
        }
        for id in 0..given.vocab_size() as u32 {
            assert_eq!(
                (made.id_to_token(id), made.is_special(id)),
                (given.id_to_token(id), given.is_special(id)),
                "{name}"
            );
        }
        let [ours, theirs] = [&checkpoint, &own].map(|checkpoint| run(checkpoint.template()).unwrap().is_some());
        assert_eq!(ours, theirs, "{name}");
    }
}

/// Folders as transformers writes them now and wrote them before. The older file of processors has a single template.
#[test]
fn chat_templates_keep_their_names() {
    let folder = path("models/tales/draft");
    let mut config: Value = serde_json::from_slice(&file("models/tales/draft/tokenizer_config.json")).unwrap();
    let template =
        |name: &str| format!("{name}{{{{ messages[0].content }}}}{{% if tools or documents %}}!{{% endif %}}");
    let pair = |name: &str| json!({ "name": name, "template": template(name) });
    config["chat_template"] = json!([pair("default"), pair("tool_use"), pair("rag")]);
    let list = config.to_string().into_bytes();
    config.as_object_mut().unwrap().remove("chat_template");
    let none = config.to_string().into_bytes();
    let old = json!({ "chat_template": template("default") }).to_string().into_bytes();
    let jinja = |name: &str| (format!("additional_chat_templates/{name}.jinja"), template(name).into_bytes());
    let [tools, rag] = [jinja("tool_use"), jinja("rag")];
    let default = ("chat_template.jinja", template("default").into_bytes());
    let all = ["default", "tool_use", "rag"];
    for (name, files, wanted) in [
        ("list", vec![("tokenizer_config.json", list)], all),
        ("files", vec![("tokenizer_config.json", none.clone()), default, (&tools.0, tools.1), (&rag.0, rag.1)], all),
        ("old", vec![("tokenizer_config.json", none), ("chat_template.json", old)], ["default"; 3]),
    ] {
        let scratch = Scratch::new(&folder, &files);
        let own = run(checkpoint::open(Box::new(Folder::open(scratch.folder()).unwrap()), None)).unwrap();
        scratch.convert("F16").unwrap();
        let made = run(checkpoint::open(Box::new(Folder::open(scratch.file()).unwrap()), None)).unwrap();
        for checkpoint in [own, made] {
            let template = run(checkpoint.template()).unwrap().unwrap();
            let messages = [Message::new("user", "hi")];
            let entries = [json!({ "title": "a" }).as_object().unwrap().clone()];
            let chats = [(&[][..], &[][..]), (&entries, &[]), (&[], &entries)];
            let rendered = chats.map(|(tools, documents)| {
                template.render(&ChatInput { tools, documents, ..ChatInput::new(&messages) }).unwrap()
            });
            assert_eq!(rendered, [0, 1, 2].map(|at| format!("{}hi{}", wanted[at], ["", "!", "!"][at])), "{name}");
        }
    }
}

#[test]
fn an_older_template_file_without_a_template_is_refused() {
    let folder = path("models/tales/draft");
    let mut config: Value = serde_json::from_slice(&file("models/tales/draft/tokenizer_config.json")).unwrap();
    config.as_object_mut().unwrap().remove("chat_template");
    for (old, reason) in [
        ("{", "EOF while parsing an object at line 1 column 1"),
        ("{\"chat_template\": 1}", "it has no text chat_template"),
    ] {
        let files = [("tokenizer_config.json", config.to_string().into_bytes()), ("chat_template.json", old.into())];
        let scratch = Scratch::new(&folder, &files);
        let opened = run(checkpoint::open(Box::new(Folder::open(scratch.folder()).unwrap()), None)).unwrap();
        let refused = run(opened.template()).unwrap_err().to_string();
        assert_eq!(refused, format!("chat template: chat_template.json: {reason}"));
    }
}

#[test]
fn a_tokenizer_that_llama_cpp_does_not_know_is_refused() {
    let llama = path("tests/golden/models/llama-gqa-tied");
    let split =
        json!({ "type": "Split", "pattern": { "Regex": "[a-c]+|[^a-c]" }, "behavior": "Isolated", "invert": false });
    let bytes = json!({ "type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false });
    let unknown = tokenizer(&json!({ "type": "Sequence", "pretokenizers": [split, bytes] }));
    let unigram = common::tokenizers::metaspace().to_string().into_bytes();
    for (bytes, word) in [(unknown, "tokenizer.ggml.pre"), (unigram, "BPE")] {
        let error = Scratch::new(&llama, &[("tokenizer.json", bytes)]).convert("F16").unwrap_err();
        assert_eq!(error["code"], "bad-tokenizer", "{error}");
        assert!(error["message"].as_str().unwrap().contains(word), "{error}");
    }
    let error = Scratch::new(&llama, &[]).convert("F16").unwrap_err();
    assert_eq!(error["code"], "not-found", "{error}");
}
