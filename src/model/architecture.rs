//! Table of architectures with the facts about each. No other module checks which architecture a model has.

use super::names::{self, Names, Naming};
use crate::error::{Error, Result};
use serde::Serialize;

/// Supported architectures: keys of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Architecture {
    /// Llama 1 to 3.x, SmolLM2, Vicuna.
    Llama,
    /// Mistral, with its sliding window.
    Mistral,
    /// Qwen2 and Qwen2.5.
    Qwen2,
    /// Qwen3, dense.
    Qwen3,
    /// SmolLM3, with layers that do not rotate.
    SmolLm3,
    /// Gemma 3, text only.
    Gemma3,
    /// Phi-3, Phi-3.5 and Phi-4.
    Phi3,
    /// GPT-2.
    Gpt2,
    /// GPT-NeoX and Pythia.
    GptNeoX,
    /// GPTBigCode: StarCoder.
    GptBigCode,
}

/// Kinds of normalisation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum NormKind {
    /// By the root of the mean square, with a gain (Zhang and Sennrich 2019).
    Rms,
    /// By mean and variance, with a gain and a bias (Ba et al. 2016).
    Layer,
}

/// Ways in which attention and MLP are added to the residual stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Residual {
    /// Attention first; the MLP reads the sum.
    Sequential,
    /// Both read the same input, and both are added.
    Parallel,
    /// Like `Sequential`, but each is normalised again before it is added.
    PostNorms,
}

/// Presence of biases in projections.
#[derive(Debug, Clone, Copy)]
pub(super) enum ProjectionBias {
    No,
    Yes,
    /// Read from this key, with its default.
    Key(&'static str, bool),
}

/// Factor for attention scores.
#[derive(Debug, Clone, Copy)]
pub(super) enum AttentionScale {
    /// `head_dim^-0.5`.
    HeadDim,
    /// `head_dim^-0.5`, or 1 if `scale_attn_weights` is false.
    Optional,
    /// `query_pre_attn_scalar^-0.5`, with its default.
    QueryScalar(f64),
}

/// Number of key and value heads if `num_key_value_heads` is missing.
#[derive(Debug, Clone, Copy)]
pub(super) enum KvHeads {
    /// As many as query heads.
    All,
    Count(usize),
    /// One, or as many as query heads if `multi_query` is false.
    MultiQuery,
}

/// Layers with a sliding window if `layer_types` is missing.
#[derive(Debug, Clone, Copy)]
pub(super) enum Slides {
    /// No layer has a window.
    Never,
    /// All layers, if the model has a window.
    Always,
    /// Layers from `max_window_layers` on, if `use_sliding_window` is true.
    FromMaxWindowLayers,
    /// Layers that do not rotate, if `use_sliding_window` is true.
    WithoutRotation,
    /// All but every `sliding_window_pattern`-th; the number is its default.
    Pattern(usize),
}

/// A rotary table and the layers that use it.
#[derive(Debug, Clone, Copy)]
pub(super) struct RopeFacts {
    /// Key of the table in `rope_parameters`, if layers with and without a window differ.
    pub layer_type: Option<&'static str>,
    /// Older key of the base.
    pub theta_key: &'static str,
    pub theta: f64,
}

/// A row of the table. For keys missing in `config.json`, defaults are those of the config class in transformers.
#[derive(Debug, Clone, Copy)]
pub(super) struct Facts {
    /// `model_type` in `config.json`.
    pub model_type: &'static str,
    /// `model_type` of multimodal models whose `text_config` is of this kind.
    pub multimodal: Option<&'static str>,
    /// `general.architecture` in a GGUF file.
    pub gguf: &'static str,
    pub names: &'static Names,
    pub gguf_names: &'static Names,
    /// Keys with a different name here: (usual name, name here).
    pub keys: &'static [(&'static str, &'static str)],
    /// Keys of sizes that published configs leave out, with their defaults.
    pub sizes: &'static [(&'static str, usize)],
    /// Keys that must be missing, null, false or zero here, in addition to those of all models.
    pub refused: &'static [&'static str],
    pub norm: NormKind,
    pub norm_eps: f64,
    pub residual: Residual,
    /// `true`: positions are embedded like tokens, and nothing rotates.
    pub learned_positions: bool,
    pub ropes: &'static [RopeFacts],
    /// `partial_rotary_factor`; `None`: whole heads rotate.
    pub rotary_factor: Option<f64>,
    /// `original_max_position_embeddings`; `None`: the positions of the model.
    pub original_positions: Option<f64>,
    /// `true`: `no_rope_layers` selects the layers that do not rotate.
    pub some_do_not_rotate: bool,
    pub kv_heads: KvHeads,
    /// `None`: `hidden_size / num_attention_heads`.
    pub head_dim: Option<usize>,
    pub attention_scale: AttentionScale,
    pub slides: Slides,
    pub sliding_window: Option<usize>,
    /// `true`: `layer_types` may select the layers with a window.
    pub layer_types: bool,
    pub qkv_bias: ProjectionBias,
    pub output_bias: ProjectionBias,
    pub qk_norm: bool,
    /// `true`: the MLP is gated; `false`: plain.
    pub gated: bool,
    pub activation: &'static str,
    pub mlp_bias: ProjectionBias,
    /// Default of `intermediate_size`, as a multiple of `hidden_size`.
    pub mlp_ratio: Option<usize>,
    /// `true`: embedding rows are multiplied by `hidden_size^0.5`.
    pub scaled_embedding: bool,
    pub tie_word_embeddings: bool,
    pub bos_token_id: Option<u32>,
    pub eos_token_id: Option<u32>,
}

