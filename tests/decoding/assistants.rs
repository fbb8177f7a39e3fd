//! Sessions with drafters that were trained for their target.

use super::trained::{Case, DFLASH, DSPARK, GEMMA, MTP};
use common::altered::{configured, overflowing, with_tokenizer, without};
use common::gguf::{ARRAY, BOOL, F32, File, TEXT, U32, array, text, texts};
use common::{gpu, path, run, safetensors, tempfile};
use foretoken::internals::backend::Device;
use foretoken::internals::model::{HiddenStates, parse_config};
use foretoken::internals::session::{Progress, Session};
use foretoken::internals::weights::{Folder, InMemory, Source};
use foretoken::{DrafterChoice, GenerateOptions, LoadOptions, Origin, Prompt, ResponseFormat, Schedule, Stats, UseMtp};
use serde_json::{Value, json};
use std::cell::Cell;
use std::ops::ControlFlow;
use std::path::Path;

const FOLDER: &str = "tests/golden/drafters/qwen35-mtp";

fn cases() -> Vec<Case> {
    MTP.cases()
}

/// Returns a folder of the target with the tokenizer of the tales.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for from in [path(FOLDER), path("models/tales/target")] {
        for name in ["config.json", "model.safetensors", "tokenizer.json"] {
            let (from, to) = (from.join(name), folder.path().join(name));
            if from.is_file() && !to.exists() {
                std::fs::copy(from, to).unwrap();
            }
        }
    }
    folder
}

#[test]
fn a_session_uses_the_layer_unless_it_is_told_not_to() {
    let (folder, gpu) = (folder(), gpu());
    let files = || Folder::open(folder.path()).unwrap();
    let load = |device: Device, options: &LoadOptions| {
        run(Session::load(device, Box::new(files()), None, options, &mut |_, _| ()))
    };
    let drafts = GenerateOptions::new()
        .max_new_tokens(40)
        .drafter(DrafterChoice::DraftModel)
        .num_assistant_tokens_schedule(Schedule::Constant);
    let format = json!({ "type": "regex", "regex": "[a-z ,]*" });
    let formed = drafts.clone().response_format(ResponseFormat(format.as_object().unwrap().clone()));
    let prompt = Prompt::Tokens(cases()[2].prompt.clone());
    for device in [Device::from(&gpu), Device::cpu()] {
        let mut plain = load(device.clone(), &LoadOptions::new().use_mtp(UseMtp::No)).unwrap();
        let mut session = load(device, &LoadOptions::new()).unwrap();
        for options in [&drafts, &formed] {
            let mut origins = Vec::new();
            let mut write = |session: &mut Session| {
                let mut on_token = |progress: Progress<'_>| {
                    if let Progress::Token(token) = progress {
                        origins.push(token.origin);
                    }
                    ControlFlow::Continue(())
                };
                run(session.generate(&prompt, options, &mut on_token)).unwrap()
            };
            let found = write(&mut session);
            let expected = write(&mut plain);
            assert_eq!(found.token_ids, expected.token_ids);
            assert!(found.stats.num_accepted_draft_tokens > 0);
            assert!(origins.contains(&Origin::Mtp), "{origins:?}");
        }
    }
    let tales = Folder::open(path("models/tales/target")).unwrap();
    let must = LoadOptions::new().use_mtp(UseMtp::Yes);
    let missing = run(Session::load(&gpu, Box::new(tales.clone()), None, &must, &mut |_, _| ())).err().unwrap();
    assert!(missing.to_string().contains("has no MTP layer"), "{missing}");
    let both = run(Session::load(&gpu, Box::new(files()), Some(Box::new(tales)), &must, &mut |_, _| ())).err().unwrap();
    assert!(both.to_string().contains("with an assistant model"), "{both}");
}

