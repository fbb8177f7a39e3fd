//! Reads the experts of a model from `config.json`.

use super::architecture::{ExpertFacts, Facts};
use super::config::FACTORS;
use super::config_layers::SIZES;
use super::keys::Keys;
use super::names::Naming;
use super::spec::{ExpertScores, Experts};
use crate::error::Result;
use serde_json::Value;

/// Most experts of a layer, as in `shaders/route.wgsl`.
const MOST: usize = 512;
/// Most experts of a row, as in `shaders/route.wgsl`.
const MOST_CHOSEN: usize = 32;

/// Reads the experts; `None`: the model has none.
pub(super) fn experts(keys: &Keys, facts: &Facts, naming: Naming) -> Result<Option<Experts>> {
    let Some(facts) = facts.experts else { return Ok(None) };
    let key = ["num_local_experts", "num_experts"].into_iter().find(|key| keys.optional(key).is_some());
    let is_zero = key.is_some_and(|key| keys.optional(key).is_some_and(|count| *count == 0));
    if facts.optional && (is_zero || (key.is_none() && naming == Naming::Gguf)) {
        return Ok(None);
    }
    if facts.with_mlp {
        let is_enabled = match naming {
            Naming::HuggingFace => keys.flag("enable_moe_block", false)?,
            Naming::Gguf => keys.optional("num_experts").is_some(),
        };
        if !is_enabled {
            return Ok(None);
        }
        ["num_experts", "num_experts_per_tok", "moe_intermediate_size"]
            .iter()
            .try_for_each(|key| keys.required(key).map(drop))?;
    }
    // llama.cpp's numbers of the function. The third, a softmax of the chosen experts, is the first if weights are divided by their sum.
    let functions = match facts.scores {
        ExpertScores::Softmax if facts.normalised.is_none() => [1, 3],
        ExpertScores::Softmax => [1, 1],
        ExpertScores::Sigmoid => [2, 2],
    };
    if let Some(other) = keys.optional("scoring_func").filter(|other| functions.iter().all(|one| **other != *one)) {
        return keys
            .bad("scoring_func", format!("{other} is not supported in this architecture, only {}", functions[0]));
    }
    let count = keys.count_or(key.unwrap_or("num_experts"), 1..=MOST, facts.count)?;
    let chosen = keys.count_or("num_experts_per_tok", 1..=MOST_CHOSEN.min(count), facts.chosen.min(count))?;
    let normalised = match (facts.normalised, naming) {
        (Some(default), Naming::HuggingFace) => keys.flag("norm_topk_prob", default)?,
        (Some(_), Naming::Gguf) => keys.flag("norm_topk_prob", facts.gguf_normalised)?,
        (None, _) => true,
    };
    Ok(Some(Experts {
        count,
        chosen,
        shared: shared(keys, &facts)?,
        scores: facts.scores,
        normalised,
        bias: facts.bias && keys.flag("use_expert_bias", true)?,
        scale: keys.number_or("routed_scaling_factor", FACTORS, 1.0)? as f32,
        with_mlp: facts.with_mlp,
    }))
}

/// Returns the number of shared experts. They must be as wide as the others.
fn shared(keys: &Keys, facts: &ExpertFacts) -> Result<usize> {
    let key = "shared_expert_intermediate_size";
    let Some(default) = facts.shared else { return Ok(0) };
    let own = facts.width.map(|width| keys.count_or("moe_intermediate_size", SIZES, width)).transpose()?;
    match keys.count_or(key, SIZES, default)? {
        width if Some(width) == own => Ok(1),
        width => keys.bad(key, format!("{width} is not moe_intermediate_size, {own:?}")),
    }
}

/// Returns the width of each layer's experts, 0 if it has none, and takes away the MLP in whose place they are. `hidden_size` is that of a
/// model with experts.
pub(super) fn expert_sizes(
    keys: &Keys,
    facts: &Facts,
    naming: Naming,
    hidden_size: Option<usize>,
    widths: &mut [usize],
) -> Result<Vec<usize>> {
    let Some((facts, hidden_size)) = facts.experts.zip(hidden_size) else { return Ok(vec![0; widths.len()]) };
    // llama.cpp gives the MLP of such layers the name of a shared expert.
    let is_swapped = facts.optional && naming == Naming::Gguf;
    let dense = keys.count_or("num_dense_layers", 0..=1 << 16, facts.dense)?;
    let step = keys.count_or("decoder_sparse_step", 1..=1 << 16, 1)?;
    let listed = keys.list("mlp_only_layers", 0..=usize::MAX)?.map_or(&[][..], |listed| listed);
    let is_dense =
        |index: usize| index < dense || !(index + 1).is_multiple_of(step) || listed.contains(&Value::from(index));
    let key = if facts.width.is_some() { "moe_intermediate_size" } else { "intermediate_size" };
    let mut sizes = Vec::new();
    for (index, width) in widths.iter_mut().enumerate() {
        if is_dense(index) {
            sizes.push(0);
            continue;
        }
        let size = match facts.width {
            Some(default) if !is_swapped => keys.count_or(key, SIZES, default)?,
            _ => *width,
        };
        // Sixteen rows of a matrix are stored together, and must not belong to two experts.
        if !size.is_multiple_of(8) {
            return keys.bad(key, format!("{size} is not a multiple of 8"));
        }
        if !hidden_size.is_multiple_of(16) {
            return keys.bad("hidden_size", format!("{hidden_size} is not a multiple of 16, in a model with experts"));
        }
        sizes.push(size);
        if is_swapped {
            *width = keys.count("shared_expert_intermediate_size", SIZES)?;
        } else if !facts.with_mlp && !facts.optional {
            *width = 0;
        }
    }
    Ok(sizes)
}
