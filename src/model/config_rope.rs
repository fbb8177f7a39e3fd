//! Reads rotation and its scaling from `config.json`.

use super::architecture::{Facts, RopeFacts};
use super::keys::Keys;
use super::names::Naming;
use super::rope_spec::{QueryGrowth, RopeScaling, RopeSpec};
use super::spec::{AttentionSpec, LayerSpec};
use crate::error::Result;
use serde_json::Value;

/// Reads `rope_parameters` (transformers 5), or `rope_theta` and `rope_scaling` (older). Given both, `rope_scaling` wins, or is an error if
/// rotation differs by layer type. Without `rope_scaling`, the base in `rope_parameters` wins over `rope_theta`.
pub(super) fn ropes(
    keys: &Keys,
    facts: &Facts,
    naming: Naming,
    layers: &[LayerSpec],
    max_positions: usize,
) -> Result<Vec<RopeSpec>> {
    let scaling = keys.object("rope_scaling")?;
    let parameters = keys.object("rope_parameters")?;
    let nested = facts.ropes.iter().any(|rope| rope.layer_type.is_some());
    let known = |key: &str| facts.ropes.iter().any(|rope| rope.layer_type == Some(key));
    if let Some((key, _)) = parameters.iter().find(|(key, value)| nested != value.is_object() || nested != known(key)) {
        let reason = if nested { "only rotation by layer type is" } else { "rotation by layer type is not" };
        return parameters.bad(key, format!("{reason} supported"));
    }
    if nested && !scaling.is_empty() && !parameters.is_empty() {
        return keys.bad("rope_scaling", "it is given twice, here and in rope_parameters".into());
    }
    let rope = |(index, rope): (usize, &RopeFacts)| {
        let within = match rope.layer_type {
            None if scaling.is_empty() => &parameters,
            None => &scaling,
            // The older form has no entry for layers with a window.
            Some(_) if index == 0 && !scaling.is_empty() => &scaling,
            Some(layer_type) => &parameters.object(layer_type)?,
        };
        let of_table = |attention: &&AttentionSpec| attention.rope == Some(index);
        let attentions = || layers.iter().filter_map(LayerSpec::attention);
        let head_dim = attentions().find(of_table).or(attentions().next()).map_or(0, |attention| attention.head_dim);
        if attentions().filter(of_table).any(|attention| attention.head_dim != head_dim) {
            return keys.bad("per_layer_config", "layers of one type have heads of different sizes".into());
        }
        let theta_range = 1.0..=1e12;
        let theta = keys.number_or(rope.theta_key, theta_range.clone(), rope.theta)?;
        let theta = within.number_or("rope_theta", theta_range, theta)?;
        let rotary_dim = rotary_dim(keys, within, facts, head_dim)?;
        let mut scaling = scaling_of(keys, within, facts, head_dim, max_positions)?;
        if let RopeScaling::Yarn { truncate, .. } = &mut scaling {
            *truncate &= naming != Naming::Gguf || !facts.fractional_ramp;
        }
        let original = match &scaling {
            RopeScaling::Yarn { original_max_position_embeddings, .. } => *original_max_position_embeddings,
            _ => max_positions as f64,
        };
        let beta = within.optional("llama_4_scaling_beta").map(|_| within.number("llama_4_scaling_beta", 0.0..=1e3));
        Ok(RopeSpec {
            theta: theta * stretch(within, rotary_dim)?,
            rotary_dim,
            reversed: facts.reversed_rotation,
            scaling,
            query_growth: beta.transpose()?.filter(|beta| *beta > 0.0).map(|beta| QueryGrowth { beta, original }),
        })
    };
    facts.ropes.iter().enumerate().map(rope).collect()
}

/// Returns the leading elements of a head that rotate.
fn rotary_dim(keys: &Keys, within: &Keys, facts: &Facts, head_dim: usize) -> Result<usize> {
    let key = "partial_rotary_factor";
    if within.optional("rope_type").is_some_and(|kind| kind == "proportional") {
        return Ok(head_dim);
    }
    let from = if within.optional(key).is_some() { within } else { keys };
    let Some(default) = facts.rotary_factor else {
        return match from.optional(key) {
            Some(factor) if factor.as_f64() != Some(1.0) => {
                from.bad(key, "only 1 is supported: whole heads rotate".into())
            }
            _ => Ok(head_dim),
        };
    };
    let factor = if from.optional(key).is_some() { from.number(key, 0.0..=1.0)? } else { default };
    // Rounds down, but tolerates rounding errors of the product.
    let rotary = (head_dim as f64 * factor + 1e-6) as usize;
    if rotary == 0 || !rotary.is_multiple_of(2) {
        return from.bad(key, format!("{factor} of {head_dim} elements is no even number of them"));
    }
    Ok(rotary)
}