/// Writes a text with a session that has a drafter, and checks that it is that of the golden.
fn write_with(target: &Path, drafter: InMemory, case: &Case, device: Device) -> (Vec<Origin>, Stats) {
    let options = GenerateOptions::new()
        .max_new_tokens(24)
        .drafter(DrafterChoice::DraftModel)
        .num_assistant_tokens_schedule(Schedule::Constant);
    let target = with_tokenizer(target);
    let mut session =
        run(Session::load(device, Box::new(target), Some(Box::new(drafter)), &LoadOptions::new(), &mut |_, _| ()))
            .unwrap();
    let mut origins = Vec::new();
    let mut on_token = |progress: Progress<'_>| {
        if let Progress::Token(token) = progress {
            origins.push(token.origin);
        }
        ControlFlow::Continue(())
    };
    let found = run(session.generate(&Prompt::Tokens(case.prompt.clone()), &options, &mut on_token)).unwrap();
    let len = found.token_ids.len();
    assert_eq!(found.token_ids, case.text[..len]);
    assert!(len == 24 || len == case.text.len());
    (origins, found.stats)
}

#[test]
fn an_assistant_is_recognised_by_its_files() {
    let drafters = [
        (Some("tales"), "tests/golden/drafters/dflash", DFLASH, Origin::Dflash),
        (Some("tales"), "tests/golden/drafters/dspark", DSPARK, Origin::Dspark),
        (None, "tests/golden/drafters/gemma4-assistant/assistant", GEMMA, Origin::Gemma4Assistant),
    ];
    for (tales, folder, kind, origin) in drafters {
        let target = match tales {
            Some(_) => path("models/tales/target"),
            None => path("tests/golden/drafters/gemma4-assistant/target"),
        };
        let case = &kind.cases()[if tales.is_some() { 3 } else { 0 }];
        for device in [Device::from(&gpu()), Device::cpu()] {
            let files = without(&path(folder), "none");
            let (origins, stats) = write_with(&target, files, case, device);
            assert!(origins.contains(&origin), "{origins:?}");
            assert!(stats.warnings.is_empty(), "{:?}", stats.warnings);
        }
    }
}

/// Loads a target with a trained drafter of this kind, or alone.
fn with_drafter(kind: &str, is_used: bool, device: &Device, max_context: usize) -> Session {
    let gemma = path("tests/golden/drafters/gemma4-assistant");
    let (target, drafter) = match kind {
        "mtp" => (with_tokenizer(&path(FOLDER)), None),
        "assistant" => (with_tokenizer(&gemma.join("target")), Some(gemma.join("assistant"))),
        block => (with_tokenizer(&path("models/tales/target")), Some(path("tests/golden/drafters").join(block))),
    };
    let drafter = drafter.filter(|_| is_used).map(|folder| Box::new(without(&folder, "none")) as Box<dyn Source>);
    let use_mtp = if is_used { UseMtp::Auto } else { UseMtp::No };
    let options = LoadOptions::new().use_mtp(use_mtp).max_context(max_context);
    run(Session::load(device.clone(), Box::new(target), drafter, &options, &mut |_, _| ())).unwrap()
}

