//! Rows of the table of architectures: facts about each.

mod experts;
mod layer_norms;

use experts::EXPERTS;
pub(super) use experts::{GPT_OSS, GRANITE_MOE, LFM2_MOE, OLMOE, QWEN3_5_MOE, QWEN3_MOE};
pub(super) use layer_norms::{COHERE2, GPT_BIG_CODE, GPT_NEO_X, GPT2, PHI, STABLE_LM, STAR_CODER2};

use super::architecture::{
    AttentionScale, ExpertFacts, Facts, KvHeads, LayerTypes, NormKind, ProjectionBias, Residual, RopeFacts, Slides,
    Unrotated,
};
use super::names;
use super::spec::{AttentionGate, DeltaSpec, QkNorm};

const ROPE: RopeFacts = RopeFacts { layer_type: None, theta_key: "rope_theta", theta: 10_000.0 };
const DELTA: DeltaSpec =
    DeltaSpec { key_heads: 16, value_heads: 32, key_dim: 128, value_dim: 128, taps: 4, replaces: true };
const MAMBA: DeltaSpec =
    DeltaSpec { key_heads: 1, value_heads: 128, key_dim: 256, value_dim: 0, taps: 4, replaces: false };
const ATTENTION_BIAS: ProjectionBias = ProjectionBias::Key("attention_bias", false);
const MLP_BIAS: ProjectionBias = ProjectionBias::Key("mlp_bias", false);

pub(super) const LLAMA: Facts = Facts {
    model_type: "llama",
    multimodal: None,
    gguf: "llama",
    names: &names::LLAMA,
    gguf_names: &names::GGUF_PERMUTED,
    keys: &[],
    unused: &[],
    older: &[],
    sizes: &[],
    required: &[],
    refused: &[],
    norm: NormKind::Rms,
    norm_gain: true,
    norm_bias: true,
    norm_eps: 1e-6,
    residual: Residual::Sequential,
    parallel_residual: None,
    learned_positions: false,
    ropes: &[ROPE],
    reversed_rotation: false,
    rotary_factor: None,
    original_positions: None,
    fractional_ramp: false,
    unrotated: Unrotated::No,
    kv_heads: KvHeads::All,
    head_dim: None,
    global_head_dim: None,
    attention_scale: AttentionScale::HeadDim,
    slides: Slides::Never,
    sliding_window: None,
    layer_types: LayerTypes::No,
    qkv_bias: ATTENTION_BIAS,
    output_bias: ATTENTION_BIAS,
    qk_norm: None,
    attention_sinks: false,
    attention_gate: None,
    sandwich_key: false,
    gated: true,
    activation: "silu",
    mlp_bias: MLP_BIAS,
    mlp_ratio: None,
    adjusted_mlp: false,
    experts: None,
    short_conv: None,
    delta_net: None,
    mtp: false,
    scaled_embedding: false,
    embedding_norm: false,
    multipliers: false,
    layer_input_size: None,
    layer_scale: false,
    tie_word_embeddings: false,
    head_bias: false,
    logit_scale: None,
    attention_cap: None,
    logit_cap: None,
    bos_token_id: Some(1),
    eos_token_id: &[2],
};

pub(super) const MISTRAL: Facts = Facts {
    model_type: "mistral",
    kv_heads: KvHeads::Count(8),
    slides: Slides::Always,
    sliding_window: Some(4096),
    layer_types: LayerTypes::Optional,
    qkv_bias: ProjectionBias::No,
    output_bias: ProjectionBias::No,
    mlp_bias: ProjectionBias::No,
    ..LLAMA
};

pub(super) const QWEN2: Facts = Facts {
    model_type: "qwen2",
    gguf: "qwen2",
    gguf_names: &names::GGUF,
    kv_heads: KvHeads::Count(32),
    slides: Slides::FromMaxWindowLayers,
    sliding_window: Some(4096),
    layer_types: LayerTypes::Optional,
    qkv_bias: ProjectionBias::Yes,
    output_bias: ProjectionBias::No,
    mlp_bias: ProjectionBias::No,
    bos_token_id: None,
    eos_token_id: &[],
    ..LLAMA
};

