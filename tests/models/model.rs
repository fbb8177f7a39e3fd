//! Whole models compared with Hugging Face transformers (logits of every prompt position, greedy ids), and the meaning of `config.json`.

use common::altered::{with_head, with_head_of_integers};
use common::reference::Model;
use common::{Golden, capacity, difference, engine, goldens, gpu, path, plain, run};
use foretoken::internals::backend::Backend;
use foretoken::internals::checkpoint;
use foretoken::internals::model::{AttentionSpec, LayerSpec, Mixer, ModelSpec, RopeScaling, RopeSpec, parse_config};
use foretoken::internals::target::Target;
use foretoken::internals::weights::InMemory;
use foretoken::{Error, KvDtype};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// Bound on |logit - reference| / max(1, max |reference|).
const BOUND: f32 = 2e-4;

#[test]
fn logits_and_greedy_ids_equal_transformers() {
    let gpu = gpu();
    for folder in goldens() {
        let golden = Golden::read(&folder);
        let name = folder.file_name().unwrap().to_string_lossy().into_owned();
        let mut engine = engine(&gpu, &folder, None, capacity());
        let prompt = difference(&run(engine.logits(&golden.prompt_ids, 64)).unwrap(), &golden.prompt_logits);
        let ids = plain(&mut engine, &golden.prompt_ids, golden.greedy_ids.len());
        assert_eq!(ids, golden.greedy_ids, "{name}");
        engine.truncate(0);
        let text = [&golden.prompt_ids[..], &golden.greedy_ids[..golden.greedy_ids.len() - 1]].concat();
        let logits = run(engine.logits(&text, 64)).unwrap();
        let vocab = engine.target().spec().vocab_size;
        let greedy = difference(&logits[(golden.prompt_ids.len() - 1) * vocab..], &golden.greedy_logits);
        println!("{name}: prompt logits {prompt:.1e}, greedy logits {greedy:.1e}");
        assert!(prompt <= BOUND && greedy <= BOUND, "{name}: {prompt:e}, {greedy:e}");
    }
}

/// `tests/golden/defaults.json`, made by `defaults.py`.
#[derive(serde::Deserialize)]
struct Defaults {
    sizes: BTreeMap<String, Map<String, Value>>,
    /// Every key of a model's config class.
    keys: BTreeMap<String, Vec<String>>,
    cases: Vec<Case>,
}

#[derive(serde::Deserialize)]
struct Case {
    model_type: String,
    more: Map<String, Value>,
    facts: Value,
}

impl Defaults {
    fn read() -> Self {
        serde_json::from_slice(&std::fs::read(path("tests/golden/defaults.json")).unwrap()).unwrap()
    }

    /// Parses a `config.json` of the sizes and `more`.
    fn parse(&self, model_type: &str, more: &Map<String, Value>) -> foretoken::Result<ModelSpec> {
        let mut config = self.sizes[model_type].clone();
        config.insert("model_type".into(), model_type.into());
        config.extend(more.clone());
        parse_config(&serde_json::to_vec(&config).unwrap(), None)
    }
}

fn rope(rope: &RopeSpec) -> Value {
    let scaling = match &rope.scaling {
        RopeScaling::None => json!({ "rope_type": "default" }),
        RopeScaling::Proportional { pairs } => json!({ "rope_type": "proportional", "pairs": pairs }),
        RopeScaling::Linear { factor } => json!({ "rope_type": "linear", "factor": factor }),
        RopeScaling::Llama3 { factor, low_freq_factor, high_freq_factor, original_max_position_embeddings } => json!({
            "rope_type": "llama3",
            "factor": factor,
            "low_freq_factor": low_freq_factor,
            "high_freq_factor": high_freq_factor,
            "original_max_position_embeddings": original_max_position_embeddings,
        }),
        RopeScaling::Yarn {
            factor,
            beta_fast,
            beta_slow,
            truncate,
            attention_factor,
            original_max_position_embeddings,
        } => json!({
            "rope_type": "yarn",
            "factor": factor,
            "beta_fast": beta_fast,
            "beta_slow": beta_slow,
            "truncate": truncate,
            "attention_factor": attention_factor,
            "original_max_position_embeddings": original_max_position_embeddings,
        }),
        RopeScaling::LongRope { short_factor, long_factor, attention_factor, original_max_position_embeddings } => {
            json!({
                "rope_type": "longrope",
                "short_factor": short_factor,
                "long_factor": long_factor,
                "attention_factor": attention_factor,
                "original_max_position_embeddings": original_max_position_embeddings,
            })
        }
    };
    let mut facts = json!({ "rope_theta": rope.theta, "rotary_dim": rope.rotary_dim });
    facts.as_object_mut().unwrap().extend(scaling.as_object().unwrap().clone());
    facts
}

