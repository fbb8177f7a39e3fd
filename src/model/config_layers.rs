//! Reads the properties of each layer from `config.json`.

use super::architecture::{Facts, KvHeads, LayerTypes, Slides, Unrotated};
use super::config::FACTORS;
use super::config_experts::expert_sizes;
use super::keys::Keys;
use super::names::Naming;
use super::spec::{AttentionSpec, DeltaSpec, LayerSpec, Mixer};
use crate::error::Result;
use serde_json::Value;
use std::ops::RangeInclusive;

pub(super) const SIZES: RangeInclusive<usize> = 1..=1 << 18;
const HEADS: RangeInclusive<usize> = 1..=1024;
const HEAD_DIMS: RangeInclusive<usize> = 4..=512;
/// A thread of the kernel holds a column of a state.
const KEY_DIMS: RangeInclusive<usize> = 4..=256;
const TAPS: RangeInclusive<usize> = 2..=32;

/// Reads all layers.
pub(super) fn layers(
    keys: &Keys,
    facts: &Facts,
    naming: Naming,
    has_experts: bool,
    hidden_size: usize,
) -> Result<Vec<LayerSpec>> {
    let count = keys.count("num_hidden_layers", 1..=256)?;
    let heads = keys.count("num_attention_heads", HEADS)?;
    let kv_heads = kv_heads(keys, facts, heads)?;
    let head_dim = match keys.nullable("head_dim", HEAD_DIMS, facts.head_dim)? {
        Some(head_dim) => head_dim,
        None if hidden_size.is_multiple_of(heads) => hidden_size / heads,
        None => {
            return keys.bad("num_attention_heads", format!("{heads} does not divide hidden_size, {hidden_size}"));
        }
    };
    let attention =
        AttentionSpec { heads, kv_heads, head_dim, window: None, rope: None, kv_layer: None, values_are_keys: false };
    let mut mixers = mixers(keys, facts, naming, count, hidden_size, &attention)?;
    if facts.global_head_dim.is_some() {
        share_kv(keys, &mut mixers)?;
    }
    let mut widths = widths(keys, facts, naming, hidden_size, &mixers)?;
    let expert_sizes = expert_sizes(keys, facts, naming, has_experts.then_some(hidden_size), &mut widths)?;
    let layers = mixers.into_iter().zip(widths).zip(expert_sizes);
    let layers: Vec<_> = layers
        .map(|((mixer, intermediate_size), expert_size)| LayerSpec { mixer, intermediate_size, expert_size })
        .collect();
    check_heads(keys, &layers)?;
    check_widths(keys, &layers, hidden_size)?;
    Ok(layers)
}

fn check_heads(keys: &Keys, layers: &[LayerSpec]) -> Result<()> {
    for &AttentionSpec { heads, kv_heads, head_dim, .. } in layers.iter().filter_map(LayerSpec::attention) {
        if !head_dim.is_multiple_of(4) || !HEAD_DIMS.contains(&head_dim) {
            return keys.bad("head_dim", format!("{head_dim} is not a multiple of 4 up to {}", HEAD_DIMS.end()));
        }
        if !heads.is_multiple_of(kv_heads) {
            return keys.bad("num_key_value_heads", format!("{kv_heads} does not divide num_attention_heads, {heads}"));
        }
    }
    Ok(())
}

/// Checks that rows of different widths end at whole chunks of weights: layers share buffers, and what a row leaves after the end of a
/// narrower one is not zero.
fn check_widths(keys: &Keys, layers: &[LayerSpec], hidden_size: usize) -> Result<()> {
    let mixed = |layer: &LayerSpec| vec![layer.mixed_width(hidden_size)];
    let inner = |layer: &LayerSpec| vec![layer.intermediate_size, layer.expert_size];
    for (key, widths) in [("head_dim", &mixed as &dyn Fn(&LayerSpec) -> Vec<usize>), ("intermediate_size", &inner)] {
        let all = || layers.iter().flat_map(widths).filter(|width| *width > 0);
        let odd = all().find(|width| !width.is_multiple_of(8));
        if let Some(odd) = odd.filter(|odd| all().any(|width| width != *odd)) {
            return keys.bad(key, format!("layers have different widths, and one, {odd}, is not a multiple of 8"));
        }
    }
    Ok(())
}

