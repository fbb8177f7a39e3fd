//! Conversion of a model's description to GGUF metadata, with a check that nothing is lost.

use super::header::Header;
use foretoken::internals::model::{
    AttentionSpec, ExpertScores, LayerSpec, Mixer, ModelSpec, Naming, NormKind, Residual, RopeScaling, RopeSpec,
    rotary_table, yarn_growth,
};
use serde_json::Value;
use std::f64::consts::TAU;

/// Factor of the wavelengths of pairs that do not rotate, as llama.cpp's converter writes it.
const UNROTATED: f32 = 1e30;

/// Adds the keys that llama.cpp reads.
pub(super) fn put(spec: &ModelSpec, header: &mut Header) {
    let architecture = spec.architecture.called(Naming::Gguf);
    header.text("general.architecture", architecture);
    let key = |name: &str| format!("{architecture}.{name}");
    let counts = [
        ("vocab_size", spec.vocab_size),
        ("context_length", spec.max_position_embeddings),
        ("block_count", spec.layers.len()),
        ("embedding_length", spec.hidden_size),
    ];
    counts.into_iter().for_each(|(name, count)| header.count(&key(name), count));
    let widths = || spec.layers.iter().map(|layer| layer.intermediate_size);
    if let Some(width) = shared_width(spec) {
        header.count(&key("feed_forward_length"), spec.largest(|layer| layer.expert_size));
        header.count(&key("expert_shared_feed_forward_length"), width);
    } else if widths().all(|width| width > 0) {
        put_layers(header, &key("feed_forward_length"), widths());
    } else {
        let of_experts = spec.largest(|layer| layer.expert_size);
        header.count(&key("feed_forward_length"), widths().find(|width| *width > 0).unwrap_or(of_experts));
    }
    if spec.layer_input_size > 0 {
        header.count(&key("embedding_length_per_layer_input"), spec.layer_input_size);
    }
    put_mixers(spec, header, key);
    put_experts(spec, header, key);
    match spec.norm {
        NormKind::Rms => header.number(&key("attention.layer_norm_rms_epsilon"), spec.norm_eps),
        NormKind::Layer => {
            header.number(&key("attention.layer_norm_epsilon"), spec.norm_eps);
            header.flag(&key("use_parallel_residual"), spec.residual == Residual::Parallel);
        }
    }
    let factors = [
        ("attention.scale", spec.attention_scale, spec.architecture.has_attention_multiplier()),
        ("embedding_scale", spec.embedding_scale, spec.architecture.has_attention_multiplier()),
        ("residual_scale", spec.residual_scale, spec.residual_scale != 1.0),
        ("attn_logit_softcapping", spec.attention_cap.unwrap_or(0.0), spec.attention_cap.is_some()),
        ("final_logit_softcapping", spec.logit_cap.unwrap_or(0.0), spec.logit_cap.is_some()),
    ];
    for (name, factor, _) in factors.into_iter().filter(|(.., is_given)| *is_given) {
        header.number(&key(name), f64::from(factor));
    }
    if let Some(scale) = spec.architecture.stored_logit_scale(spec.logit_scale) {
        header.number(&key("logit_scale"), f64::from(scale));
    }
    if !spec.learned_positions && spec.attentions().all(|attention| attention.rope.is_none()) {
        header.flag(&key("rope.scaling.finetuned"), false);
    }
    let Some(rope) = spec.ropes.first() else { return };
    header.count(&key("rope.dimension_count"), rope.rotary_dim);
    header.number(&key("rope.freq_base"), rope.theta);
    if let Some(of_windows) = spec.ropes.get(1) {
        header.number(&key("rope.freq_base_swa"), of_windows.theta);
        if of_windows.rotary_dim != rope.rotary_dim {
            header.count(&key("rope.dimension_count_swa"), of_windows.rotary_dim);
        }
    }
    if let Some(growth) = rope.query_growth {
        header.number(&key("attention.temperature_scale"), growth.beta);
        if !matches!(rope.scaling, RopeScaling::Yarn { .. }) {
            header.count(&key("rope.scaling.original_context_length"), growth.original as usize);
        }
    }
    match &rope.scaling {
        // The check of the written file refuses what it does not say.
        RopeScaling::None | RopeScaling::Proportional { .. } | RopeScaling::Llama3 { .. } => {}
        RopeScaling::Linear { factor } => {
            header.text(&key("rope.scaling.type"), "linear");
            header.number(&key("rope.scaling.factor"), *factor);
        }
        RopeScaling::Yarn {
            factor, beta_fast, beta_slow, attention_factor, original_max_position_embeddings, ..
        } => {
            header.text(&key("rope.scaling.type"), "yarn");
            header.number(&key("rope.scaling.factor"), *factor);
            header.count(&key("rope.scaling.original_context_length"), *original_max_position_embeddings as usize);
            header.number(&key("rope.scaling.yarn_beta_fast"), *beta_fast);
            header.number(&key("rope.scaling.yarn_beta_slow"), *beta_slow);
            header.number(&key("rope.scaling.attn_factor"), attention_factor / yarn_growth(*factor, 1.0));
        }
        RopeScaling::LongRope { attention_factor, original_max_position_embeddings, .. } => {
            header.number(&key("rope.scaling.attn_factor"), *attention_factor);
            let original = *original_max_position_embeddings as usize;
            header.count(&key("rope.scaling.original_context_length"), original);
        }
    }
}