/// Greedy and sampled texts, structured output, cached prompts, saved conversations, the end of the context and a lost device.
#[test]
fn no_trained_drafter_changes_a_text_in_any_way() {
    const CONTEXT: usize = 72;
    let gpu = gpu();
    let greedy = GenerateOptions::new()
        .max_new_tokens(10)
        .drafter(DrafterChoice::DraftModel)
        .num_assistant_tokens_schedule(Schedule::Constant);
    let sampled = greedy.clone().do_sample(true).temperature(0.8).seed(7);
    let format = json!({ "type": "regex", "regex": "[\u{4e00}-\u{4ec0}]*" });
    let formed = greedy.clone().response_format(ResponseFormat(format.as_object().unwrap().clone()));
    let longest = greedy.clone().max_new_tokens(CONTEXT);
    for kind in ["mtp", "dflash", "dspark", "assistant"] {
        for device in [Device::cpu(), Device::from(&gpu)] {
            let is_gpu = matches!(device, Device::Gpu(_));
            let begin = |is_used: bool| with_drafter(kind, is_used, &device, CONTEXT);
            let (mut plain, mut session) = (begin(false), begin(true));
            assert!(session.engine().draft_memory().is_some(), "{kind}");
            let accepted = Cell::new(0);
            let write = |session: &mut Session, text: &[u32], options: &GenerateOptions| {
                let found =
                    run(session.generate(&Prompt::Tokens(text.into()), options, &mut |_| ControlFlow::Continue(())));
                let found = found.unwrap();
                accepted.set(accepted.get() + found.stats.num_accepted_draft_tokens);
                found.token_ids
            };
            let prompt: Vec<u32> = (20..40).collect();
            // A software GPU takes long.
            let ways = if is_gpu { vec![&formed] } else { vec![&greedy, &sampled, &formed, &longest] };
            for options in ways {
                let first = write(&mut plain, &prompt, options);
                assert_eq!(write(&mut session, &prompt, options), first, "{kind}");
                let more = [&prompt[..], &first[..first.len().min(8)]].concat();
                assert_eq!(write(&mut session, &more, options), write(&mut plain, &more, options), "{kind}, cached");
            }
            if is_gpu {
                let device = session.engine().gpu().unwrap().clone();
                let expected = write(&mut plain, &prompt, &greedy);
                let mut seen = 0;
                let mut lose = |progress: Progress<'_>| {
                    seen += usize::from(matches!(progress, Progress::Token(_)));
                    if seen == 3 {
                        device.destroy();
                    }
                    ControlFlow::Continue(())
                };
                let found = run(session.generate(&Prompt::Tokens(prompt.clone()), &greedy, &mut lose)).unwrap();
                assert_eq!(found.token_ids, expected, "{kind}, after a loss");
                assert_eq!(found.stats.warnings.len(), 1, "{kind}: {:?}", found.stats.warnings);
                continue;
            }
            assert!(accepted.get() > 0, "{kind}");
            let mut layers = Vec::new();
            let mut keep = async |_, bytes: Vec<u8>| {
                layers.push(bytes);
                Ok(())
            };
            let saved = run(session.save(&Prompt::Tokens(prompt.clone()), &greedy, &mut keep)).unwrap();
            let mut other = begin(true);
            assert!(run(other.restore(&saved, &mut async |layer: usize| Ok(layers[layer].clone()))).unwrap(), "{kind}");
            let more = [&saved[..], &[50, 51]].concat();
            assert_eq!(write(&mut other, &more, &greedy), write(&mut plain, &more, &greedy), "{kind}, restored");
        }
    }
}