const ROPE: RopeFacts = RopeFacts { layer_type: None, theta_key: "rope_theta", theta: 10_000.0 };
const ATTENTION_BIAS: ProjectionBias = ProjectionBias::Key("attention_bias", false);
const MLP_BIAS: ProjectionBias = ProjectionBias::Key("mlp_bias", false);

const LLAMA: Facts = Facts {
    model_type: "llama",
    multimodal: None,
    gguf: "llama",
    names: &names::LLAMA,
    gguf_names: &names::GGUF_PERMUTED,
    keys: &[],
    sizes: &[],
    refused: &[],
    norm: NormKind::Rms,
    norm_eps: 1e-6,
    residual: Residual::Sequential,
    learned_positions: false,
    ropes: &[ROPE],
    rotary_factor: None,
    original_positions: None,
    some_do_not_rotate: false,
    kv_heads: KvHeads::All,
    head_dim: None,
    attention_scale: AttentionScale::HeadDim,
    slides: Slides::Never,
    sliding_window: None,
    layer_types: false,
    qkv_bias: ATTENTION_BIAS,
    output_bias: ATTENTION_BIAS,
    qk_norm: false,
    gated: true,
    activation: "silu",
    mlp_bias: MLP_BIAS,
    mlp_ratio: None,
    scaled_embedding: false,
    tie_word_embeddings: false,
    bos_token_id: Some(1),
    eos_token_id: Some(2),
};

const MISTRAL: Facts = Facts {
    model_type: "mistral",
    kv_heads: KvHeads::Count(8),
    slides: Slides::Always,
    sliding_window: Some(4096),
    layer_types: true,
    qkv_bias: ProjectionBias::No,
    output_bias: ProjectionBias::No,
    mlp_bias: ProjectionBias::No,
    ..LLAMA
};

const QWEN2: Facts = Facts {
    model_type: "qwen2",
    gguf: "qwen2",
    gguf_names: &names::GGUF,
    kv_heads: KvHeads::Count(32),
    slides: Slides::FromMaxWindowLayers,
    sliding_window: Some(4096),
    layer_types: true,
    qkv_bias: ProjectionBias::Yes,
    output_bias: ProjectionBias::No,
    mlp_bias: ProjectionBias::No,
    bos_token_id: None,
    eos_token_id: None,
    ..LLAMA
};

const QWEN3: Facts = Facts {
    model_type: "qwen3",
    gguf: "qwen3",
    head_dim: Some(128),
    qkv_bias: ATTENTION_BIAS,
    output_bias: ATTENTION_BIAS,
    qk_norm: true,
    ..QWEN2
};