fn scaling_of(keys: &Keys, within: &Keys, facts: &Facts, head_dim: usize, max_positions: usize) -> Result<RopeScaling> {
    let positive = || 1e-3..=1e6;
    let kind = within.text("type", Some("default"))?;
    let kind = within.text("rope_type", Some(kind))?;
    let original = || {
        let (key, range) = ("original_max_position_embeddings", 1.0..=1e9);
        match (keys.optional(key), facts.original_positions) {
            (Some(_), _) => keys.number(key, range),
            (None, Some(positions)) => Ok(positions),
            (None, None) => within.number_or(key, range, max_positions as f64),
        }
    };
    match kind {
        "default" => Ok(RopeScaling::None),
        "proportional" if within.optional("factor").is_none() => {
            let factor = within.number_or("partial_rotary_factor", 0.0..=1.0, 1.0)?;
            Ok(RopeScaling::Proportional { pairs: (factor * head_dim as f64 / 2.0 + 1e-6) as usize })
        }
        "linear" => Ok(RopeScaling::Linear { factor: within.number("factor", positive())? }),
        "llama3" => {
            let low_freq_factor = within.number("low_freq_factor", positive())?;
            let high_freq_factor = within.number("high_freq_factor", positive())?;
            if high_freq_factor <= low_freq_factor {
                return within.bad("high_freq_factor", "it must be larger than low_freq_factor".into());
            }
            Ok(RopeScaling::Llama3 {
                factor: within.number("factor", positive())?,
                low_freq_factor,
                high_freq_factor,
                original_max_position_embeddings: original()?,
            })
        }
        "dynamic" if within.optional("alpha").is_some() => Ok(RopeScaling::None),
        "yarn" => yarn(within, original()?, max_positions),
        "longrope" | "su" => {
            let pairs = rotary_dim(keys, within, facts, head_dim)? / 2;
            let original = original()?;
            let factor = within.number_or("factor", positive(), max_positions as f64 / original)?;
            let attention_factor = if factor > 1.0 { (1.0 + factor.ln() / original.ln()).sqrt() } else { 1.0 };
            Ok(RopeScaling::LongRope {
                short_factor: within.numbers("short_factor", pairs, positive())?,
                long_factor: within.numbers("long_factor", pairs, positive())?,
                attention_factor: match within.optional("attention_factor") {
                    Some(_) => within.number("attention_factor", positive())?,
                    None => attention_factor,
                },
                original_max_position_embeddings: original,
            })
        }
        other => {
            let supported = "default, linear, llama3, longrope, proportional, yarn";
            within.bad("rope_type", format!("{other} is not supported; supported: {supported}"))
        }
    }
}

/// Returns the growth of attention scores for contexts longer by `factor` (YaRN).
pub fn yarn_growth(factor: f64, scale: f64) -> f64 {
    if factor > 1.0 { 0.1 * scale * factor.ln() + 1.0 } else { 1.0 }
}

fn yarn(within: &Keys, original: f64, max_positions: usize) -> Result<RopeScaling> {
    let positive = 1e-3..=1e6;
    let given = |key| within.optional(key).map(|_| within.number(key, positive.clone())).transpose();
    let factor = match within.get("factor") {
        Some(Value::Null) => max_positions as f64 / original,
        _ => within.number("factor", positive.clone())?,
    };
    let attention_factor = match (given("attention_factor")?, given("mscale")?, given("mscale_all_dim")?) {
        (Some(factor), ..) => factor,
        (None, Some(scale), Some(all)) => yarn_growth(factor, scale) / yarn_growth(factor, all),
        _ => yarn_growth(factor, 1.0),
    };
    Ok(RopeScaling::Yarn {
        factor,
        beta_fast: given("beta_fast")?.unwrap_or(32.0),
        beta_slow: given("beta_slow")?.unwrap_or(1.0),
        truncate: within.flag("truncate", true)?,
        attention_factor,
        original_max_position_embeddings: original,
    })
}

/// Returns the factor of the base that a fixed `alpha` implies (Hunyuan).
fn stretch(within: &Keys, rotary_dim: usize) -> Result<f64> {
    match within.optional("alpha") {
        Some(_) if rotary_dim > 2 => {
            let dim = rotary_dim as f64;
            Ok(within.number("alpha", 1e-3..=1e6)?.powf(dim / (dim - 2.0)))
        }
        _ => Ok(1.0),
    }
}