/// A drafter that is broken, incomplete or of another target costs a warning, never the text.
#[test]
fn a_broken_assistant_costs_a_warning_and_never_the_text() {
    let (tales, gemma) = (path("models/tales/target"), path("tests/golden/drafters/gemma4-assistant/target"));
    let (dspark, assistant) =
        (path("tests/golden/drafters/dspark"), path("tests/golden/drafters/gemma4-assistant/assistant"));
    let (of_tales, of_gemma) = (&DSPARK.cases()[3], &GEMMA.cases()[0]);
    let layers = json!({ "mask_token_id": 1, "target_layer_ids": [1, 9] });
    let mask = json!({ "mask_token_id": 5000, "target_layer_ids": [1, 4, 6] });
    let cases = [
        (&tales, overflowing(&dspark, "layers.1.mlp.down_proj.weight"), of_tales, "without the draft model"),
        (&tales, without(&dspark, "markov_head.markov_w2.weight"), of_tales, "markov_head.markov_w2.weight"),
        (&tales, without(&dspark, "hidden_norm.weight"), of_tales, "hidden_norm.weight"),
        (&tales, configured(&dspark, "config.json", "dflash_config", &layers), of_tales, "no layer 9"),
        (&tales, configured(&dspark, "config.json", "dflash_config", &mask), of_tales, "mask_token_id"),
        (&tales, configured(&dspark, "config.json", "block_size", &json!(1)), of_tales, "block_size"),
        (&gemma, without(&dspark, "none"), of_gemma, "hidden_size"),
        (&gemma, overflowing(&assistant, "model.layers.1.mlp.down_proj.weight"), of_gemma, "without the draft model"),
        (&gemma, without(&assistant, "post_projection.weight"), of_gemma, "post_projection.weight"),
        (&tales, without(&assistant, "none"), of_tales, "backbone_hidden_size"),
    ];
    let gpu = gpu();
    for (index, (target, drafter, case, warning)) in cases.into_iter().enumerate() {
        let device = if index == 0 || index == 7 { Device::from(&gpu) } else { Device::cpu() };
        let (_, stats) = write_with(target, drafter, case, device);
        assert!(stats.warnings.iter().any(|found| found.contains(warning)), "{warning}: {:?}", stats.warnings);
    }
    let alone = run(Session::load(
        Device::cpu(),
        Box::new(without(&dspark, "none")),
        None,
        &LoadOptions::new(),
        &mut |_, _| (),
    ));
    let error = alone.err().unwrap().to_string();
    assert!(error.contains("as assistant_model"), "{error}");
}

#[test]
fn configs_of_block_drafters_are_read() {
    let file = std::fs::read(path("tests/golden/drafters/dflash/config.json")).unwrap();
    let with = |changes: Value| {
        let mut config: Value = serde_json::from_slice(&file).unwrap();
        let changes = changes.as_object().unwrap().clone();
        config.as_object_mut().unwrap().extend(changes);
        parse_config(config.to_string().as_bytes(), None)
    };
    let types = json!(["sliding_attention", "full_attention"]);
    let spec = with(json!({ "layer_types": types, "sliding_window": 256, "rope_is_neox_style": false })).unwrap();
    let windows: Vec<_> = spec.attentions().map(|attention| attention.window).collect();
    assert_eq!(windows, [Some(256), None]);
    assert!(spec.interleaved_rotation);
    let own = |is_causal: bool, layers: Value| json!({ "mask_token_id": 1, "target_layer_ids": layers, "is_causal": is_causal });
    let spec = with(json!({ "dflash_config": own(true, json!([0, 3])) })).unwrap();
    assert_eq!(spec.hidden_states, HiddenStates::Context { after: vec![0, 3] });
    let at_once = spec.at_once.unwrap();
    assert_eq!((at_once.most, at_once.rows(2)), (7, 3));
    for (key, changes) in [
        ("target_layer_ids", json!({ "dflash_config": own(false, json!([])) })),
        ("target_layer_ids", json!({ "dflash_config": own(false, json!([1, "two"])) })),
        ("block_size", json!({ "block_size": 33 })),
        ("mask_token_id", json!({ "dflash_config": { "mask_token_id": 4096, "target_layer_ids": [1] } })),
        ("markov_rank", json!({ "dspark_config": { "markov_rank": 0 } })),
    ] {
        let error = with(changes).unwrap_err().to_string();
        assert!(error.contains(key), "{error}");
    }
}

/// A DSpark model whose first row guesses the token after next drafts one token less, and the text is the same.
#[test]
fn a_block_may_skip_its_first_row() {
    let folder = path("tests/golden/drafters/dspark");
    let config: Value = serde_json::from_slice(&std::fs::read(folder.join("config.json")).unwrap()).unwrap();
    let mut sequel = config["dspark_config"].clone();
    sequel["sample_from_anchor"] = false.into();
    for device in [Device::from(&gpu()), Device::cpu()] {
        let files = configured(&folder, "config.json", "dspark_config", &sequel);
        let (_, stats) = write_with(&path("models/tales/target"), files, &DSPARK.cases()[3], device);
        assert!(stats.warnings.is_empty(), "{:?}", stats.warnings);
        assert!(stats.num_draft_tokens > 0);
    }
}