const SMOL_LM3: Facts = Facts {
    model_type: "smollm3",
    gguf: "smollm3",
    ropes: &[RopeFacts { theta: 2_000_000.0, ..ROPE }],
    some_do_not_rotate: true,
    kv_heads: KvHeads::Count(4),
    slides: Slides::WithoutRotation,
    layer_types: true,
    tie_word_embeddings: true,
    bos_token_id: Some(128_000),
    eos_token_id: Some(128_001),
    ..LLAMA
};

const GEMMA3: Facts = Facts {
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
    layer_types: true,
    qkv_bias: ProjectionBias::No,
    output_bias: ProjectionBias::No,
    qk_norm: true,
    activation: "gelu_pytorch_tanh",
    mlp_bias: ProjectionBias::No,
    scaled_embedding: true,
    tie_word_embeddings: true,
    bos_token_id: Some(2),
    eos_token_id: Some(1),
    ..LLAMA
};

const PHI3: Facts = Facts {
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
    eos_token_id: Some(32_000),
    ..LLAMA
};

const GPT2: Facts = Facts {
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
    eos_token_id: Some(50_256),
    ..LLAMA
};

const GPT_BIG_CODE: Facts = Facts {
    model_type: "gpt_bigcode",
    gguf: "starcoder",
    names: &names::GPT_BIG_CODE,
    kv_heads: KvHeads::MultiQuery,
    activation: "gelu_pytorch_tanh",
    ..GPT2
};

const GPT_NEO_X: Facts = Facts {
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
    rotary_factor: Some(0.25),
    qkv_bias: ProjectionBias::Key("attention_bias", true),
    output_bias: ProjectionBias::Key("attention_bias", true),
    gated: false,
    activation: "gelu",
    mlp_bias: ProjectionBias::Yes,
    bos_token_id: Some(0),
    eos_token_id: Some(2),
    ..LLAMA
};

impl Architecture {
    /// All architectures. If several have the same name in GGUF, the first is used.
    pub const ALL: [Self; 10] = [
        Self::Llama,
        Self::Mistral,
        Self::Qwen2,
        Self::Qwen3,
        Self::SmolLm3,
        Self::Gemma3,
        Self::Phi3,
        Self::Gpt2,
        Self::GptNeoX,
        Self::GptBigCode,
    ];

    pub(super) fn facts(self) -> &'static Facts {
        match self {
            Self::Llama => &LLAMA,
            Self::Mistral => &MISTRAL,
            Self::Qwen2 => &QWEN2,
            Self::Qwen3 => &QWEN3,
            Self::SmolLm3 => &SMOL_LM3,
            Self::Gemma3 => &GEMMA3,
            Self::Phi3 => &PHI3,
            Self::Gpt2 => &GPT2,
            Self::GptNeoX => &GPT_NEO_X,
            Self::GptBigCode => &GPT_BIG_CODE,
        }
    }

    /// Finds an architecture by its name in a checkpoint: `model_type` in `config.json`, or `general.architecture` in a GGUF file.
    pub fn named(name: &str, naming: Naming) -> Result<Self> {
        let called = |architecture: &Self| architecture.called(naming);
        Self::ALL.into_iter().find(|architecture| called(architecture) == name).ok_or_else(|| {
            let mut supported: Vec<_> = Self::ALL.iter().map(called).collect();
            supported.dedup();
            Error::UnsupportedArchitecture { architecture: name.into(), supported: supported.join(", ") }
        })
    }

    /// Returns its name in a checkpoint.
    pub fn called(self, naming: Naming) -> &'static str {
        match naming {
            Naming::HuggingFace => self.facts().model_type,
            Naming::Gguf => self.facts().gguf,
        }
    }

    /// Finds the architecture of the text part of multimodal models with this `model_type`.
    pub(super) fn of_multimodal(model_type: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|architecture| architecture.facts().multimodal == Some(model_type))
    }

    /// Returns the names and layouts of its tensors.
    pub fn names(self, naming: Naming) -> &'static Names {
        match naming {
            Naming::HuggingFace => self.facts().names,
            Naming::Gguf => self.facts().gguf_names,
        }
    }
}
