//! Reads `config.json`, or the same keys from a GGUF file, into a [`ModelSpec`], by the table of architectures.

use super::architecture::{Architecture, AttentionScale, Facts, ProjectionBias, Residual};
use super::config_experts::experts;
use super::config_layers::layers;
use super::config_rope::ropes;
use super::drafter::drafter;
use super::keys::Keys;
use super::names::Naming;
use super::spec::{Activation, LayerSpec, Mlp, ModelSpec, TokenSpec};
use crate::error::Result;
use serde_json::{Map, Value};
use std::ops::RangeInclusive;

const FILE: &str = "config.json";

/// Range of factors.
pub(super) const FACTORS: RangeInclusive<f64> = 1e-6..=1e6;

/// Keys that change the mathematics of most models in unsupported ways. Unless the table supports them, they must be missing, null,
/// false or zero.
const REFUSED: [&str; 10] = [
    "per_layer_config",
    "num_experts",
    "num_local_experts",
    "attn_logit_softcapping",
    "final_logit_softcapping",
    "use_bidirectional_attention",
    "is_encoder_decoder",
    "add_cross_attention",
    "scale_attn_by_inverse_layer_idx",
    "use_mrope",
];

/// Reads `config.json`, and the end-of-text tokens of `generation_config.json` if it has any. A missing key has its default in
/// transformers, or is an error if no published model uses that.
///
/// # Errors
/// [`Error::BadConfig`](crate::Error::BadConfig) with the key;
/// [`Error::UnsupportedArchitecture`](crate::Error::UnsupportedArchitecture).
pub fn parse_config(config: &[u8], generation_config: Option<&[u8]>) -> Result<ModelSpec> {
    let mut keys = Keys::parse(FILE, config)?;
    if keys.optional("dflash_config").is_some() {
        keys = keys.with("model_type", Architecture::OF_BLOCK_DRAFTERS.facts().model_type.into());
        let types = keys.optional("layer_types").and_then(Value::as_array);
        if types.is_some_and(|types| types.iter().any(|kind| kind == "sliding_attention")) {
            keys = keys.with("use_sliding_window", true.into());
        }
        if let Some(style) = keys.object("dflash_config")?.optional("rope_is_neox_style") {
            let style = style.clone();
            keys = keys.with("rope_is_neox_style", style);
        }
    }
    if keys.text("model_type", None)? == "gemma4_assistant" {
        // All layers attend to those of the target.
        let model_type = Architecture::OF_ASSISTANTS.facts().model_type;
        keys = keys.with_all_of("text_config")?.with("model_type", model_type.into());
        keys = keys.with("num_kv_shared_layers", 0.into());
    }
    if let Some(architecture) = Architecture::of_multimodal(keys.text("model_type", None)?) {
        keys = keys.with("model_type", architecture.facts().model_type.into()).with_all_of("text_config")?;
    }
    let mut spec = read_spec(keys, Naming::HuggingFace)?;
    if let Some(ends) = generation_config.map(generation_ends).transpose()?.flatten() {
        spec.eos_token_id = ends;
    }
    Ok(spec)
}

/// Reads the token ids that texts need from the config of any architecture, and the model's number of positions, if given. `vocab_size` is
/// from the tokenizer.
///
/// # Errors
/// [`Error::BadConfig`](crate::Error::BadConfig) with the key.
pub fn parse_tokens(
    config: &[u8],
    generation_config: Option<&[u8]>,
    vocab_size: usize,
) -> Result<(TokenSpec, Option<usize>)> {
    let keys = Keys::parse(FILE, config)?.with_all_of("text_config")?;
    let bos = keys.tokens("bos_token_id", &[])?;
    let mut eos = match generation_config.map(generation_ends).transpose()?.flatten() {
        Some(ends) => ends,
        None => keys.tokens("eos_token_id", &[])?,
    };
    let positions = match keys.optional("max_position_embeddings") {
        Some(_) => Some(keys.count("max_position_embeddings", 2..=1 << 24)?),
        None => None,
    };
    let is_known = |id: &u32| (*id as usize) < vocab_size;
    eos.retain(is_known);
    let bos_token_id = bos.first().copied().filter(is_known);
    Ok((TokenSpec { vocab_size, bos_token_id, eos_token_id: eos }, positions))
}

/// Reads the tokens that end a text from `generation_config.json`, if it has any.
fn generation_ends(bytes: &[u8]) -> Result<Option<Vec<u32>>> {
    let generation = Keys::parse("generation_config.json", bytes)?;
    generation.optional("eos_token_id").map(|_| generation.tokens("eos_token_id", &[])).transpose()
}

/// Like [`parse_config`], from a GGUF file's metadata under Llama's keys of `config.json` (`hidden_size` and `hidden_act` for every
/// architecture). `model_type` is `general.architecture`.
///
/// # Errors
/// Same as [`parse_config`], with `file`.
pub fn spec_of_gguf(file: &str, values: Map<String, Value>) -> Result<ModelSpec> {
    read_spec(Keys::new(file, values), Naming::Gguf)
}

