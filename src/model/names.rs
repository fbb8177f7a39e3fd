//! Names of a checkpoint's tensors, and their layout.

mod drafter;
mod experts;

pub use experts::ExpertNames;
pub(super) use experts::{GGUF_GPT_OSS, GPT_OSS, GRANITE_MOE, LFM2_MOE};

use super::elements::Elements;
use experts::{EXPERTS, GGUF_EXPERTS};
use serde::Serialize;

/// Convention for names and layouts of tensors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Naming {
    /// Convention of transformers.
    HuggingFace,
    /// Convention of llama.cpp, whose converter also rearranges some tensors.
    Gguf,
}

/// Tensors of an architecture: names without `.weight` and `.bias`. Tensors of a layer have the prefix `{layers}.{i}.`. Names that an
/// architecture lacks are not used.
#[derive(Debug, Clone, Copy)]
pub struct Names {
    /// Embedding table [vocab, hidden].
    pub embedding: &'static str,
    /// Learned embeddings of positions [positions, hidden].
    pub positions: &'static str,
    /// Gain of the last norm [hidden].
    pub final_norm: &'static str,
    /// LM head [vocab, hidden], if not tied.
    pub head: &'static str,
    /// Prefix of the layers.
    pub layers: &'static str,
    /// Norm before attention.
    pub attention_norm: &'static str,
    /// Projections to q, k and v: three tensors, or one with the rows of all three.
    pub qkv: &'static [&'static str],
    /// Output projection of attention.
    pub o: &'static str,
    /// One more score of each head [heads], with its suffix.
    pub sinks: &'static str,
    /// Projection to a gate for each head [heads, hidden].
    pub attention_gate: &'static str,
    /// Projection of a short convolution to b, c and x, in this order [3 hidden, hidden].
    pub conv_in: &'static str,
    /// Weights of a short convolution [hidden, 1, taps] or [hidden, taps].
    pub conv: &'static str,
    /// Output projection of a short convolution.
    pub conv_out: &'static str,
    /// Tensors of a gated delta net.
    pub delta: DeltaNames,
    /// Norm of each head of q [head_dim].
    pub q_norm: &'static str,
    /// Norm of each head of k [head_dim].
    pub k_norm: &'static str,
    /// Norm of attention's output before it is added to the residual stream.
    pub post_attention_norm: &'static str,
    /// Norm before the MLP.
    pub mlp_norm: &'static str,
    /// Input projections of the MLP: gate and up, as two tensors or as one; or up alone.
    pub up: &'static [&'static str],
    /// Output projection of the MLP.
    pub down: &'static str,
    /// Tensors of experts.
    pub experts: ExpertNames,
    /// Norm of the MLP's output before it is added to the residual stream.
    pub post_mlp_norm: &'static str,
    /// Second embedding table, of the inputs of all layers [vocab, layers, layer input].
    pub layer_embedding: &'static str,
    /// Projection of the embedding to the inputs of all layers [layers, layer input, hidden].
    pub layer_inputs: &'static str,
    /// Norm of each of these inputs [layer input].
    pub layer_input_norm: &'static str,
    /// Projection to the gate of a layer's input [layer input, hidden].
    pub layer_gate: &'static str,
    /// Projection of a layer's gated input into the residual stream [hidden, layer input].
    pub layer_output: &'static str,
    /// Norm after this projection [hidden].
    pub layer_output_norm: &'static str,
    /// Factor of the residual stream after a layer [1], with its suffix.
    pub layer_scale: &'static str,
    /// `true`: rows of the fused tensor are grouped by KV head: the query heads that share it, then k, then v.
    pub interleaved: bool,
    /// `true`: matrices of the layers are transposed, [inputs, outputs].
    pub transposed: bool,
    /// `true`: the two rows of a head of q or k that rotate together are adjacent, as the kernels require.
    pub neighbours: bool,
    /// `true`: gains of norms are stored as their difference from 1.
    pub gains_from_one: bool,
}

/// Tensors of a gated delta net or a Mamba-2: names without `.weight`, and without `.bias` where there is no weight.
#[derive(Debug, Clone, Copy)]
pub struct DeltaNames {
    /// Projection to q, k and v, stacked; in Mamba-2 to the gates, v, k, q and the decay.
    pub qkv: &'static str,
    /// Projection to the gates of the output [value_heads, value_dim, hidden].
    pub gate: &'static str,
    /// Projection to the write strength of each head of v [value_heads, hidden].
    pub write: &'static str,
    /// Projection to the decay of each head of v [value_heads, hidden].
    pub decay: &'static str,
    /// Weights of the convolution of q, k and v [conv_width, 1, taps] or [conv_width, taps].
    pub conv: &'static str,
    /// Factor of v in the output of Mamba-2 [value_heads], with its suffix.
    pub skip: &'static str,
    /// Speed of the decay [value_heads], with its suffix.
    pub rates: &'static str,
    /// Speed of the decay, made of stored numbers.
    pub rate_elements: Elements,
    /// Bias of the decay [value_heads], with its suffix.
    pub bias: &'static str,
    /// Norm of each head of the output [value_dim].
    pub norm: &'static str,
    /// Output projection [hidden, value_heads, value_dim].
    pub out: &'static str,
    /// `true`: heads of v that share a head of k are `key_heads` apart; `false`: they are adjacent.
    pub tiled: bool,
}

