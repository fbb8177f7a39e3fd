//! Whole models against Hugging Face transformers: logits of every prompt position, greedy ids; and what a `config.json` means.

mod common;
use common::{Golden, capacity, engine, goldens, gpu, path, plain, run};
use foretoken::Error;
use foretoken::decode::Target;
use foretoken::model::{Mlp, ModelSpec, RopeScaling, parse_config};
use serde_json::{Map, Value, json};

/// |logit - reference| <= this * max(1, max |reference|).
const BOUND: f32 = 2e-4;

/// The largest difference, relative to max(1, max |theirs|).
fn difference(ours: &[f32], theirs: &[f32]) -> f32 {
    assert_eq!(ours.len(), theirs.len());
    let largest = theirs.iter().fold(1f32, |most, x| most.max(x.abs()));
    let worst = ours.iter().zip(theirs).fold(0f32, |worst, (a, b)| {
        assert!(a.is_finite());
        worst.max((a - b).abs())
    });
    worst / largest
}

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

/// `tests/golden/defaults.json`; `defaults.py` beside it says how it was made.
#[derive(serde::Deserialize)]
struct Defaults {
    sizes: Map<String, Value>,
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

    /// A `config.json` of the sizes alone, and what else is given.
    fn parse(&self, model_type: &str, more: &Map<String, Value>) -> foretoken::Result<ModelSpec> {
        let mut config = self.sizes.clone();
        config.insert("model_type".into(), model_type.into());
        config.extend(more.clone());
        parse_config(&serde_json::to_vec(&config).unwrap(), None)
    }
}

/// A spec in the words of `defaults.json`.
fn facts(spec: &ModelSpec) -> Value {
    let Mlp { activation, bias, .. } = spec.mlp;
    let rope = &spec.ropes[0];
    assert_eq!(rope.rotary_dim, spec.head_dim);
    let rope = match rope.scaling {
        RopeScaling::None => json!({ "rope_theta": rope.theta, "rope_type": "default" }),
        RopeScaling::Linear { factor } => json!({ "rope_theta": rope.theta, "rope_type": "linear", "factor": factor }),
        RopeScaling::Llama3 { factor, low_freq_factor, high_freq_factor, original_max_position_embeddings } => json!({
            "rope_theta": rope.theta,
            "rope_type": "llama3",
            "factor": factor,
            "low_freq_factor": low_freq_factor,
            "high_freq_factor": high_freq_factor,
            "original_max_position_embeddings": original_max_position_embeddings as u64,
        }),
    };
    let layers =
        |is: fn(&_) -> bool| spec.layers.iter().map(|layer| if is(layer) { '1' } else { '0' }).collect::<String>();
    json!({
        "num_key_value_heads": spec.num_key_value_heads,
        "head_dim": spec.head_dim,
        "norm_eps": spec.norm_eps,
        "activation": activation,
        "output_bias": spec.output_bias,
        "mlp_bias": bias,
        "tie_word_embeddings": spec.tie_word_embeddings,
        "rope": rope,
        "window": spec.layers.iter().find_map(|layer| layer.window),
        "slides": layers(|layer| layer.window.is_some()),
        "rotates": layers(|layer| layer.rope.is_some()),
        "bos_token_id": spec.bos_token_id,
        "eos_token_id": spec.eos_token_id,
    })
}

#[test]
fn keys_that_a_config_leaves_out_are_what_they_are_in_transformers() {
    let defaults = Defaults::read();
    for Case { model_type, more, facts: theirs } in &defaults.cases {
        let spec = defaults.parse(model_type, more).unwrap_or_else(|error| panic!("{model_type} {more:?}: {error}"));
        assert_eq!(facts(&spec), *theirs, "{model_type} {more:?}");
    }
}

/// Where transformers fails, fills in what no model has, or computes what we do not.
#[test]
fn configs_without_a_sure_meaning_are_refused_by_key() {
    let defaults = Defaults::read();
    let llama3 = json!({ "rope_type": "llama3", "factor": 8, "high_freq_factor": 4 });
    let sliding = vec!["sliding_attention"; 32];
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
        ("llama", json!({ "rope_parameters": { "rope_type": "yarn" } }), "rope_parameters.rope_type"),
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
        ("smollm3", json!({ "num_attention_heads": 6, "head_dim": 32 }), "num_key_value_heads"),
    ] {
        match defaults.parse(model_type, more.as_object().unwrap()) {
            Err(Error::BadConfig { key: named, .. }) => assert_eq!(named, key, "{model_type} {more}"),
            other => panic!("{model_type} {more}: {other:?}"),
        }
    }
}