/// Returns the positions of a layer's convolution; 0: it has attention.
fn convolution(layer: &LayerSpec) -> usize {
    match layer.mixer {
        Mixer::ShortConv { taps } => taps,
        Mixer::DeltaNet(delta) => delta.taps,
        Mixer::Attention(_) => 0,
    }
}

/// Returns the keys of `defaults.json`.
fn facts(spec: &ModelSpec) -> Value {
    let attention = spec.attentions().next().unwrap();
    let layers =
        |is: fn(&_) -> bool| spec.attentions().map(|layer| if is(layer) { '1' } else { '0' }).collect::<String>();
    let mut facts = json!({
        "num_key_value_heads": attention.kv_heads,
        "head_dim": attention.head_dim,
        "intermediate_size": spec.layers[0].intermediate_size,
        "convolutions": spec.layers.iter().map(|layer| convolution(layer).to_string()).collect::<String>(),
        "norm": spec.norm,
        "norm_eps": spec.norm_eps,
        "residual": spec.residual,
        "activation": spec.mlp.activation,
        "gated": spec.mlp.gated,
        "attention_scale": spec.attention_scale,
        "output_bias": spec.output_bias,
        "mlp_bias": spec.mlp.bias,
        "tie_word_embeddings": spec.tie_word_embeddings,
        "ropes": spec.ropes.iter().map(rope).collect::<Vec<_>>(),
        "window": spec.attentions().find_map(|attention| attention.window),
        "slides": layers(|layer: &AttentionSpec| layer.window.is_some()),
        "rotates": layers(|layer: &AttentionSpec| layer.rope.is_some()),
        "bos_token_id": spec.bos_token_id,
        "eos_token_id": spec.eos_token_id,
    });
    if let Some(delta) = spec.layers.iter().find_map(LayerSpec::delta_net) {
        facts["delta_net"] = json!([delta.key_heads, delta.key_dim, delta.value_heads, delta.value_dim]);
    }
    if let Some((experts, layer)) = spec.experts.zip(spec.layers.iter().find(|layer| layer.expert_size > 0)) {
        let digit = |layer: &LayerSpec| if layer.expert_size > 0 { '1' } else { '0' };
        facts["experts"] = json!({
            "count": experts.count,
            "chosen": experts.chosen,
            "width": layer.expert_size,
            "shared": experts.shared,
            "normalised": experts.normalised,
            "bias": experts.bias,
            "scale": experts.scale,
            "layers": spec.layers.iter().map(digit).collect::<String>(),
        });
        let dense = spec.layers.iter().find(|layer| layer.intermediate_size > 0);
        facts["intermediate_size"] = dense.map(|layer| layer.intermediate_size).into();
    }
    // Facts about each layer of Gemma 4.
    if spec.layer_scale {
        let own = spec.attentions().filter(|attention| attention.kv_layer.is_none());
        facts["layers"] = json!({
            "head_dim": spec.attentions().map(|attention| attention.head_dim).collect::<Vec<_>>(),
            "kv_heads": spec.attentions().map(|attention| attention.kv_heads).collect::<Vec<_>>(),
            "kv_layer": spec.attentions().map(|attention| attention.kv_layer).collect::<Vec<_>>(),
            "values_are_keys": own.map(|attention| attention.values_are_keys).collect::<Vec<_>>(),
            "intermediate_size": spec.layers.iter().map(|layer| layer.intermediate_size).collect::<Vec<_>>(),
            "layer_input_size": spec.layer_input_size,
        });
    }
    facts
}

