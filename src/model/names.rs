//! What the tensors of an architecture are called in its checkpoints.

use super::spec::Architecture;

/// Tensor names; those of a layer are prefixed with `{layers}.{i}.`.
#[derive(Debug, Clone, Copy)]
pub struct Names {
    /// Embedding table [vocab, hidden].
    pub embedding: &'static str,
    /// Gain of the last norm [hidden].
    pub final_norm: &'static str,
    /// LM head [vocab, hidden] where it is not tied.
    pub head: &'static str,
    /// Prefix of the layers.
    pub layers: &'static str,
    /// Gain of the norm before attention.
    pub attention_norm: &'static str,
    /// Projections, without `.weight` and `.bias`.
    pub q: &'static str,
    /// As `q`.
    pub k: &'static str,
    /// As `q`.
    pub v: &'static str,
    /// As `q`.
    pub o: &'static str,
    /// Gains [head_dim] of the norms of q and k.
    pub q_norm: &'static str,
    /// As `q_norm`.
    pub k_norm: &'static str,
    /// Gain of the norm before the MLP.
    pub mlp_norm: &'static str,
    /// As `q`.
    pub gate: &'static str,
    /// As `q`.
    pub up: &'static str,
    /// As `q`.
    pub down: &'static str,
}

const LLAMA: Names = Names {
    embedding: "model.embed_tokens.weight",
    final_norm: "model.norm.weight",
    head: "lm_head.weight",
    layers: "model.layers",
    attention_norm: "input_layernorm.weight",
    q: "self_attn.q_proj",
    k: "self_attn.k_proj",
    v: "self_attn.v_proj",
    o: "self_attn.o_proj",
    q_norm: "self_attn.q_norm.weight",
    k_norm: "self_attn.k_norm.weight",
    mlp_norm: "post_attention_layernorm.weight",
    gate: "mlp.gate_proj",
    up: "mlp.up_proj",
    down: "mlp.down_proj",
};

impl Architecture {
    /// The names its checkpoints use.
    pub fn names(self) -> &'static Names {
        match self {
            Self::Llama | Self::Mistral | Self::Qwen2 | Self::Qwen3 | Self::SmolLm3 => &LLAMA,
        }
    }
}
