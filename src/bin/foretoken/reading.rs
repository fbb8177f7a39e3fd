//! Display of a model's config.

use foretoken::internals::model::{Activation, LayerSpec, ModelSpec, NormKind, Residual, RopeScaling, RopeSpec};

/// Returns lines of title and text.
pub(super) fn reading(spec: &ModelSpec) -> Vec<(&'static str, String)> {
    let biases = |there, of: &str| if there { format!("biases of {of}") } else { format!("no biases of {of}") };
    let norm = match spec.norm {
        NormKind::Rms => "RMS norm",
        NormKind::Layer => "layer norm",
    };
    let residual = match spec.residual {
        Residual::Sequential => "attention, then the MLP",
        Residual::Parallel => "attention and MLP side by side, of the same rows",
        Residual::PostNorms => "attention, then the MLP; each normalised once more before it is added",
    };
    let mut lines = vec![("norm", format!("{norm}, eps {:e}", spec.norm_eps)), ("residual", residual.into())];
    if spec.learned_positions {
        lines.push(("positions", format!("{} learned embeddings", spec.max_position_embeddings)));
    }
    for (index, rope) in spec.ropes.iter().enumerate() {
        let layers = of_layers(spec, |layer| layer.rope == Some(index));
        lines.push(("positions", format!("{}; {layers}", described(rope, spec.head_dim))));
    }
    let windows = spec.layers.iter().find_map(|layer| layer.window);
    lines.push(match windows {
        None => ("windows", "none: every layer sees all positions".into()),
        Some(window) => ("windows", format!("{window} positions; {}", of_layers(spec, |layer| layer.window.is_some()))),
    });
    let mut attention = vec![
        format!("scores times {}", spec.attention_scale),
        biases(spec.qkv_bias, "q, k, v"),
        biases(spec.output_bias, "the output"),
    ];
    if spec.qk_norm {
        attention.push("each head of q and k normalised".into());
    }
    lines.push(("attention", attention.join(", ")));
    let activation = match spec.mlp.activation {
        Activation::Silu => "silu",
        Activation::Gelu => "gelu",
        Activation::GeluTanh => "gelu by tanh",
        Activation::Relu => "relu",
    };
    let kind = if spec.mlp.gated { "gated by" } else { "plain, with" };
    lines.push(("MLP", format!("{kind} {activation}, {}", biases(spec.mlp.bias, "its projections"))));
    let head = if spec.tie_word_embeddings { "the LM head too" } else { "with an LM head beside it" };
    let scale = if spec.embedding_scale == 1.0 { String::new() } else { format!("times {}, ", spec.embedding_scale) };
    lines.push(("embedding", format!("{scale}{head}")));
    lines
}

fn described(rope: &RopeSpec, head_dim: usize) -> String {
    let scaling = match &rope.scaling {
        RopeScaling::None => String::new(),
        RopeScaling::Linear { factor } => format!(", stretched by {factor}"),
        RopeScaling::Llama3 { factor, original_max_position_embeddings, .. } => {
            format!(", long waves stretched by {factor} from {original_max_position_embeddings} positions (llama3)")
        }
        RopeScaling::LongRope { attention_factor, original_max_position_embeddings: original, .. } => {
            format!(
                ", two lists of factors, up to {original} positions and beyond, times {attention_factor} (longrope)"
            )
        }
    };
    format!("rotary, {} of {head_dim} elements of a head, base {}{scaling}", rope.rotary_dim, rope.theta)
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