const DELTA: DeltaNames = DeltaNames {
    qkv: "linear_attn.in_proj_qkv",
    gate: "linear_attn.in_proj_z",
    write: "linear_attn.in_proj_b",
    decay: "linear_attn.in_proj_a",
    conv: "linear_attn.conv1d",
    skip: "",
    rates: "linear_attn.A_log",
    rate_elements: Elements::Exponential,
    bias: "linear_attn.dt_bias",
    norm: "linear_attn.norm",
    out: "linear_attn.out_proj",
    tiled: false,
};

const GGUF_DELTA: DeltaNames = DeltaNames {
    qkv: "attn_qkv",
    gate: "attn_gate",
    write: "ssm_beta",
    decay: "ssm_alpha",
    conv: "ssm_conv1d",
    skip: "ssm_d",
    rates: "ssm_a",
    rate_elements: Elements::Negative,
    bias: "ssm_dt.bias",
    norm: "ssm_norm",
    out: "ssm_out",
    tiled: true,
};

const MAMBA: DeltaNames = DeltaNames {
    qkv: "mamba.in_proj",
    conv: "mamba.conv1d",
    skip: "mamba.D",
    rates: "mamba.A_log",
    bias: "mamba.dt_bias",
    norm: "mamba.norm",
    out: "mamba.out_proj",
    ..DELTA
};

const GGUF_MAMBA: DeltaNames = DeltaNames { qkv: "ssm_in", tiled: false, ..GGUF_DELTA };

pub(super) const LLAMA: Names = Names {
    embedding: "model.embed_tokens",
    positions: "",
    final_norm: "model.norm",
    head: "lm_head",
    layers: "model.layers",
    attention_norm: "input_layernorm",
    qkv: &["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"],
    o: "self_attn.o_proj",
    sinks: "",
    attention_gate: "",
    conv_in: "",
    conv: "",
    conv_out: "",
    delta: DELTA,
    q_norm: "self_attn.q_norm",
    k_norm: "self_attn.k_norm",
    post_attention_norm: "",
    mlp_norm: "post_attention_layernorm",
    up: &["mlp.gate_proj", "mlp.up_proj"],
    down: "mlp.down_proj",
    experts: EXPERTS,
    post_mlp_norm: "",
    layer_embedding: "",
    layer_inputs: "",
    layer_input_norm: "",
    layer_gate: "",
    layer_output: "",
    layer_output_norm: "",
    layer_scale: "",
    interleaved: false,
    transposed: false,
    neighbours: false,
    gains_from_one: false,
};

pub(super) const GEMMA3: Names = Names {
    post_attention_norm: "post_attention_layernorm",
    mlp_norm: "pre_feedforward_layernorm",
    post_mlp_norm: "post_feedforward_layernorm",
    gains_from_one: true,
    ..LLAMA
};

pub(super) const GEMMA4: Names = Names {
    layer_embedding: "model.embed_tokens_per_layer",
    layer_inputs: "model.per_layer_model_projection",
    layer_input_norm: "model.per_layer_projection_norm",
    layer_gate: "per_layer_input_gate",
    layer_output: "per_layer_projection",
    layer_output_norm: "post_per_layer_input_norm",
    layer_scale: "layer_scalar",
    gains_from_one: false,
    experts: ExpertNames {
        router: "router.proj.weight",
        up: &["experts.gate_up_proj"],
        down: "experts.down_proj",
        ..EXPERTS
    },
    ..GEMMA3
};

pub(super) const GGUF_GEMMA4: Names = Names {
    layer_embedding: "per_layer_token_embd",
    layer_inputs: "per_layer_model_proj",
    layer_input_norm: "per_layer_proj_norm",
    layer_gate: "inp_gate",
    layer_output: "proj",
    layer_output_norm: "post_norm",
    layer_scale: "layer_output_scale.weight",
    experts: ExpertNames { up: &["ffn_gate_up_exps.weight"], ..GGUF_EXPERTS },
    ..GGUF
};

pub(super) const PHI3: Names = Names { qkv: &["self_attn.qkv_proj"], up: &["mlp.gate_up_proj"], ..LLAMA };

pub(super) const GPT2: Names = Names {
    embedding: "transformer.wte",
    positions: "transformer.wpe",
    final_norm: "transformer.ln_f",
    layers: "transformer.h",
    attention_norm: "ln_1",
    qkv: &["attn.c_attn"],
    o: "attn.c_proj",
    mlp_norm: "ln_2",
    up: &["mlp.c_fc"],
    down: "mlp.c_proj",
    transposed: true,
    ..LLAMA
};

