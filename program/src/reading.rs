//! Display of a model's config.

use foretoken::internals::model::{
    Activation, AttentionGate, AttentionSpec, DeltaSpec, LayerSpec, Mixer, ModelSpec, NormKind, QkNorm, Residual,
    RopeScaling, RopeSpec,
};

/// Describes the MTP layer of a model.
pub(super) fn mtp_layer(spec: &ModelSpec) -> Vec<(&'static str, String)> {
    let of_layer = |layer: &LayerSpec| format!("by an MTP layer with {}, {}", mixer(layer), mlp(spec, layer));
    spec.layers.iter().map(|layer| ("drafting", of_layer(layer))).collect()
}

/// Returns lines of title and text.
pub(super) fn reading(spec: &ModelSpec) -> Vec<(&'static str, String)> {
    let biases = |there, of: &str| if there { format!("biases of {of}") } else { format!("no biases of {of}") };
    let norm = match spec.norm {
        NormKind::Rms => "RMS norm",
        NormKind::Layer => "layer norm",
    };
    let gain = if spec.norm_gain { "" } else { " without gains" };
    let residual = match spec.residual {
        Residual::Sequential => "attention, then the MLP",
        Residual::Parallel => "attention and MLP side by side, of the same rows",
        Residual::ParallelOneNorm => "attention and MLP side by side, after one norm",
        Residual::PostNorms => "attention, then the MLP; each normalised once more before it is added",
        Residual::OnlyPostNorms => "attention, then the MLP; each normalised only before it is added",
    };
    let factor = if spec.residual_scale == 1.0 { String::new() } else { format!("; times {}", spec.residual_scale) };
    let mut lines =
        vec![("norm", format!("{norm}{gain}, eps {:e}", spec.norm_eps)), ("residual", format!("{residual}{factor}"))];
    if spec.learned_positions {
        lines.push(("positions", format!("{} learned embeddings", spec.max_position_embeddings)));
    }
    for (index, rope) in spec.ropes.iter().enumerate() {
        let rotates = |layer: &LayerSpec| layer.attention().is_some_and(|attention| attention.rope == Some(index));
        lines.push(("positions", format!("{}; {}", described(rope), of_layers(spec, rotates))));
    }
    let mut kinds: Vec<&LayerSpec> = Vec::new();
    for layer in &spec.layers {
        if !kinds.contains(&layer) {
            kinds.push(layer);
            let count = spec.layers.iter().filter(|other| *other == layer).count();
            let numbers = of_layers(spec, |other| other == layer);
            lines.push(("layers", format!("{count} with {}, {}; {numbers}", mixer(layer), mlp(spec, layer))));
        }
    }
    if let Some(at_once) = spec.at_once {
        lines.push(("drafting", format!("several tokens in one pass, at rows that read token {}", at_once.mask_token)));
    }
    let mut attention = vec![
        format!("scores times {}", spec.attention_scale),
        biases(spec.qkv_bias, "q, k, v"),
        biases(spec.output_bias, "the output"),
    ];
    attention.extend(spec.attention_gate.map(|gate| match gate {
        AttentionGate::Heads => "a gate for each head".to_owned(),
        AttentionGate::Elements => "a gate for each element".to_owned(),
    }));
    attention.extend(spec.attention_sinks.then(|| "a sink for each head".to_owned()));
    attention.extend(spec.attention_cap.map(|cap| format!("scores bounded by {cap}")));
    attention.extend(spec.qk_norm.map(|norm| {
        let norm = match norm {
            QkNorm::Heads => "each head of q and k normalised",
            QkNorm::RotatedHeads => "each head of q and k normalised after rotation",
            QkNorm::Width => "q and k normalised over all heads",
            QkNorm::HeadsAndValues => "each head of q, k and v normalised",
        };
        norm.to_owned()
    }));
    lines.push(("attention", attention.join(", ")));
    let activation = match spec.mlp.activation {
        Activation::Silu => "silu",
        Activation::Gelu => "gelu",
        Activation::GeluTanh => "gelu by tanh",
        Activation::Relu => "relu",
        Activation::ReluSquared => "relu squared",
        Activation::ClampedSwiglu => "clamped swiglu",
    };
    let kind = if spec.mlp.gated { "gated by" } else { "plain, with" };
    lines.push(("MLP", format!("{kind} {activation}, {}", biases(spec.mlp.bias, "its projections"))));
    let head = if spec.tie_word_embeddings { "the LM head too" } else { "with an LM head beside it" };
    let scale = if spec.embedding_scale == 1.0 { String::new() } else { format!("times {}, ", spec.embedding_scale) };
    let norm = if spec.embedding_norm { "normalised, " } else { "" };
    lines.push(("embedding", format!("{scale}{norm}{head}")));
    if spec.layer_input_size > 0 {
        lines.push(("inputs", format!("{} numbers for each layer, from a second embedding", spec.layer_input_size)));
    }
    if spec.layer_scale {
        lines.push(("factors", "the residual stream times a number after each layer".into()));
    }
    let mut logits = Vec::new();
    if spec.head_bias {
        logits.push("with a bias".to_owned());
    }
    if spec.logit_scale != 1.0 {
        logits.push(format!("times {}", spec.logit_scale));
    }
    logits.extend(spec.logit_cap.map(|cap| format!("bounded by {cap}")));
    if !logits.is_empty() {
        lines.push(("logits", logits.join(", ")));
    }
    lines
}