/// Returns a file of a folder's tensors (bf16) under the names of llama.cpp.
fn gguf(folder: &Path, words: &[(&str, &str)], mut file: File) -> InMemory {
    let stored = std::fs::read(folder.join("model.safetensors")).unwrap();
    for (name, tensor) in safetensors::SafeTensors::deserialize(&stored).unwrap().tensors() {
        let name = words.iter().fold(name, |name, (from, to)| name.replace(from, to));
        let renamed = if name == "norm.weight" { "output_norm.weight".into() } else { name };
        let dims: Vec<u64> = tensor.shape().iter().rev().map(|dim| *dim as u64).collect();
        // bf16, in llama.cpp's numbers of types.
        file = file.tensor(&renamed, &dims, 30, tensor.data());
    }
    InMemory::new("drafter", [("drafter.gguf", file.bytes().into())])
}

/// Returns a file of an architecture with these numbers and a vocabulary of 4,096 tokens, without tensors.
fn gguf_keys(architecture: &str, numbers: &[(&str, u32)]) -> File {
    let tokens: Vec<String> = (0..4096).map(|id| format!("token {id}")).collect();
    let file = File::default()
        .key("general.architecture", TEXT, text(architecture))
        .key("tokenizer.ggml.tokens", ARRAY, texts(&tokens.iter().map(String::as_str).collect::<Vec<_>>()))
        .key(&format!("{architecture}.attention.layer_norm_rms_epsilon"), F32, 1e-6f32.to_le_bytes());
    numbers.iter().fold(file, |file, (key, value)| file.key(&format!("{architecture}.{key}"), U32, value.to_le_bytes()))
}

/// Compares the drafts of a file with those of the folder that it was made of.
fn assert_drafts_are_equal(target: &Path, file: InMemory, folder: &Path, case: &Case) {
    let (origins, stats) = write_with(target, file, case, Device::cpu());
    assert!(stats.warnings.is_empty(), "{:?}", stats.warnings);
    let (same, expected) = write_with(target, without(folder, "none"), case, Device::cpu());
    assert_eq!(origins, same);
    assert!(expected.num_accepted_draft_tokens > 0);
    assert_eq!(stats.num_accepted_draft_tokens, expected.num_accepted_draft_tokens);
}

const GGUF_WORDS: [(&str, &str); 6] = [
    ("model.", ""),
    ("layers.", "blk."),
    ("self_attn.o_proj", "attn_output"),
    ("self_attn.", "attn_"),
    ("mlp.", "ffn_"),
    ("input_layernorm", "attn_norm"),
];

/// A file of llama.cpp's names has the same drafts.
#[test]
fn a_gguf_file_of_a_block_drafter_drafts_the_same() {
    let number = |n: u32| n.to_le_bytes().to_vec();
    let keys = gguf_keys(
        "dflash",
        &[
            ("block_size", 7),
            ("context_length", 1024),
            ("block_count", 2),
            ("embedding_length", 256),
            ("feed_forward_length", 512),
            ("attention.head_count", 8),
            ("attention.head_count_kv", 4),
            ("attention.key_length", 32),
            ("attention.value_length", 32),
        ],
    )
    .key("dflash.target_layers", ARRAY, array(U32, &[number(2), number(5), number(7)]))
    .key("dflash.attention.causal", BOOL, [0])
    .key("tokenizer.ggml.mask_token_id", U32, number(1));
    let own = [
        ("hidden_norm", "enc.output_norm"),
        ("post_attention_layernorm", "ffn_norm"),
        ("_proj.w", ".w"),
        ("confidence_head.proj", "conf_proj"),
        ("markov_head.", ""),
    ];
    let folder = path("tests/golden/drafters/dspark");
    let file = gguf(&folder, &[&GGUF_WORDS[..], &own].concat(), keys);
    assert_drafts_are_equal(&path("models/tales/target"), file, &folder, &DSPARK.cases()[3]);
}