/// Compares values, with whole and fractional numbers alike, in single precision.
fn alike(ours: &Value, theirs: &Value) -> bool {
    match (ours, theirs) {
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, ours)| b.get(key).is_some_and(|theirs| alike(ours, theirs)))
        }
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| alike(a, b)),
        (Value::Number(a), Value::Number(b)) => {
            let (a, b) = (a.as_f64().unwrap(), b.as_f64().unwrap());
            (a - b).abs() <= 1e-7 * b.abs()
        }
        _ => ours == theirs,
    }
}

#[test]
fn keys_that_a_config_leaves_out_are_what_they_are_in_transformers() {
    let defaults = Defaults::read();
    for Case { model_type, more, facts: theirs } in &defaults.cases {
        let spec = defaults.parse(model_type, more).unwrap_or_else(|error| panic!("{model_type} {more:?}: {error}"));
        assert!(
            alike(&facts(&spec), theirs),
            "{model_type} {more:?}: {} where transformers has {theirs}",
            facts(&spec)
        );
    }
}

/// Keys of the config classes that change nothing here: about training, other heads, or how transformers computes.
const HARMLESS: [&str; 27] = [
    "attention_dropout",
    "attention_softmax_in_fp32",
    "attn_pdrop",
    "classifier_dropout",
    "embd_pdrop",
    "embedding_dropout",
    "hidden_dropout",
    "initializer_range",
    "is_decoder",
    "mamba_chunk_size",
    "output_router_logits",
    "pad_token_id",
    "pretraining_tp",
    "reorder_and_upcast_attn",
    "resid_pdrop",
    "residual_dropout",
    "router_aux_loss_coef",
    "scale_attention_softmax_in_fp32",
    "summary_activation",
    "summary_first_dropout",
    "summary_proj_to_labels",
    "summary_type",
    "summary_use_proj",
    "use_cache",
    "attribute_map",
    "default_theta",
    "model_type",
];

/// No key of a config is ignored: an invalid value is refused by the name of its key.
#[test]
fn every_key_that_a_config_class_knows_is_read_or_refused() {
    let defaults = Defaults::read();
    for (model_type, keys) in &defaults.keys {
        for key in keys.iter().filter(|key| !HARMLESS.contains(&key.as_str())) {
            // Without the flag of the window, its keys are not read.
            let mut more = json!({ "use_sliding_window": true, "sliding_window": 8 }).as_object().unwrap().clone();
            // The first case has what must not be missing.
            more.extend(defaults.cases.iter().find(|case| case.model_type == *model_type).unwrap().more.clone());
            if model_type == "phi3" && key == "original_max_position_embeddings" {
                more.insert("rope_scaling".into(), json!({ "rope_type": "longrope" }));
            }
            let layers = [["conv"; 16], ["full_attention"; 16]].concat();
            // Nor are those of experts and convolutions without any.
            let experts = match model_type.as_str() {
                "gemma4_text" => {
                    json!({ "enable_moe_block": true, "num_experts": 8, "top_k_experts": 2, "moe_intermediate_size": 48 })
                }
                "granitemoehybrid" => json!({ "num_local_experts": 8 }),
                "lfm2" | "lfm2_moe" | "lfm3" => {
                    json!({ "layer_types": layers })
                }
                _ => json!({}),
            };
            more.extend(experts.as_object().unwrap().clone());
            more.insert(key.clone(), "nonsense".into());
            match defaults.parse(model_type, &more) {
                Err(Error::BadConfig { key: named, .. }) => assert_eq!(named, *key, "{model_type}"),
                other => panic!("{model_type} {key}: {other:?}"),
            }
        }
    }
}

/// As in transformers: the config must be wrong.
#[test]
fn a_head_that_differs_from_the_embedding_is_used_although_the_config_says_otherwise() {
    let prompt = [261, 420, 7, 300];
    let logits = |source: InMemory| {
        let checkpoint = run(checkpoint::open(Box::new(source), None)).unwrap();
        let spec = checkpoint.spec();
        let model = run(Model::load(spec.clone(), checkpoint.weights())).unwrap();
        let (warnings, is_tied) = (checkpoint.warnings().to_vec(), spec.tie_word_embeddings);
        (model.logits(&prompt, KvDtype::F32), warnings, is_tied, spec.vocab_size)
    };
    let folder = path("models/tales/draft");
    let (equal, warnings, is_tied, vocab) = logits(with_head(&folder, |row| row));
    assert_eq!((warnings, is_tied), (Vec::<String>::new(), true));
    let swapped = |row| match row {
        261 => 420,
        420 => 261,
        row => row,
    };
    let (mut other, warnings, is_tied, _) = logits(with_head(&folder, swapped));
    assert!(!is_tied && warnings.len() == 1 && warnings[0].contains("lm_head.weight"), "{warnings:?}");
    assert_ne!(other, equal);
    other.chunks_exact_mut(vocab).for_each(|row| row.swap(261, 420));
    assert_eq!(other, equal);
}