pub(super) const GPT_BIG_CODE: Names = Names { interleaved: true, transposed: false, ..GPT2 };

pub(super) const GPT_NEO_X: Names = Names {
    embedding: "gpt_neox.embed_in",
    final_norm: "gpt_neox.final_layer_norm",
    head: "embed_out",
    layers: "gpt_neox.layers",
    qkv: &["attention.query_key_value"],
    o: "attention.dense",
    up: &["mlp.dense_h_to_4h"],
    down: "mlp.dense_4h_to_h",
    interleaved: true,
    ..LLAMA
};

pub(super) const GGUF: Names = Names {
    embedding: "token_embd",
    positions: "position_embd",
    final_norm: "output_norm",
    head: "output",
    layers: "blk",
    attention_norm: "attn_norm",
    qkv: &["attn_q", "attn_k", "attn_v"],
    o: "attn_output",
    q_norm: "attn_q_norm",
    k_norm: "attn_k_norm",
    post_attention_norm: "post_attention_norm",
    mlp_norm: "ffn_norm",
    up: &["ffn_gate", "ffn_up"],
    down: "ffn_down",
    post_mlp_norm: "post_ffw_norm",
    experts: GGUF_EXPERTS,
    delta: GGUF_DELTA,
    ..LLAMA
};

/// Names for models whose q and k the converter permutes.
pub(super) const GGUF_PERMUTED: Names = Names { neighbours: true, ..GGUF };

/// Names for models with a fused q, k and v tensor and one input projection of the MLP.
pub(super) const GGUF_FUSED: Names = Names { qkv: &["attn_qkv"], up: &["ffn_up"], ..GGUF };

pub(super) const ERNIE4_5: Names = Names { neighbours: true, ..LLAMA };

pub(super) const STAR_CODER2: Names = Names { up: &["mlp.c_fc"], down: "mlp.c_proj", ..LLAMA };

pub(super) const GLM4: Names = Names {
    post_attention_norm: "post_self_attn_layernorm",
    up: &["mlp.gate_up_proj"],
    post_mlp_norm: "post_mlp_layernorm",
    neighbours: true,
    ..LLAMA
};

pub(super) const QWEN3_5: Names = Names { gains_from_one: true, ..LLAMA };

pub(super) const GGUF_POST_ATTENTION: Names = Names { mlp_norm: "post_attention_norm", ..GGUF };

pub(super) const GGUF_PLAIN_MLP: Names = Names { up: &["ffn_up"], ..GGUF };

pub(super) const GGUF_GLM4: Names = Names { up: &["ffn_up"], ..GGUF_PERMUTED };

pub(super) const GRANITE_MOE_HYBRID: Names = Names {
    up: &["shared_mlp.input_linear"],
    down: "shared_mlp.output_linear",
    experts: ExpertNames {
        shared_up: &["shared_mlp.input_linear"],
        shared_down: "shared_mlp.output_linear",
        ..GRANITE_MOE.experts
    },
    delta: MAMBA,
    ..LLAMA
};

pub(super) const GGUF_GRANITE_HYBRID: Names = Names { delta: GGUF_MAMBA, ..GGUF_PERMUTED };

pub(super) const OLMO2: Names =
    Names { post_attention_norm: "post_attention_layernorm", post_mlp_norm: "post_feedforward_layernorm", ..LLAMA };

pub(super) const HUNYUAN_DENSE: Names =
    Names { q_norm: "self_attn.query_layernorm", k_norm: "self_attn.key_layernorm", ..LLAMA };

pub(super) const COHERE2: Names = Names { neighbours: true, ..LLAMA };

pub(super) const PHI: Names =
    Names { final_norm: "model.final_layernorm", o: "self_attn.dense", up: &["mlp.fc1"], down: "mlp.fc2", ..LLAMA };

pub(super) const LFM2: Names = Names {
    final_norm: "model.embedding_norm",
    attention_norm: "operator_norm",
    o: "self_attn.out_proj",
    conv_in: "conv.in_proj",
    conv: "conv.conv",
    conv_out: "conv.out_proj",
    q_norm: "self_attn.q_layernorm",
    k_norm: "self_attn.k_layernorm",
    mlp_norm: "ffn_norm",
    up: &["feed_forward.w1", "feed_forward.w3"],
    down: "feed_forward.w2",
    ..LLAMA
};

pub(super) const GGUF_LFM2: Names = Names {
    final_norm: "token_embd_norm",
    conv_in: "shortconv.in_proj",
    conv: "shortconv.conv",
    conv_out: "shortconv.out_proj",
    ..GGUF
};

pub(super) const NANO_CHAT: Names = Names { up: &["mlp.fc1"], down: "mlp.fc2", ..LLAMA };

pub(super) const LFM3: Names = Names {
    o: LLAMA.o,
    attention_gate: "self_attn.gate_proj",
    q_norm: LLAMA.q_norm,
    k_norm: LLAMA.k_norm,
    post_attention_norm: "post_operator_norm",
    post_mlp_norm: "post_ffn_norm",
    ..LFM2
};