fn read_spec(keys: Keys, naming: Naming) -> Result<ModelSpec> {
    let architecture = Architecture::named(keys.text("model_type", None)?, naming)?;
    let facts = architecture.facts();
    let keys = match naming {
        Naming::HuggingFace => keys.without(facts.unused).preferring(facts.older).renamed(facts.keys)?,
        Naming::Gguf => keys,
    };
    let keys = facts.sizes.iter().fold(keys, |keys, (key, size)| keys.or(key, (*size).into()));
    if naming == Naming::HuggingFace {
        facts.required.iter().try_for_each(|key| keys.required(key).map(drop))?;
    }
    refuse_unknown_mathematics(&keys, facts)?;
    let hidden_size = keys.count("hidden_size", 1..=1 << 16)?;
    let max_position_embeddings = keys.count("max_position_embeddings", 2..=1 << 24)?;
    let residual = residual(&keys, facts, naming)?;
    let experts = experts(&keys, facts, naming)?;
    let layers = layers(&keys, facts, naming, experts.is_some(), hidden_size)?;
    let mut ropes = ropes(&keys, facts, naming, &layers, max_position_embeddings)?;
    if layers.iter().filter_map(LayerSpec::attention).all(|attention| attention.rope != Some(1)) {
        ropes.truncate(1);
    }
    let vocab_size = keys.count("vocab_size", 1..=1 << 20)?;
    let (hidden_states, at_once, markov) = drafter(&keys, vocab_size)?;
    let multiplier = |key| if facts.multipliers { Ok(keys.number_or(key, FACTORS, 1.0)? as f32) } else { Ok(1.0) };
    Ok(ModelSpec {
        architecture,
        naming,
        vocab_size,
        hidden_size,
        max_position_embeddings,
        norm: facts.norm,
        norm_gain: facts.norm_gain,
        norm_bias: facts.norm_bias,
        norm_eps: keys.number_or("rms_norm_eps", f64::MIN_POSITIVE..=1.0, facts.norm_eps)?,
        residual,
        residual_scale: multiplier("residual_multiplier")?,
        learned_positions: facts.learned_positions,
        embedding_scale: if facts.scaled_embedding {
            (hidden_size as f64).sqrt() as f32
        } else {
            multiplier("embedding_multiplier")?
        },
        embedding_norm: facts.embedding_norm,
        attention_scale: attention_scale(&keys, facts, &layers)?,
        attention_cap: cap(&keys, "attn_logit_softcapping", facts.attention_cap)?,
        qkv_bias: bias(&keys, facts.qkv_bias)?,
        output_bias: bias(&keys, facts.output_bias)?,
        attention_sinks: facts.attention_sinks,
        attention_gate: if keys.flag("use_attention_gate", true)? { facts.attention_gate } else { None },
        qk_norm: facts.qk_norm,
        mlp: Mlp { gated: facts.gated, activation: activation(&keys, facts)?, bias: bias(&keys, facts.mlp_bias)? },
        experts,
        layer_input_size: layer_input_size(&keys, facts)?,
        layer_scale: facts.layer_scale,
        tie_word_embeddings: keys.flag("tie_word_embeddings", facts.tie_word_embeddings)?,
        head_bias: facts.head_bias,
        logit_scale: match facts.logit_scale {
            Some(scale) => keys.number_or("logit_scale", FACTORS, scale)? as f32,
            None => 1.0 / multiplier("logits_scaling")?,
        },
        logit_cap: cap(&keys, "final_logit_softcapping", facts.logit_cap)?,
        interleaved_rotation: !keys.flag("rope_is_neox_style", true)?,
        ropes,
        layers,
        hidden_states,
        at_once,
        markov,
        bos_token_id: keys.tokens("bos_token_id", facts.bos_token_id.as_slice())?.first().copied(),
        eos_token_id: keys.tokens("eos_token_id", facts.eos_token_id)?,
    })
}

fn refuse_unknown_mathematics(keys: &Keys, facts: &Facts) -> Result<()> {
    let supported = [
        ("attn_logit_softcapping", facts.attention_cap.is_some()),
        ("final_logit_softcapping", facts.logit_cap.is_some()),
        ("per_layer_config", facts.global_head_dim.is_some()),
        ("num_experts", facts.experts.is_some()),
        ("num_local_experts", facts.experts.is_some()),
    ];
    for key in REFUSED.iter().chain(facts.refused) {
        let value = keys.optional(key).filter(|value| {
            // Attention is bidirectional over images alone.
            let is_of_images = *key == "use_bidirectional_attention" && **value == "vision";
            !supported.contains(&(key, true)) && !is_of_images
        });
        if let Some(value) = value.filter(|value| **value != Value::Bool(false) && value.as_f64() != Some(0.0)) {
            return keys.bad(key, format!("{value} is not supported: the model would compute something else"));
        }
    }
    // 1 changes nothing, and 0 means 1 in GGUF files.
    let factors =
        ["embedding_multiplier", "residual_multiplier", "attention_multiplier", "logits_scaling", "logit_scale"];
    for key in factors.iter().filter(|_| !facts.multipliers && facts.logit_scale.is_none()) {
        let value = keys.optional(key).filter(|value| ![Some(0.0), Some(1.0)].contains(&value.as_f64()));
        if let Some(value) = value {
            return keys.bad(key, format!("{value} is not supported: the model would compute something else"));
        }
    }
    let quantization = keys.object("quantization_config")?;
    match quantization.optional("quant_method") {
        // gpt-oss is published in this type.
        Some(method) if method == "mxfp4" => Ok(()),
        Some(method) => quantization.bad(
            "quant_method",
            format!("weights quantised by {method} are not supported; take a GGUF file of the model"),
        ),
        None => Ok(()),
    }
}