/// Lets the last `num_kv_shared_layers` layers read the keys and values of the last layer before them of the same kind.
fn share_kv(keys: &Keys, mixers: &mut [Mixer]) -> Result<()> {
    let key = "num_kv_shared_layers";
    let shared = keys.nullable(key, 0..=mixers.len() - 1, Some(0))?.unwrap_or(0);
    let (own, sharing) = mixers.split_at_mut(mixers.len() - shared);
    for mixer in sharing {
        let Mixer::Attention(attention) = &*mixer else { continue };
        let has_window = |own: &Mixer| matches!(own, Mixer::Attention(own) if own.window == attention.window);
        let kv_layer = own.iter().rposition(has_window).filter(|source| own[*source] == *mixer);
        if kv_layer.is_none() {
            return keys.bad(key, "no earlier layer has keys and values of the same kind".into());
        }
        *mixer = Mixer::Attention(AttentionSpec { kv_layer, values_are_keys: false, ..attention.clone() });
    }
    Ok(())
}

/// Returns `attention` with what layer `index` has of its own: in `per_layer_config`, or if it has no window in keys for such layers.
fn of_layer(keys: &Keys, facts: &Facts, index: usize, attention: AttentionSpec) -> Result<AttentionSpec> {
    let Some(default) = facts.global_head_dim else { return Ok(attention) };
    let is_global = attention.window.is_none();
    let values_are_keys = is_global && keys.flag("attention_k_eq_v", false)?;
    let (head_dim, kv_heads) = if keys.optional("per_layer_config").is_some() {
        let own = keys.object("per_layer_config")?.object(&index.to_string())?;
        if let Some((key, _)) = own.iter().find(|(key, _)| !["head_dim", "num_key_value_heads"].contains(key)) {
            return own.bad(key, "it is not supported for single layers".into());
        }
        let head_dim = own.count_or("head_dim", HEAD_DIMS, attention.head_dim)?;
        (head_dim, own.count_or("num_key_value_heads", HEADS, attention.kv_heads)?)
    } else if is_global {
        let head_dim = keys.count_or("global_head_dim", HEAD_DIMS, default)?;
        let kv_heads = keys.nullable("num_global_key_value_heads", HEADS, None)?.filter(|_| values_are_keys);
        (head_dim, kv_heads.unwrap_or(attention.kv_heads))
    } else {
        (attention.head_dim, attention.kv_heads)
    };
    Ok(AttentionSpec { head_dim, kv_heads, values_are_keys, ..attention })
}

/// Returns the key and value heads of layers that have no other number.
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
    let kv_heads = keys.nullable("num_key_value_heads", HEADS, Some(default))?.unwrap_or(heads);
    if matches!(facts.kv_heads, KvHeads::MultiQuery) && kv_heads != default {
        return keys.bad("num_key_value_heads", format!("{kv_heads} where multi_query implies {default}"));
    }
    Ok(kv_heads)
}

