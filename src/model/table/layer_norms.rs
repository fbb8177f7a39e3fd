//! Rows for models with layer norms.

use super::LLAMA;
use crate::model::architecture::{
    AttentionScale, Facts, KvHeads, LayerTypes, NormKind, ProjectionBias, Residual, Slides, Unrotated,
};
use crate::model::names;

pub(in crate::model) const GPT2: Facts = Facts {
    model_type: "gpt2",
    gguf: "gpt2",
    names: &names::GPT2,
    gguf_names: &names::GGUF_FUSED,
    keys: &[
        ("hidden_size", "n_embd"),
        ("intermediate_size", "n_inner"),
        ("num_attention_heads", "n_head"),
        ("num_hidden_layers", "n_layer"),
        ("max_position_embeddings", "n_positions"),
        ("hidden_act", "activation_function"),
        ("rms_norm_eps", "layer_norm_epsilon"),
    ],
    norm: NormKind::Layer,
    norm_eps: 1e-5,
    learned_positions: true,
    ropes: &[],
    attention_scale: AttentionScale::Optional,
    qkv_bias: ProjectionBias::Yes,
    output_bias: ProjectionBias::Yes,
    gated: false,
    activation: "gelu_new",
    mlp_bias: ProjectionBias::Yes,
    mlp_ratio: Some(4),
    tie_word_embeddings: true,
    bos_token_id: Some(50_256),
    eos_token_id: &[50_256],
    ..LLAMA
};

pub(in crate::model) const GPT_BIG_CODE: Facts = Facts {
    model_type: "gpt_bigcode",
    gguf: "starcoder",
    names: &names::GPT_BIG_CODE,
    kv_heads: KvHeads::MultiQuery,
    activation: "gelu_pytorch_tanh",
    ..GPT2
};

pub(in crate::model) const GPT_NEO_X: Facts = Facts {
    model_type: "gpt_neox",
    gguf: "gptneox",
    names: &names::GPT_NEO_X,
    gguf_names: &names::GGUF_FUSED,
    keys: &[
        ("rms_norm_eps", "layer_norm_eps"),
        ("partial_rotary_factor", "rotary_pct"),
        ("rope_theta", "rotary_emb_base"),
    ],
    norm: NormKind::Layer,
    norm_eps: 1e-5,
    residual: Residual::Parallel,
    parallel_residual: Some(true),
    rotary_factor: Some(0.25),
    qkv_bias: ProjectionBias::Key("attention_bias", true),
    output_bias: ProjectionBias::Key("attention_bias", true),
    gated: false,
    activation: "gelu",
    mlp_bias: ProjectionBias::Yes,
    bos_token_id: Some(0),
    eos_token_id: &[2],
    ..LLAMA
};

pub(in crate::model) const STAR_CODER2: Facts = Facts {
    model_type: "starcoder2",
    gguf: "starcoder2",
    names: &names::STAR_CODER2,
    gguf_names: &names::GGUF_PLAIN_MLP,
    keys: &[("rms_norm_eps", "norm_epsilon"), ("attention_bias", "use_bias"), ("mlp_bias", "use_bias")],
    norm: NormKind::Layer,
    norm_eps: 1e-5,
    kv_heads: KvHeads::Count(2),
    slides: Slides::Always,
    qkv_bias: ProjectionBias::Key("attention_bias", true),
    output_bias: ProjectionBias::Key("attention_bias", true),
    gated: false,
    activation: "gelu_pytorch_tanh",
    mlp_bias: ProjectionBias::Key("mlp_bias", true),
    tie_word_embeddings: true,
    bos_token_id: Some(50_256),
    eos_token_id: &[50_256],
    ..LLAMA
};

pub(in crate::model) const COHERE2: Facts = Facts {
    model_type: "cohere2",
    gguf: "cohere2",
    names: &names::COHERE2,
    keys: &[("rms_norm_eps", "layer_norm_eps")],
    norm: NormKind::Layer,
    norm_bias: false,
    norm_eps: 1e-5,
    residual: Residual::ParallelOneNorm,
    unrotated: Unrotated::WithoutWindow,
    slides: Slides::Pattern(4),
    sliding_window: Some(4096),
    layer_types: LayerTypes::Optional,
    mlp_bias: ProjectionBias::No,
    tie_word_embeddings: true,
    logit_scale: Some(0.0625),
    bos_token_id: Some(5),
    eos_token_id: &[255_001],
    ..LLAMA
};

pub(in crate::model) const PHI: Facts = Facts {
    model_type: "phi",
    gguf: "phi2",
    names: &names::PHI,
    gguf_names: &names::GGUF_PLAIN_MLP,
    keys: &[("rms_norm_eps", "layer_norm_eps")],
    refused: &["qk_layernorm"],
    norm: NormKind::Layer,
    norm_eps: 1e-5,
    residual: Residual::ParallelOneNorm,
    rotary_factor: Some(0.5),
    qkv_bias: ProjectionBias::Yes,
    output_bias: ProjectionBias::Yes,
    gated: false,
    activation: "gelu_new",
    mlp_bias: ProjectionBias::Yes,
    head_bias: true,
    ..LLAMA
};

pub(in crate::model) const STABLE_LM: Facts = Facts {
    model_type: "stablelm",
    gguf: "stablelm",
    gguf_names: &names::GGUF,
    keys: &[("rms_norm_eps", "layer_norm_eps"), ("attention_bias", "use_qkv_bias")],
    refused: &["qk_layernorm"],
    norm: NormKind::Layer,
    norm_eps: 1e-5,
    residual: Residual::ParallelOneNorm,
    parallel_residual: Some(false),
    rotary_factor: Some(0.25),
    kv_heads: KvHeads::Count(32),
    output_bias: ProjectionBias::No,
    mlp_bias: ProjectionBias::No,
    bos_token_id: Some(0),
    eos_token_id: &[0],
    ..LLAMA
};
