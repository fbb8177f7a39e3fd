//! Reads `config.json`, or the same keys from a GGUF file, into a [`ModelSpec`], by the table of architectures.

use super::architecture::{
    Architecture, AttentionScale, Facts, KvHeads, LayerTypes, ProjectionBias, Residual, Slides, Unrotated,
};
use super::config_rope::ropes;
use super::keys::Keys;
use super::names::Naming;
use super::spec::{Activation, AttentionSpec, LayerSpec, Mixer, Mlp, ModelSpec, TokenSpec};
use crate::error::Result;
use serde_json::{Map, Value};
use std::ops::RangeInclusive;

const FILE: &str = "config.json";

/// Range of factors.
const FACTORS: RangeInclusive<f64> = 1e-6..=1e6;

/// Keys that change the mathematics of most models in unsupported ways. Unless the table supports them, they must be missing, null,
/// false or zero.
const REFUSED: [&str; 9] = [
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
    let heads = keys.count("num_attention_heads", 1..=1024)?;
    let kv_heads = kv_heads(&keys, facts, heads)?;
    let head_dim = match keys.nullable("head_dim", 4..=256, facts.head_dim)? {
        Some(head_dim) => head_dim,
        None if hidden_size.is_multiple_of(heads) => hidden_size / heads,
        None => {
            return keys.bad("num_attention_heads", format!("{heads} does not divide hidden_size, {hidden_size}"));
        }
    };
    if !head_dim.is_multiple_of(4) || head_dim > 256 {
        return keys.bad("head_dim", format!("{head_dim} is not a multiple of 4 up to 256"));
    }
    let max_position_embeddings = keys.count("max_position_embeddings", 2..=1 << 24)?;
    let num_layers = keys.count("num_hidden_layers", 1..=256)?;
    let residual = residual(&keys, facts, naming)?;
    let attention = AttentionSpec { heads, kv_heads, head_dim, window: None, rope: None };
    let intermediate_size = intermediate_size(&keys, facts, naming, hidden_size)?;
    let mixers = mixers(&keys, facts, num_layers, &attention)?;
    let layers: Vec<_> = mixers.into_iter().map(|mixer| LayerSpec { mixer, intermediate_size }).collect();
    let mut ropes = ropes(&keys, facts, head_dim, max_position_embeddings)?;
    if layers.iter().filter_map(LayerSpec::attention).all(|attention| attention.rope != Some(1)) {
        ropes.truncate(1);
    }
    let multiplier = |key| if facts.multipliers { Ok(keys.number_or(key, FACTORS, 1.0)? as f32) } else { Ok(1.0) };
    Ok(ModelSpec {
        architecture,
        naming,
        vocab_size: keys.count("vocab_size", 1..=1 << 20)?,
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
        attention_scale: attention_scale(&keys, facts, head_dim)?,
        attention_cap: cap(&keys, "attn_logit_softcapping", facts.attention_cap)?,
        qkv_bias: bias(&keys, facts.qkv_bias)?,
        output_bias: bias(&keys, facts.output_bias)?,
        attention_gate: facts.gated_sandwich && keys.flag("use_attention_gate", true)?,
        qk_norm: facts.qk_norm,
        mlp: Mlp { gated: facts.gated, activation: activation(&keys, facts)?, bias: bias(&keys, facts.mlp_bias)? },
        tie_word_embeddings: keys.flag("tie_word_embeddings", facts.tie_word_embeddings)?,
        head_bias: facts.head_bias,
        logit_scale: match facts.logit_scale {
            Some(scale) => keys.number_or("logit_scale", FACTORS, scale)? as f32,
            None => 1.0 / multiplier("logits_scaling")?,
        },
        logit_cap: cap(&keys, "final_logit_softcapping", facts.logit_cap)?,
        ropes,
        layers,
        bos_token_id: keys.tokens("bos_token_id", facts.bos_token_id.as_slice())?.first().copied(),
        eos_token_id: keys.tokens("eos_token_id", facts.eos_token_id)?,
    })
}

