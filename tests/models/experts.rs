//! Experts as published checkpoints store them: in one tensor, or as codes and exponents of MXFP4.

use common::experts::{mxfp4, stacked};
use common::{Golden, capacity, difference, engine_of, gpu, path, run};
use foretoken::internals::backend::Backend;
use foretoken::internals::backend::cpu::{CpuBackend, CpuModel, Processor};
use foretoken::internals::checkpoint;
use foretoken::internals::model::{Blueprint, parse_config};
use foretoken::internals::weights::{InMemory, Weights};
use foretoken::{Error, WeightDtype, WeightsRule as Rule};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::rc::Rc;

fn folder(name: &str) -> PathBuf {
    path("tests/golden/models").join(name)
}

fn config(folder: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(folder.join("config.json")).unwrap()).unwrap()
}

fn open(config: &Value, weights: Vec<u8>) -> foretoken::Result<(Blueprint, Weights)> {
    let files = [("config.json", config.to_string().into_bytes().into()), ("model.safetensors", weights.into())];
    run(async {
        let opened = checkpoint::open(Box::new(InMemory::new("m", files)), None).await?;
        let blueprint = Blueprint::new(opened.spec().clone(), opened.weights(), capacity(), WeightDtype::Auto)?;
        Ok((blueprint, opened.into_weights()))
    })
}

/// Returns the logits of a golden's prompt on the GPU and on the CPU.
fn logits(folder: &Path, config: &Value, weights: &[u8]) -> [Vec<f32>; 2] {
    let tokens = Golden::read(folder).prompt_ids;
    let mut on_gpu = engine_of(&gpu(), open(config, weights.to_vec()).unwrap(), None);
    let (blueprint, weights) = open(config, weights.to_vec()).unwrap();
    let model = run(CpuModel::load(&Rc::new(Processor::new(None)), &blueprint, &weights, None, &mut |_| ()));
    let mut on_cpu = CpuBackend::new(model.unwrap(), None);
    [run(on_gpu.logits(&tokens, 7)).unwrap(), run(on_cpu.logits(&tokens, 7)).unwrap()]
}

#[test]
fn stacked_experts_are_those_of_single_tensors() {
    for name in ["qwen3_5-moe", "qwen3-moe", "olmoe", "lfm2-moe"] {
        let folder = folder(name);
        let config = config(&folder);
        let single = std::fs::read(folder.join("model.safetensors")).unwrap();
        let [want, got] = [&single, &stacked(&folder)].map(|weights| logits(&folder, &config, weights));
        assert_eq!(got, want, "{name}");
    }
}

/// The published gpt-oss is stored like this.
#[test]
fn mxfp4_in_two_tensors_is_what_its_floats_are() {
    let folder = folder("gpt-oss");
    let mut config = config(&folder);
    let [published, floats] = mxfp4(&folder);
    let want = logits(&folder, &config, &floats);
    config["quantization_config"] = json!({ "quant_method": "mxfp4", "modules_to_not_convert": ["lm_head"] });
    for (got, want) in logits(&folder, &config, &published).iter().zip(&want) {
        let worst = difference(got, want);
        println!("{worst:.1e}");
        assert!(worst < 1e-5, "{worst:e}");
    }
}

#[test]
fn mxfp4_without_fitting_exponents_is_refused() {
    let folder = folder("gpt-oss");
    let [published, _] = mxfp4(&folder);
    let refused = |old: &str, new: &str| {
        let text = with_header(&published, old, new);
        match open(&config(&folder), text) {
            Err(Error::BadWeights { rule, .. }) => rule,
            other => panic!("{:?}", other.err()),
        }
    };
    let tensor = "model.layers.0.mlp.experts.down_proj_scales".to_owned();
    let missing = refused("0.mlp.experts.down_proj_scales", "0.mlp.experts.down_proj_scalez");
    assert_eq!(missing, Rule::MissingTensor { tensor: tensor.clone() });
    let (found, expected) = (vec![4, 2, 64], vec![4, 64, 2]);
    let shape = refused(r#"[4,64,2]"#, r#"[4,2,64]"#);
    assert_eq!(shape, Rule::WrongShape { tensor, found, expected });
}

/// Replaces text in the header of a safetensors file by text of the same length.
fn with_header(file: &[u8], old: &str, new: &str) -> Vec<u8> {
    assert_eq!(old.len(), new.len());
    let mut file = file.to_vec();
    let places: Vec<usize> =
        file.windows(old.len()).enumerate().filter(|(_, part)| *part == old.as_bytes()).map(|(at, _)| at).collect();
    assert!(!places.is_empty(), "{old}");
    places.into_iter().for_each(|at| file[at..at + new.len()].copy_from_slice(new.as_bytes()));
    file
}

/// `config.json` of openai/gpt-oss-20b.
#[test]
fn the_published_config_of_gpt_oss_is_read() {
    let layers: Vec<_> = (0..24).map(|layer| ["sliding_attention", "full_attention"][layer % 2]).collect();
    let config = json!({
        "architectures": ["GptOssForCausalLM"], "attention_bias": true, "attention_dropout": 0.0,
        "eos_token_id": 200_002, "experts_per_token": 4, "head_dim": 64, "hidden_act": "silu", "hidden_size": 2880,
        "initial_context_length": 4096, "initializer_range": 0.02, "intermediate_size": 2880, "layer_types": layers,
        "max_position_embeddings": 131_072, "model_type": "gpt_oss", "num_attention_heads": 64,
        "num_experts_per_tok": 4, "num_hidden_layers": 24, "num_key_value_heads": 8, "num_local_experts": 32,
        "output_router_logits": false, "pad_token_id": 199_999,
        "quantization_config": { "modules_to_not_convert": ["model.layers.*.self_attn", "lm_head"], "quant_method": "mxfp4" },
        "rms_norm_eps": 1e-5, "rope_theta": 150_000, "router_aux_loss_coef": 0.9, "sliding_window": 128,
        "rope_scaling": { "beta_fast": 32.0, "beta_slow": 1.0, "factor": 32.0, "original_max_position_embeddings": 4096,
            "rope_type": "yarn", "truncate": false },
        "swiglu_limit": 7.0, "tie_word_embeddings": false, "use_cache": true, "vocab_size": 201_088,
    });
    let spec = parse_config(config.to_string().as_bytes(), None).unwrap();
    let experts = spec.experts.unwrap();
    assert_eq!((spec.layers.len(), experts.count, experts.chosen), (24, 32, 4));
}