/// Adds a number for each layer, or one for all.
fn put_layers(header: &mut Header, key: &str, numbers: impl Iterator<Item = usize>) {
    let numbers: Vec<_> = numbers.map(|number| number as i32).collect();
    match numbers.iter().all(|number| Some(number) == numbers.first()) {
        true => header.count(key, numbers.first().map_or(0, |number| *number as usize)),
        false => header.integers(key, &numbers),
    }
}

/// Returns the width of an MLP that llama.cpp calls a shared expert.
fn shared_width(spec: &ModelSpec) -> Option<usize> {
    spec.experts.filter(|experts| !experts.with_mlp)?;
    let both = spec.layers.iter().find(|layer| layer.intermediate_size > 0 && layer.expert_size > 0);
    both.map(|layer| layer.intermediate_size)
}

/// Adds the keys about experts.
fn put_experts(spec: &ModelSpec, header: &mut Header, key: impl Fn(&str) -> String) {
    let Some(experts) = spec.experts else { return };
    let width = spec.largest(|layer| layer.expert_size);
    let dense = spec.layers.iter().take_while(|layer| layer.expert_size == 0).count();
    let function = match experts.scores {
        ExpertScores::Softmax => 1,
        ExpertScores::Sigmoid => 2,
    };
    let counts = [
        ("expert_count", experts.count),
        ("expert_used_count", experts.chosen),
        ("expert_feed_forward_length", width),
        ("expert_shared_feed_forward_length", experts.shared * width),
        ("leading_dense_block_count", dense),
        ("expert_gating_func", function),
    ];
    counts.into_iter().filter(|(_, count)| *count > 0).for_each(|(name, count)| header.count(&key(name), count));
    header.flag(&key("expert_weights_norm"), experts.normalised);
    header.number(&key("expert_weights_scale"), f64::from(experts.scale));
}

/// Adds the keys about attention and recurrent mixers.
fn put_mixers(spec: &ModelSpec, header: &mut Header, key: impl Fn(&str) -> String) {
    let taps = spec.layers.iter().find_map(|layer| match layer.mixer {
        Mixer::ShortConv { taps } => Some(taps),
        Mixer::Attention(_) | Mixer::DeltaNet(_) => None,
    });
    let of_layer = |layer: &LayerSpec| layer.attention().map_or(0, |attention| attention.kv_heads);
    let global = spec.attentions().find(|attention| attention.window.is_none()).or(spec.attentions().next());
    let Some(AttentionSpec { heads, head_dim, .. }) = global else { return };
    header.count(&key("attention.head_count"), *heads);
    // Other keys list the layers with delta nets. Those with Mamba-2 have no heads here.
    let kv_heads =
        spec.layers.iter().filter(|layer| layer.delta_net().is_none_or(|delta| !delta.replaces)).map(of_layer);
    put_layers(header, &key("attention.head_count_kv"), kv_heads);
    if let Some(delta) = spec.layers.iter().find_map(LayerSpec::delta_net) {
        let attends = spec.layers.iter().position(|layer| layer.attention().is_some()).unwrap_or(0);
        let interval = if delta.replaces { attends + 1 } else { 0 };
        let counts = [
            ("full_attention_interval", interval),
            ("ssm.conv_kernel", delta.taps),
            ("ssm.state_size", delta.key_dim),
            ("ssm.group_count", delta.key_heads),
            ("ssm.time_step_rank", delta.value_heads),
            ("ssm.inner_size", delta.value_width()),
        ];
        let counts = counts.into_iter().filter(|(_, count)| *count > 0);
        counts.for_each(|(name, count)| header.count(&key(name), count));
        let recurs = spec.layers.iter().map(|layer| layer.delta_net().is_some());
        header.flags(&key("attention.recurrent_layers"), recurs);
    }
    if let Some(taps) = taps {
        header.count(&key("shortconv.l_cache"), taps);
    }
    header.count(&key("attention.key_length"), *head_dim);
    header.count(&key("attention.value_length"), *head_dim);
    if let Some(other) = spec.attentions().find(|attention| attention.head_dim != *head_dim) {
        header.count(&key("attention.key_length_swa"), other.head_dim);
        header.count(&key("attention.value_length_swa"), other.head_dim);
    }
    let sharing = spec.attentions().filter(|attention| attention.kv_layer.is_some()).count();
    if sharing > 0 {
        header.count(&key("attention.shared_kv_layers"), sharing);
    }
    if let Some(window) = spec.attentions().find_map(|attention| attention.window) {
        header.count(&key("attention.sliding_window"), window);
        if spec.attentions().any(|attention| attention.window.is_none()) {
            let slides = spec.layers.iter().map(|layer| layer.attention().is_some_and(|at| at.window.is_some()));
            header.flags(&key("attention.sliding_window_pattern"), slides);
        }
    }
}