fn residual(keys: &Keys, facts: &Facts, naming: Naming) -> Result<Residual> {
    if facts.sandwich_key && !keys.flag("use_sandwich_norm", true)? {
        return Ok(Residual::Sequential);
    }
    let Some(default) = facts.parallel_residual else { return Ok(facts.residual) };
    let is_parallel = match facts.residual {
        // Such files leave out the second norm, and may say something else.
        Residual::ParallelOneNorm if naming == Naming::Gguf => !keys.flag("has_mlp_norm", true)?,
        _ => keys.flag("use_parallel_residual", default)?,
    };
    Ok(if is_parallel { facts.residual } else { Residual::Sequential })
}

/// Reads a bound; null: no bound.
fn cap(keys: &Keys, key: &str, default: Option<f64>) -> Result<Option<f32>> {
    match (default, keys.get(key)) {
        (None, _) | (_, Some(Value::Null)) => Ok(None),
        (Some(f64::INFINITY), None) => Ok(None),
        (Some(default), _) => Ok(Some(keys.number_or(key, FACTORS, default)? as f32)),
    }
}

/// Returns the width of the layers' own inputs.
fn layer_input_size(keys: &Keys, facts: &Facts) -> Result<usize> {
    let Some(default) = facts.layer_input_size else { return Ok(0) };
    let size = keys.count_or("hidden_size_per_layer_input", 0..=1 << 16, default)?;
    // Both tables are read with the same token ids.
    let vocab_size = keys.get("vocab_size");
    match keys.optional("vocab_size_per_layer_input").filter(|_| size > 0) {
        _ if !size.is_multiple_of(8) => {
            keys.bad("hidden_size_per_layer_input", format!("{size} is not a multiple of 8"))
        }
        Some(other) if Some(other) != vocab_size => {
            keys.bad("vocab_size_per_layer_input", format!("{other} is not vocab_size"))
        }
        _ => Ok(size),
    }
}

fn attention_scale(keys: &Keys, facts: &Facts, layers: &[LayerSpec]) -> Result<f32> {
    let head_dim = layers.iter().find_map(LayerSpec::attention).map_or(1, |attention| attention.head_dim);
    let square = match facts.attention_scale {
        AttentionScale::One => return Ok(1.0),
        AttentionScale::Multiplier => return Ok(keys.number_or("attention_multiplier", FACTORS, 1.0)? as f32),
        AttentionScale::Optional if !keys.flag("scale_attn_weights", true)? => 1.0,
        AttentionScale::HeadDim | AttentionScale::Optional => head_dim as f64,
        AttentionScale::QueryScalar(default) => keys.number_or("query_pre_attn_scalar", 1e-3..=1e9, default)?,
    };
    Ok(square.powf(-0.5) as f32)
}

fn bias(keys: &Keys, bias: ProjectionBias) -> Result<bool> {
    match bias {
        ProjectionBias::No => Ok(false),
        ProjectionBias::Yes => Ok(true),
        ProjectionBias::Key(key, default) => keys.flag(key, default),
    }
}

fn activation(keys: &Keys, facts: &Facts) -> Result<Activation> {
    match keys.text("hidden_act", Some(facts.activation))? {
        "silu" | "swiglu_oai" if facts.activation == "swiglu_oai" => {
            for (key, number) in [("swiglu_limit", 7.0), ("swiglu_alpha", 1.702)] {
                if let Some(other) = keys.optional(key).filter(|other| other.as_f64() != Some(number)) {
                    return keys.bad(key, format!("{other} is not supported, only {number}"));
                }
            }
            Ok(Activation::ClampedSwiglu)
        }
        "silu" | "swish" => Ok(Activation::Silu),
        "gelu" => Ok(Activation::Gelu),
        "gelu_new" | "gelu_fast" | "gelu_pytorch_tanh" => Ok(Activation::GeluTanh),
        "relu" => Ok(Activation::Relu),
        "relu2" => Ok(Activation::ReluSquared),
        other => {
            let supported = "silu, gelu, gelu_new, gelu_fast, gelu_pytorch_tanh, relu, relu2";
            keys.bad("hidden_act", format!("{other} is not supported; supported: {supported}"))
        }
    }
}