fn refuse_unknown_mathematics(keys: &Keys, facts: &Facts) -> Result<()> {
    let supported = [("attn_logit_softcapping", facts.attention_cap), ("final_logit_softcapping", facts.logit_cap)];
    for key in REFUSED.iter().chain(facts.refused) {
        let is_supported = supported.iter().any(|(name, default)| name == key && default.is_some());
        let value = keys.optional(key).filter(|_| !is_supported);
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
        Some(method) => quantization.bad("quant_method", format!("weights quantised by {method} are not supported")),
        None => Ok(()),
    }
}

fn residual(keys: &Keys, facts: &Facts, naming: Naming) -> Result<Residual> {
    if facts.gated_sandwich && !keys.flag("use_sandwich_norm", true)? {
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

fn kv_heads(keys: &Keys, facts: &Facts, heads: usize) -> Result<usize> {
    let default = match facts.kv_heads {
        KvHeads::All => heads,
        KvHeads::Count(count) => count,
        KvHeads::MultiQuery => {
            if keys.flag("multi_query", true)? {
                1
            } else {
                heads
            }
        }
    };
    let kv_heads = keys.nullable("num_key_value_heads", 1..=1024, Some(default))?.unwrap_or(heads);
    if matches!(facts.kv_heads, KvHeads::MultiQuery) && kv_heads != default {
        return keys.bad("num_key_value_heads", format!("{kv_heads} where multi_query implies {default}"));
    }
    if !heads.is_multiple_of(kv_heads) {
        return keys.bad("num_key_value_heads", format!("{kv_heads} does not divide num_attention_heads, {heads}"));
    }
    Ok(kv_heads)
}

/// Reads a bound; null: no bound.
fn cap(keys: &Keys, key: &str, default: Option<f64>) -> Result<Option<f32>> {
    match (default, keys.get(key)) {
        (None, _) | (_, Some(Value::Null)) => Ok(None),
        (Some(default), _) => Ok(Some(keys.number_or(key, FACTORS, default)? as f32)),
    }
}

fn attention_scale(keys: &Keys, facts: &Facts, head_dim: usize) -> Result<f32> {
    let square = match facts.attention_scale {
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

/// Returns the width of the MLP.
fn intermediate_size(keys: &Keys, facts: &Facts, naming: Naming, hidden_size: usize) -> Result<usize> {
    let sizes = 1..=1 << 18;
    let size = match facts.mlp_ratio {
        Some(ratio) => keys.nullable("intermediate_size", sizes.clone(), None)?.unwrap_or(ratio * hidden_size),
        None => keys.count("intermediate_size", sizes.clone())?,
    };
    let is_adjusted = facts.adjusted_mlp && naming == Naming::HuggingFace;
    if !is_adjusted || !keys.flag("block_auto_adjust_ff_dim", true)? {
        return Ok(size);
    }
    let factor = keys.number_or("block_ffn_dim_multiplier", FACTORS, 1.0)?;
    let adjusted = ((2 * size / 3) as f64 * factor) as usize;
    let adjusted = adjusted.next_multiple_of(keys.count_or("block_multiple_of", sizes.clone(), 256)?);
    if sizes.contains(&adjusted) {
        return Ok(adjusted);
    }
    keys.bad("block_ffn_dim_multiplier", format!("{adjusted} is no possible width of an MLP"))
}

/// Returns the mixer of each layer: `attention` with its window and rotation, or a short convolution.
fn mixers(keys: &Keys, facts: &Facts, count: usize, attention: &AttentionSpec) -> Result<Vec<Mixer>> {
    let has_window = match facts.slides {
        Slides::Never => false,
        Slides::Always | Slides::Pattern(_) => true,
        Slides::FromMaxWindowLayers | Slides::WithoutRotation => keys.flag("use_sliding_window", false)?,
    };
    let window = if has_window { keys.nullable("sliding_window", 1..=1 << 24, facts.sliding_window)? } else { None };
    let rotates = rotates(keys, facts, count)?;
    let types = match facts.layer_types {
        LayerTypes::No => None,
        LayerTypes::Optional => keys.list("layer_types", count..=count)?,
    };
    let taps = facts.short_conv.map(|taps| keys.count_or("conv_L_cache", 2..=32, taps)).transpose()?;
    let attends = attends(keys, facts, count)?;
    let slides: Vec<bool> = match facts.slides {
        _ if types.is_some() => vec![false; count],
        Slides::Never | Slides::Always => vec![window.is_some(); count],
        Slides::FromMaxWindowLayers => {
            let first = keys.count_or("max_window_layers", 0..=1 << 16, 28)?;
            (0..count).map(|i| i >= first).collect()
        }
        Slides::WithoutRotation => rotates.iter().map(|rotates| !rotates).collect(),
        Slides::Pattern(default) => {
            let interval = keys.count_or("sliding_window_pattern", 1..=1 << 16, default)?;
            (1..=count).map(|number| number % interval != 0).collect()
        }
    };
    let spec = |(i, (slides, rotates)): (usize, (bool, bool))| {
        let bad = |reason: String| keys.bad("layer_types", reason);
        let slides = match types.map(|types| &types[i]) {
            None if !attends[i] => return Ok(Mixer::ShortConv { taps: taps.unwrap_or(0) }),
            None => slides && window.is_some(),
            Some(Value::String(kind))
                if kind == "conv"
                    && let Some(taps) = taps =>
            {
                return Ok(Mixer::ShortConv { taps });
            }
            Some(Value::String(kind)) if kind == "full_attention" || kind == "attention" => false,
            Some(Value::String(kind)) if kind == "sliding_attention" => match window {
                Some(_) => true,
                None => return bad(format!("layer {i} has sliding_attention, but the model has no sliding_window")),
            },
            Some(other) => {
                let conv = if taps.is_some() { ", conv" } else { "" };
                return bad(format!("{other} is not supported; supported: full_attention, sliding_attention{conv}"));
            }
        };
        let rotates = rotates && (slides || window.is_none() || facts.unrotated != Unrotated::WithoutWindow);
        let rope = if facts.ropes.len() > 1 { usize::from(slides) } else { 0 };
        Ok(Mixer::Attention(AttentionSpec {
            window: window.filter(|_| slides),
            rope: rotates.then_some(rope),
            ..attention.clone()
        }))
    };
    slides.into_iter().zip(rotates).enumerate().map(spec).collect()
}

/// Returns true for each layer that has attention, if `layer_types` is missing.
fn attends(keys: &Keys, facts: &Facts, count: usize) -> Result<Vec<bool>> {
    let listed = if facts.short_conv.is_some() { keys.list("full_attn_idxs", 0..=count)? } else { None };
    let Some(listed) = listed else { return Ok(vec![true; count]) };
    let mut attends = vec![false; count];
    for index in listed {
        match index.as_u64().and_then(|index| attends.get_mut(index as usize)) {
            Some(attends) => *attends = true,
            None => return keys.bad("full_attn_idxs", format!("{index} is no layer: there are {count}")),
        }
    }
    Ok(attends)
}

/// Returns true for each layer that rotates.
fn rotates(keys: &Keys, facts: &Facts, count: usize) -> Result<Vec<bool>> {
    if facts.unrotated == Unrotated::ByType {
        let rotates = match keys.optional("position_embedding_type") {
            None => true,
            Some(kind) if kind == "rope" => true,
            Some(kind) if kind == "nope" => false,
            Some(kind) => {
                return keys.bad("position_embedding_type", format!("{kind} is not supported; supported: rope, nope"));
            }
        };
        return Ok(vec![rotates; count]);
    }
    if facts.unrotated != Unrotated::Listed {
        return Ok(vec![!facts.learned_positions; count]);
    }
    let Some(flags) = keys.list("no_rope_layers", count..=usize::MAX)? else {
        let interval = keys.count_or("no_rope_layer_interval", 1..=1 << 16, 4)?;
        return Ok((1..=count).map(|number| number % interval != 0).collect());
    };
    let flag = |value: &Value| match (value.as_bool(), value.as_u64()) {
        (Some(flag), _) => Ok(flag),
        (_, Some(0)) => Ok(false),
        (_, Some(1)) => Ok(true),
        _ => keys.bad("no_rope_layers", format!("{value} is neither 0 nor 1")),
    };
    flags[..count].iter().map(flag).collect()
}