/// Returns tensors that are part of the description: factors of wavelengths.
pub(super) fn factors(spec: &ModelSpec) -> Vec<(&'static str, Vec<f32>)> {
    let narrow = |factors: &[f64]| factors.iter().map(|factor| *factor as f32).collect();
    let Some(RopeSpec { theta, rotary_dim, scaling, .. }) = spec.ropes.first() else { return Vec::new() };
    match scaling {
        RopeScaling::None | RopeScaling::Linear { .. } | RopeScaling::Yarn { .. } => Vec::new(),
        RopeScaling::Proportional { pairs } => {
            let factors = (0..rotary_dim / 2).map(|pair| if pair < *pairs { 1.0 } else { UNROTATED });
            vec![("rope_freqs.weight", factors.collect())]
        }
        RopeScaling::LongRope { short_factor, long_factor, .. } => {
            vec![("rope_factors_long.weight", narrow(long_factor)), ("rope_factors_short.weight", narrow(short_factor))]
        }
        RopeScaling::Llama3 { factor, low_freq_factor, high_freq_factor, original_max_position_embeddings } => {
            let factors = (0..rotary_dim / 2).map(|pair| {
                let frequency = theta.powf(-((2 * pair) as f64) / *rotary_dim as f64);
                let turns = original_max_position_embeddings * frequency / TAU;
                let ramp = ((turns - low_freq_factor) / (high_freq_factor - low_freq_factor)).clamp(0.0, 1.0);
                1.0 / ((1.0 - ramp) / factor + ramp)
            });
            vec![("rope_freqs.weight", narrow(&factors.collect::<Vec<_>>()))]
        }
    }
}

/// Returns the first key that differs in the written file, with its expected value. Additional tokens that begin or end a text are no
/// difference, since the tokenizer may define them.
pub(super) fn difference(wanted: &ModelSpec, found: &ModelSpec) -> Option<(String, String)> {
    if let Some(end) = wanted.eos_token_id.iter().find(|end| !found.eos_token_id.contains(end)) {
        return Some(("eos_token_id".into(), end.to_string()));
    }
    let tables = |spec: &ModelSpec| -> Vec<f32> {
        spec.ropes.iter().flat_map(|rope| rotary_table(rope, spec.max_position_embeddings.min(4096))).collect()
    };
    let [ours, theirs] = [tables(wanted), tables(found)];
    if ours.len() != theirs.len() || ours.iter().zip(&theirs).any(|(a, b)| (a - b).abs() > 1e-3) {
        return Some(("rope_scaling".into(), format!("{:?}", wanted.ropes)));
    }
    let plain = |spec: &ModelSpec| {
        let bos_token_id = spec.bos_token_id.filter(|_| wanted.bos_token_id.is_some());
        let same = ModelSpec { naming: Naming::Gguf, architecture: wanted.architecture, bos_token_id, ..spec.clone() };
        serde_json::to_value(ModelSpec { ropes: Vec::new(), eos_token_id: Vec::new(), ..same }).unwrap_or_default()
    };
    let [ours, theirs] = [plain(wanted), plain(found)];
    let ours = ours.as_object()?.iter().find(|(key, value)| !alike(value, &theirs[key.as_str()]));
    ours.map(|(key, value)| (key.clone(), value.to_string()))
}

/// Returns true for equal values; numbers may have been rounded to f32.
fn alike(a: &Value, b: &Value) -> bool {
    match (a.as_f64(), b.as_f64()) {
        (Some(a), Some(b)) => (a - b).abs() <= 1e-6 * a.abs(),
        _ => a == b,
    }
}