/// Returns the width of each layer's MLP.
fn widths(keys: &Keys, facts: &Facts, naming: Naming, hidden_size: usize, mixers: &[Mixer]) -> Result<Vec<usize>> {
    let key = "intermediate_size";
    if let Some(Value::Array(_)) = keys.get(key) {
        let widths = keys.numbers(key, mixers.len(), *SIZES.start() as f64..=*SIZES.end() as f64)?;
        if let Some(width) = widths.iter().find(|width| width.fract() != 0.0) {
            return keys.bad(key, format!("{width} is not a whole number"));
        }
        return Ok(widths.into_iter().map(|width| width as usize).collect());
    }
    let size = match facts.mlp_ratio {
        Some(ratio) => keys.nullable(key, SIZES, None)?.unwrap_or(ratio * hidden_size),
        None => keys.count(key, SIZES)?,
    };
    if facts.adjusted_mlp && naming == Naming::HuggingFace && keys.flag("block_auto_adjust_ff_dim", true)? {
        let factor = keys.number_or("block_ffn_dim_multiplier", FACTORS, 1.0)?;
        let adjusted = ((2 * size / 3) as f64 * factor) as usize;
        let adjusted = adjusted.next_multiple_of(keys.count_or("block_multiple_of", SIZES, 256)?);
        if !SIZES.contains(&adjusted) {
            return keys.bad("block_ffn_dim_multiplier", format!("{adjusted} is no possible width of an MLP"));
        }
        return Ok(vec![adjusted; mixers.len()]);
    }
    let is_doubled = facts.global_head_dim.is_some() && keys.flag("use_double_wide_mlp", false)?;
    let factor = |mixer: &Mixer| match mixer {
        Mixer::Attention(AttentionSpec { kv_layer: Some(_), .. }) if is_doubled => 2,
        _ => 1,
    };
    Ok(mixers.iter().map(|mixer| size * factor(mixer)).collect())
}

/// Returns the mixer of each layer: `attention` with what differs, or a recurrent one.
fn mixers(
    keys: &Keys,
    facts: &Facts,
    naming: Naming,
    count: usize,
    hidden_size: usize,
    attention: &AttentionSpec,
) -> Result<Vec<Mixer>> {
    let has_window = match facts.slides {
        Slides::Never => false,
        Slides::Always | Slides::Pattern(_) => true,
        Slides::FromMaxWindowLayers | Slides::WithoutRotation => keys.flag("use_sliding_window", false)?,
    };
    let window = if has_window { keys.nullable("sliding_window", 1..=1 << 24, facts.sliding_window)? } else { None };
    let rotates = rotates(keys, facts, naming, count)?;
    let types = match facts.layer_types {
        LayerTypes::No => None,
        LayerTypes::Optional => keys.list("layer_types", count..=count)?,
    };
    let recurrent_kinds = recurrent_kinds(facts);
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
            None if !attends[i] => return recurrent(keys, facts, hidden_size),
            None => slides && window.is_some(),
            Some(Value::String(kind)) if recurrent_kinds.contains(&&kind[..]) => {
                return recurrent(keys, facts, hidden_size);
            }
            Some(Value::String(kind)) if kind == "full_attention" || kind == "attention" => false,
            Some(Value::String(kind)) if kind == "sliding_attention" => match window {
                Some(_) => true,
                None => return bad(format!("layer {i} has sliding_attention, but the model has no sliding_window")),
            },
            Some(other) => {
                let kinds = ["full_attention", "sliding_attention"].into_iter();
                let kinds: Vec<_> = kinds.chain(recurrent_kinds.first().copied()).collect();
                return bad(format!("{other} is not supported; supported: {}", kinds.join(", ")));
            }
        };
        let rotates = rotates && (slides || window.is_none() || facts.unrotated != Unrotated::WithoutWindow);
        let rope = if facts.ropes.len() > 1 { usize::from(slides) } else { 0 };
        let window = window.filter(|_| slides);
        let attention = AttentionSpec { window, rope: rotates.then_some(rope), ..attention.clone() };
        of_layer(keys, facts, i, attention).map(Mixer::Attention)
    };
    let mixers: Vec<_> = slides.into_iter().zip(rotates).enumerate().map(spec).collect::<Result<_>>()?;
    let ends_with_window = matches!(mixers.last(), Some(Mixer::Attention(last)) if last.window.is_some());
    if facts.global_head_dim.is_some() && ends_with_window {
        return keys.bad("layer_types", "the last layer must have full_attention".into());
    }
    Ok(mixers)
}