/// Describes the MLP of a layer.
fn mlp(spec: &ModelSpec, layer: &LayerSpec) -> String {
    let LayerSpec { intermediate_size, expert_size, .. } = layer;
    let mlp = (*intermediate_size > 0).then(|| format!("MLP {intermediate_size}"));
    let experts = spec.experts.filter(|_| *expert_size > 0).map(|experts| {
        let shared = if experts.shared > 0 { " and a shared one" } else { "" };
        format!("{} of {} experts of {expert_size}{shared} per row", experts.chosen, experts.count)
    });
    mlp.into_iter().chain(experts).collect::<Vec<_>>().join(" and ")
}

/// Describes the mixer of a layer.
fn mixer(layer: &LayerSpec) -> String {
    match &layer.mixer {
        Mixer::ShortConv { taps } => format!("a convolution over {taps} positions"),
        Mixer::DeltaNet(DeltaSpec { key_heads, value_heads, key_dim, value_dim, taps, replaces }) => format!(
            "{}: {value_heads} states of {key_dim} x {value_dim}, {key_heads} heads of q and k, after a convolution over \
             {taps} positions",
            if *replaces { "a delta net" } else { "Mamba-2" },
        ),
        Mixer::Attention(AttentionSpec { heads, kv_heads, head_dim, window, rope, kv_layer, values_are_keys }) => {
            let seen =
                window.map_or_else(|| "all positions".into(), |window| format!("a window of {window} positions"));
            let rotation = if rope.is_some() { "" } else { ", without rotation" };
            let source = kv_layer.map(|layer| format!(" of layer {layer}")).unwrap_or_default();
            let values = if *values_are_keys { ", values projected like keys" } else { "" };
            format!("attention over {seen}: {heads} heads of {head_dim}, {kv_heads} KV heads{source}{values}{rotation}")
        }
    }
}

fn described(rope: &RopeSpec) -> String {
    let scaling = match &rope.scaling {
        RopeScaling::None => String::new(),
        RopeScaling::Proportional { pairs } => format!(", the first {pairs} pairs only"),
        RopeScaling::Linear { factor } => format!(", stretched by {factor}"),
        RopeScaling::Llama3 { factor, original_max_position_embeddings, .. } => {
            format!(", long waves stretched by {factor} from {original_max_position_embeddings} positions (llama3)")
        }
        RopeScaling::Yarn { factor, original_max_position_embeddings: original, attention_factor, .. } => {
            format!(", long waves stretched by {factor} from {original} positions, times {attention_factor} (yarn)")
        }
        RopeScaling::LongRope { attention_factor, original_max_position_embeddings: original, .. } => {
            format!(
                ", two lists of factors, up to {original} positions and beyond, times {attention_factor} (longrope)"
            )
        }
    };
    let growth = rope.query_growth.map(|growth| format!(", q grows every {} positions", growth.original));
    let growth = growth.unwrap_or_default();
    let sign = if rope.reversed { ", by negative angles" } else { "" };
    format!("rotary, {} elements of a head, base {}{sign}{scaling}{growth}", rope.rotary_dim, rope.theta)
}

/// Returns the layers for which `is` holds, counted from 0.
fn of_layers(spec: &ModelSpec, is: impl Fn(&LayerSpec) -> bool) -> String {
    let list = |wanted: bool| {
        let found = spec.layers.iter().enumerate().filter(|(_, layer)| is(layer) == wanted);
        found.map(|(index, _)| index.to_string()).collect::<Vec<_>>()
    };
    let (those, others) = (list(true), list(false));
    match others.len() {
        0 => "all layers".into(),
        count if count < those.len() => format!("all layers but {}", others.join(", ")),
        _ => format!("layers {}", those.join(", ")),
    }
}