pub(super) const QWEN3: Facts = Facts {
    model_type: "qwen3",
    gguf: "qwen3",
    head_dim: Some(128),
    qkv_bias: ATTENTION_BIAS,
    output_bias: ATTENTION_BIAS,
    qk_norm: Some(QkNorm::Heads),
    ..QWEN2
};

pub(super) const QWEN3_5: Facts = Facts {
    model_type: "qwen3_5_text",
    multimodal: Some("qwen3_5"),
    gguf: "qwen35",
    names: &names::QWEN3_5,
    gguf_names: &names::GGUF_POST_ATTENTION,
    keys: &[("use_attention_gate", "attn_output_gate")],
    // A bias of q would be one of its gates too.
    refused: &["attention_bias"],
    rotary_factor: Some(0.25),
    kv_heads: KvHeads::Count(4),
    head_dim: Some(256),
    slides: Slides::Never,
    qkv_bias: ProjectionBias::No,
    output_bias: ProjectionBias::No,
    attention_gate: Some(AttentionGate::Elements),
    delta_net: Some(DELTA),
    mtp: true,
    ..QWEN3
};

pub(super) const SMOL_LM3: Facts = Facts {
    model_type: "smollm3",
    gguf: "smollm3",
    ropes: &[RopeFacts { theta: 2_000_000.0, ..ROPE }],
    unrotated: Unrotated::Listed,
    kv_heads: KvHeads::Count(4),
    slides: Slides::WithoutRotation,
    layer_types: LayerTypes::Optional,
    tie_word_embeddings: true,
    bos_token_id: Some(128_000),
    eos_token_id: &[128_001],
    ..LLAMA
};

pub(super) const GEMMA3: Facts = Facts {
    model_type: "gemma3_text",
    multimodal: Some("gemma3"),
    sizes: &[("vocab_size", 262_208), ("num_attention_heads", 8), ("max_position_embeddings", 131_072)],
    gguf: "gemma3",
    names: &names::GEMMA3,
    gguf_names: &names::GGUF,
    keys: &[("hidden_act", "hidden_activation")],
    // A bias would have to be added before the norm that follows the projection.
    refused: &["attention_bias"],
    residual: Residual::PostNorms,
    ropes: &[
        RopeFacts { layer_type: Some("full_attention"), theta: 1_000_000.0, ..ROPE },
        RopeFacts { layer_type: Some("sliding_attention"), theta_key: "rope_local_base_freq", ..ROPE },
    ],
    kv_heads: KvHeads::Count(4),
    head_dim: Some(256),
    attention_scale: AttentionScale::QueryScalar(256.0),
    slides: Slides::Pattern(6),
    sliding_window: Some(4096),
    layer_types: LayerTypes::Optional,
    qkv_bias: ProjectionBias::No,
    output_bias: ProjectionBias::No,
    qk_norm: Some(QkNorm::Heads),
    activation: "gelu_pytorch_tanh",
    mlp_bias: ProjectionBias::No,
    scaled_embedding: true,
    tie_word_embeddings: true,
    bos_token_id: Some(2),
    eos_token_id: &[1],
    ..LLAMA
};

pub(super) const GEMMA4: Facts = Facts {
    model_type: "gemma4_text",
    multimodal: Some("gemma4"),
    sizes: &[("vocab_size", 262_144), ("num_attention_heads", 8), ("max_position_embeddings", 131_072)],
    required: &["layer_types", "rope_parameters"],
    gguf: "gemma4",
    names: &names::GEMMA4,
    gguf_names: &names::GGUF_GEMMA4,
    keys: &[("hidden_act", "hidden_activation"), ("num_experts_per_tok", "top_k_experts")],
    experts: Some(ExpertFacts { with_mlp: true, width: Some(0), ..EXPERTS }),
    global_head_dim: Some(512),
    attention_scale: AttentionScale::One,
    slides: Slides::Always,
    sliding_window: Some(512),
    qk_norm: Some(QkNorm::HeadsAndValues),
    layer_input_size: Some(256),
    layer_scale: true,
    logit_cap: Some(f64::INFINITY),
    ..GEMMA3
};