/// Returns the names in `layer_types` of layers without attention. GGUF files do not say of which kind such layers are.
fn recurrent_kinds(facts: &Facts) -> &'static [&'static str] {
    match facts.delta_net {
        _ if facts.short_conv.is_some() => &["conv", "recurrent"],
        Some(delta) if delta.replaces => &["linear_attention"],
        Some(_) => &["linear_attention", "mamba", "recurrent"],
        None => &[],
    }
}

/// Returns the mixer of layers without attention.
fn recurrent(keys: &Keys, facts: &Facts, hidden_size: usize) -> Result<Mixer> {
    if let Some(taps) = facts.short_conv {
        return Ok(Mixer::ShortConv { taps: keys.count_or("conv_L_cache", TAPS, taps)? });
    }
    let Some(default) = facts.delta_net else { return keys.bad("layer_types", "all layers have attention".into()) };
    let (keys_of, values_of) = ("linear_num_key_heads", "linear_num_value_heads");
    let value_heads = keys.count_or(values_of, HEADS, default.value_heads)?;
    let value_dim = match keys.optional("linear_value_head_dim").filter(|value| **value != "auto") {
        // Mamba-2 has twice the width of the residual stream.
        None if !default.replaces => {
            let expanded = keys.count_or("mamba_expand", 1..=16, 2)? * hidden_size;
            expanded / value_heads
        }
        _ => keys.count_or("linear_value_head_dim", HEAD_DIMS, default.value_dim)?,
    };
    let delta = DeltaSpec {
        key_heads: keys.count_or(keys_of, HEADS, default.key_heads)?,
        value_heads,
        key_dim: keys.count_or("linear_key_head_dim", KEY_DIMS, default.key_dim)?,
        value_dim,
        taps: keys.count_or("linear_conv_kernel_dim", TAPS, default.taps)?,
        replaces: default.replaces,
    };
    if !delta.key_dim.is_multiple_of(4) {
        return keys.bad("linear_key_head_dim", format!("{} is not a multiple of 4", delta.key_dim));
    }
    if !delta.value_heads.is_multiple_of(delta.key_heads) {
        return keys.bad(keys_of, format!("{} does not divide {values_of}, {}", delta.key_heads, delta.value_heads));
    }
    if !delta.replaces {
        check_mamba(keys, &delta)?;
    }
    Ok(Mixer::DeltaNet(delta))
}

/// Checks what only Mamba-2 has.
fn check_mamba(keys: &Keys, delta: &DeltaSpec) -> Result<()> {
    if !HEAD_DIMS.contains(&delta.value_dim) {
        let (least, most) = (HEAD_DIMS.start(), HEAD_DIMS.end());
        return keys.bad("linear_value_head_dim", format!("{} is not from {least} to {most}", delta.value_dim));
    }
    if !keys.flag("mamba_conv_bias", true)? {
        return keys.bad("mamba_conv_bias", "false is not supported: the model would compute something else".into());
    }
    let limits = keys.list("time_step_limit", 2..=2)?;
    let is_infinite = |value: &Value| *value == "Infinity" || value.is_null() || value["__float__"] == "Infinity";
    match limits {
        Some([least, most]) if least.as_f64() != Some(0.0) || !is_infinite(most) => {
            keys.bad("time_step_limit", "it is not supported, unless it is from 0 to infinity".into())
        }
        _ => Ok(()),
    }
}

/// Returns true for each layer that has attention, if `layer_types` is missing.
fn attends(keys: &Keys, facts: &Facts, count: usize) -> Result<Vec<bool>> {
    if facts.delta_net.is_some_and(|delta| delta.replaces) {
        let interval = keys.count_or("full_attention_interval", 1..=256, 4)?;
        return Ok((1..=count).map(|number| number % interval == 0).collect());
    }
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
fn rotates(keys: &Keys, facts: &Facts, naming: Naming, count: usize) -> Result<Vec<bool>> {
    if facts.unrotated == Unrotated::ByType {
        let rotates = match keys.optional("position_embedding_type") {
            // As in transformers and in llama.cpp.
            None => naming == Naming::Gguf,
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