#[test]
fn a_head_of_a_type_that_cannot_be_used_is_refused() {
    let source = with_head_of_integers(&path("models/tales/draft"));
    let checkpoint = run(checkpoint::open(Box::new(source), None)).unwrap();
    let refused = run(Model::load(checkpoint.spec().clone(), checkpoint.weights())).map(drop).unwrap_err();
    assert!(refused.to_string().contains("lm_head.weight"), "{refused}");
}

/// Configs for which transformers fails, fills in values that no model has, or computes what we do not.
#[test]
fn configs_without_a_sure_meaning_are_refused_by_key() {
    let defaults = Defaults::read();
    let llama3 = json!({ "rope_type": "llama3", "factor": 8, "high_freq_factor": 4 });
    let sliding = vec!["sliding_attention"; 32];
    let longrope = |short: usize, long: usize| {
        let factors = |count| vec![1.5; count];
        json!({ "rope_type": "longrope", "short_factor": factors(short), "long_factor": factors(long) })
    };
    for (model_type, more, key) in [
        ("llama", json!({ "tie_word_embeddings": null }), "tie_word_embeddings"),
        ("llama", json!({ "rms_norm_eps": null }), "rms_norm_eps"),
        ("llama", json!({ "hidden_act": null }), "hidden_act"),
        ("llama", json!({ "hidden_size": null }), "hidden_size"),
        ("llama", json!({ "attention_bias": 1 }), "attention_bias"),
        ("llama", json!({ "rope_theta": null }), "rope_theta"),
        ("llama", json!({ "rope_scaling": { "type": "linear" } }), "rope_scaling.factor"),
        ("llama", json!({ "rope_parameters": llama3 }), "rope_parameters.low_freq_factor"),
        ("llama", json!({ "rope_parameters": { "rope_type": 5 } }), "rope_parameters.rope_type"),
        ("llama", json!({ "rope_parameters": { "rope_type": "dynamic" } }), "rope_parameters.rope_type"),
        ("llama", json!({ "partial_rotary_factor": 0.5 }), "partial_rotary_factor"),
        (
            "llama",
            json!({ "rope_parameters": { "partial_rotary_factor": 0.5 } }),
            "rope_parameters.partial_rotary_factor",
        ),
        ("qwen3", json!({ "rope_parameters": { "full_attention": {} } }), "rope_parameters.full_attention"),
        ("qwen3", json!({ "layer_types": sliding }), "layer_types"),
        ("qwen2", json!({ "layer_types": ["full_attention"] }), "layer_types"),
        ("mistral", json!({ "sliding_window": null, "layer_types": sliding }), "layer_types"),
        ("smollm3", json!({ "sliding_window": 16, "layer_types": sliding }), "layer_types"),
        ("smollm3", json!({ "no_rope_layers": [1, 0] }), "no_rope_layers"),
        ("smollm3", json!({ "no_rope_layers": vec![2; 32] }), "no_rope_layers"),
        ("phi3", json!({ "partial_rotary_factor": 0.55 }), "partial_rotary_factor"),
        ("phi3", json!({ "rope_scaling": { "type": "yarn" } }), "rope_scaling.factor"),
        ("phi3", json!({ "rope_scaling": longrope(15, 16) }), "rope_scaling.short_factor"),
        ("phi3", json!({ "rope_scaling": longrope(16, 17) }), "rope_scaling.long_factor"),
        ("gemma3_text", json!({ "attention_bias": true }), "attention_bias"),
        ("gemma3_text", json!({ "attn_logit_softcapping": 50.0 }), "attn_logit_softcapping"),
        ("gemma3_text", json!({ "final_logit_softcapping": 30 }), "final_logit_softcapping"),
        ("gemma3_text", json!({ "use_bidirectional_attention": true }), "use_bidirectional_attention"),
        ("gemma3_text", json!({ "rope_parameters": { "rope_theta": 5.0 } }), "rope_parameters.rope_theta"),
        ("gemma3_text", json!({ "hidden_act": "silu" }), "hidden_act"),
        ("gemma4_text", json!({ "layer_types": sliding }), "layer_types"),
        ("gemma4_text", json!({ "enable_moe_block": true }), "num_experts"),
        ("gemma4_text", json!({ "enable_moe_block": true, "num_experts": 8 }), "top_k_experts"),
        (
            "gemma4_text",
            json!({ "enable_moe_block": true, "num_experts": 8, "top_k_experts": 2 }),
            "moe_intermediate_size",
        ),
        ("gemma4_text", json!({ "num_kv_shared_layers": 31 }), "num_kv_shared_layers"),
        ("gemma4_text", json!({ "hidden_size_per_layer_input": 12 }), "hidden_size_per_layer_input"),
        ("gemma4_text", json!({ "vocab_size_per_layer_input": 9 }), "vocab_size_per_layer_input"),
        ("gemma4_text", json!({ "use_bidirectional_attention": "all" }), "use_bidirectional_attention"),
        (
            "gemma4_text",
            json!({ "intermediate_size": 12, "num_kv_shared_layers": 20, "use_double_wide_mlp": true }),
            "intermediate_size",
        ),
        ("gemma4_text", json!({ "per_layer_config": { "3": { "head_dim": 64 } } }), "per_layer_config"),
        ("gemma4_text", json!({ "per_layer_config": { "0": { "window": 64 } } }), "per_layer_config.0.window"),
        ("qwen3_5_text", json!({ "linear_num_value_heads": 24 }), "linear_num_key_heads"),
        ("qwen3_5_text", json!({ "linear_key_head_dim": 30 }), "linear_key_head_dim"),
        ("qwen3_5_text", json!({ "linear_conv_kernel_dim": 1 }), "linear_conv_kernel_dim"),
        ("qwen3_5_text", json!({ "attention_bias": true }), "attention_bias"),
        ("qwen3_5_text", json!({ "layer_types": vec!["conv"; 32] }), "layer_types"),
        ("gpt_neox", json!({ "rotary_pct": 0.55 }), "rotary_pct"),
        ("gpt_neox", json!({ "rope_theta": 5.0 }), "rope_theta"),
        ("gpt2", json!({ "scale_attn_by_inverse_layer_idx": true }), "scale_attn_by_inverse_layer_idx"),
        ("gpt2", json!({ "add_cross_attention": true }), "add_cross_attention"),
        ("gpt2", json!({ "activation_function": "quick_gelu" }), "activation_function"),
        ("gpt2", json!({ "n_embd": 130 }), "n_head"),
        ("gpt2", json!({ "n_inner": 0 }), "n_inner"),
        ("gpt_bigcode", json!({ "num_key_value_heads": 4 }), "num_key_value_heads"),
        ("llama", json!({ "num_local_experts": 8 }), "num_local_experts"),
        ("llama", json!({ "quantization_config": { "quant_method": "awq" } }), "quantization_config.quant_method"),
        ("smollm3", json!({ "num_attention_heads": 6, "head_dim": 32 }), "num_key_value_heads"),
    ] {
        let mut whole = defaults.cases.iter().find(|case| case.model_type == model_type).unwrap().more.clone();
        whole.extend(more.as_object().unwrap().clone());
        match defaults.parse(model_type, &whole) {
            Err(Error::BadConfig { key: named, .. }) => assert_eq!(named, key, "{model_type} {more}"),
            other => panic!("{model_type} {more}: {other:?}"),
        }
    }
}

#[test]
fn an_architecture_that_is_not_known_is_refused_with_those_that_are() {
    for (config, name) in
        [(json!({ "model_type": "mamba" }), "mamba"), (json!({ "model_type": "gemma3n_text" }), "gemma3n_text")]
    {
        match parse_config(config.to_string().as_bytes(), None) {
            Err(Error::UnsupportedArchitecture { architecture, supported }) => {
                assert_eq!(architecture, name);
                assert!(
                    supported.starts_with("llama, mistral, qwen2") && supported.ends_with("nanochat"),
                    "{supported}"
                );
            }
            other => panic!("{other:?}"),
        }
    }
}