pub(super) const PHI3: Facts = Facts {
    model_type: "phi3",
    gguf: "phi3",
    names: &names::PHI3,
    gguf_names: &names::GGUF_FUSED,
    norm_eps: 1e-5,
    rotary_factor: Some(1.0),
    original_positions: Some(4096.0),
    slides: Slides::Always,
    qkv_bias: ProjectionBias::No,
    output_bias: ProjectionBias::No,
    mlp_bias: ProjectionBias::No,
    eos_token_id: &[32_000],
    ..LLAMA
};

pub(super) const SEED_OSS: Facts = Facts {
    model_type: "seed_oss",
    gguf: "seed_oss",
    gguf_names: &names::GGUF_POST_ATTENTION,
    kv_heads: KvHeads::Count(8),
    head_dim: Some(128),
    qkv_bias: ProjectionBias::Key("attention_bias", true),
    output_bias: ProjectionBias::Key("attention_out_bias", false),
    bos_token_id: Some(0),
    ..LLAMA
};

pub(super) const ERNIE4_5: Facts = Facts {
    model_type: "ernie4_5",
    gguf: "ernie4_5",
    names: &names::ERNIE4_5,
    keys: &[("attention_bias", "use_bias"), ("mlp_bias", "use_bias")],
    norm_eps: 1e-5,
    ropes: &[RopeFacts { theta: 500_000.0, ..ROPE }],
    kv_heads: KvHeads::Count(2),
    head_dim: Some(128),
    tie_word_embeddings: true,
    ..LLAMA
};

pub(super) const GLM4: Facts = Facts {
    model_type: "glm4",
    gguf: "glm4",
    names: &names::GLM4,
    gguf_names: &names::GGUF_GLM4,
    norm_eps: 1.5625e-7,
    residual: Residual::PostNorms,
    rotary_factor: Some(0.5),
    kv_heads: KvHeads::Count(2),
    head_dim: Some(128),
    qkv_bias: ProjectionBias::Key("attention_bias", true),
    output_bias: ProjectionBias::No,
    mlp_bias: ProjectionBias::No,
    bos_token_id: None,
    eos_token_id: &[151_329, 151_336, 151_338],
    ..LLAMA
};

pub(super) const MINISTRAL3: Facts = Facts {
    model_type: "ministral3",
    multimodal: Some("mistral3"),
    gguf: "mistral3",
    norm_eps: 1e-5,
    kv_heads: KvHeads::Count(8),
    head_dim: Some(128),
    slides: Slides::Always,
    qkv_bias: ProjectionBias::No,
    output_bias: ProjectionBias::No,
    mlp_bias: ProjectionBias::No,
    ..LLAMA
};

pub(super) const GRANITE: Facts = Facts {
    model_type: "granite",
    gguf: "granite",
    attention_scale: AttentionScale::Multiplier,
    multipliers: true,
    ..LLAMA
};

pub(super) const GRANITE_MOE_HYBRID: Facts = Facts {
    model_type: "granitemoehybrid",
    gguf: "granitehybrid",
    names: &names::GRANITE_MOE_HYBRID,
    gguf_names: &names::GGUF_GRANITE_HYBRID,
    keys: &[
        ("intermediate_size", "shared_intermediate_size"),
        ("moe_intermediate_size", "intermediate_size"),
        ("linear_num_key_heads", "mamba_n_groups"),
        ("linear_num_value_heads", "mamba_n_heads"),
        ("linear_key_head_dim", "mamba_d_state"),
        ("linear_value_head_dim", "mamba_d_head"),
        ("linear_conv_kernel_dim", "mamba_d_conv"),
    ],
    refused: &["mamba_proj_bias"],
    delta_net: Some(MAMBA),
    experts: Some(ExpertFacts { width: Some(11_008), optional: true, ..EXPERTS }),
    unrotated: Unrotated::ByType,
    layer_types: LayerTypes::Optional,
    required: &["layer_types"],
    mlp_bias: ProjectionBias::No,
    ..GRANITE
};

pub(super) const GEMMA2: Facts = Facts {
    model_type: "gemma2",
    multimodal: None,
    sizes: &[],
    gguf: "gemma2",
    ropes: &[ROPE],
    slides: Slides::Pattern(2),
    qk_norm: None,
    attention_cap: Some(50.0),
    logit_cap: Some(30.0),
    ..GEMMA3
};