#[test]
fn a_gguf_file_of_a_gemma_4_assistant_drafts_the_same() {
    let keys = gguf_keys(
        "gemma4-assistant",
        &[
            ("context_length", 512),
            ("block_count", 2),
            ("nextn_predict_layers", 2),
            ("embedding_length", 32),
            ("embedding_length_out", 64),
            ("embedding_length_per_layer_input", 0),
            ("feed_forward_length", 64),
            ("attention.head_count", 4),
            ("attention.head_count_kv", 1),
            ("attention.key_length", 32),
            ("attention.value_length", 32),
            ("attention.key_length_swa", 16),
            ("attention.value_length_swa", 16),
            ("attention.sliding_window", 24),
            ("attention.shared_kv_layers", 2),
            ("rope.dimension_count", 32),
            ("rope.dimension_count_swa", 16),
        ],
    )
    .key("gemma4-assistant.rope.freq_base", F32, 1e6f32.to_le_bytes())
    .key("gemma4-assistant.rope.freq_base_swa", F32, 1e4f32.to_le_bytes())
    .key("gemma4-assistant.attention.sliding_window_pattern", ARRAY, array(BOOL, &[vec![1], vec![0]]));
    // A quarter of the 16 pairs of a full layer rotates.
    let factors: Vec<u8> = (0..16).flat_map(|pair| if pair < 4 { 1f32 } else { 1e30 }.to_le_bytes()).collect();
    let own = [
        ("embed_tokens", "token_embd"),
        ("post_attention_layernorm", "post_attention_norm"),
        ("pre_feedforward_layernorm", "ffn_norm"),
        ("post_feedforward_layernorm", "post_ffw_norm"),
        ("layer_scalar", "layer_output_scale.weight"),
        ("pre_projection", "nextn.pre_projection"),
        ("post_projection", "nextn.post_projection"),
        ("_proj.w", ".w"),
    ];
    let file = keys.tensor("rope_freqs.weight", &[16], 0, &factors);
    let golden = path("tests/golden/drafters/gemma4-assistant");
    let (target, folder) = (golden.join("target"), golden.join("assistant"));
    let file = gguf(&folder, &[&GGUF_WORDS[..], &own].concat(), file);
    assert_drafts_are_equal(&target, file, &folder, &GEMMA.cases()[1]);
}

/// A layer whose guesses are no numbers, or that is incomplete, costs its drafts and a warning, never the text.
#[test]
fn a_broken_layer_costs_a_warning_and_never_the_text() {
    let folder = folder();
    let options = GenerateOptions::new()
        .max_new_tokens(30)
        .drafter(DrafterChoice::DraftModel)
        .num_assistant_tokens_schedule(Schedule::Constant);
    let prompt = Prompt::Tokens(cases()[2].prompt.clone());
    let overflowing = overflowing(folder.path(), "mtp.layers.0.mlp.down_proj.weight");
    let incomplete = without(folder.path(), "mtp.norm.weight");
    for (source, warning) in [(overflowing, "without the draft model"), (incomplete, "the MTP layer is not used")] {
        for device in [Device::from(&gpu()), Device::cpu()] {
            let load = LoadOptions::new();
            let mut session =
                run(Session::load(device, Box::new(source.clone()), None, &load, &mut |_, _| ())).unwrap();
            let found = run(session.generate(&prompt, &options, &mut |_| ControlFlow::Continue(()))).unwrap();
            assert_eq!(found.token_ids, cases()[2].text[..30]);
            let warnings = &found.stats.warnings;
            assert!(warnings.iter().any(|found| found.contains(warning)), "{warnings:?}");
        }
    }
}