pub(super) const OLMO2: Facts = Facts {
    model_type: "olmo2",
    gguf: "olmo2",
    names: &names::OLMO2,
    gguf_names: &names::GGUF,
    norm_eps: 1e-5,
    residual: Residual::OnlyPostNorms,
    qk_norm: Some(QkNorm::Width),
    qkv_bias: ProjectionBias::No,
    output_bias: ProjectionBias::No,
    mlp_bias: ProjectionBias::No,
    // A bias would have to be added before the norm that follows the projection.
    refused: &["attention_bias"],
    bos_token_id: None,
    eos_token_id: &[50_279],
    ..LLAMA
};

pub(super) const OLMO3: Facts = Facts {
    model_type: "olmo3",
    ropes: &[
        RopeFacts { layer_type: Some("full_attention"), theta: 500_000.0, ..ROPE },
        RopeFacts { layer_type: Some("sliding_attention"), theta: 500_000.0, ..ROPE },
    ],
    slides: Slides::Pattern(4),
    sliding_window: Some(4096),
    layer_types: LayerTypes::Optional,
    ..OLMO2
};

pub(super) const EXAONE4: Facts = Facts {
    model_type: "exaone4",
    gguf: "exaone4",
    unrotated: Unrotated::WithoutWindow,
    kv_heads: KvHeads::Count(32),
    slides: Slides::Pattern(4),
    sliding_window: Some(4096),
    layer_types: LayerTypes::Optional,
    qk_norm: Some(QkNorm::Heads),
    refused: &[],
    bos_token_id: Some(0),
    eos_token_id: &[2],
    ..OLMO2
};

pub(super) const HUNYUAN_DENSE: Facts = Facts {
    model_type: "hunyuan_v1_dense",
    gguf: "hunyuan-dense",
    names: &names::HUNYUAN_DENSE,
    gguf_names: &names::GGUF,
    norm_eps: 1e-5,
    qk_norm: Some(QkNorm::RotatedHeads),
    mlp_bias: ProjectionBias::No,
    ..LLAMA
};

pub(super) const LFM2: Facts = Facts {
    model_type: "lfm2",
    gguf: "lfm2",
    names: &names::LFM2,
    gguf_names: &names::GGUF_LFM2,
    keys: &[("rms_norm_eps", "norm_eps")],
    older: &[("block_ff_dim", "intermediate_size"), ("tie_embedding", "tie_word_embeddings")],
    refused: &["conv_bias"],
    norm_eps: 1e-5,
    ropes: &[RopeFacts { theta: 1_000_000.0, ..ROPE }],
    kv_heads: KvHeads::Count(8),
    layer_types: LayerTypes::Optional,
    qkv_bias: ProjectionBias::No,
    output_bias: ProjectionBias::No,
    qk_norm: Some(QkNorm::Heads),
    mlp_bias: ProjectionBias::No,
    adjusted_mlp: true,
    short_conv: Some(3),
    tie_word_embeddings: true,
    ..LLAMA
};

pub(super) const NANO_CHAT: Facts = Facts {
    model_type: "nanochat",
    gguf: "",
    names: &names::NANO_CHAT,
    norm_gain: false,
    reversed_rotation: true,
    qk_norm: Some(QkNorm::RotatedHeads),
    gated: false,
    activation: "relu2",
    mlp_bias: ProjectionBias::No,
    embedding_norm: true,
    logit_cap: Some(15.0),
    bos_token_id: Some(0),
    eos_token_id: &[1],
    ..LLAMA
};

pub(super) const LFM3: Facts = Facts {
    model_type: "lfm3",
    gguf: "",
    names: &names::LFM3,
    older: &[],
    required: &["layer_types", "rope_parameters"],
    refused: &["conv_bias", "attention_bias"],
    residual: Residual::PostNorms,
    ropes: &[
        RopeFacts { layer_type: Some("full_attention"), theta: 1_000_000.0, ..ROPE },
        RopeFacts { layer_type: Some("sliding_attention"), theta: 1_000_000.0, ..ROPE },
    ],
    kv_heads: KvHeads::Count(4),
    head_dim: Some(128),
    slides: Slides::Always,
    sliding_window: Some(256),
    attention_gate: Some(AttentionGate::Heads),
    sandwich_key: true,
    adjusted_mlp: false,
    short_conv: Some(7),
    bos_token_id: Some(124_894),
    eos_token_id: &[124_900],
    ..LFM2
};
