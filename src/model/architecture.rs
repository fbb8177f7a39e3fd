//! The table of architectures: what an architecture is, fact by fact. Nothing else asks which one a model has.

use super::names::{self, Names, Naming};
use crate::error::{Error, Result};
use serde::Serialize;

/// The supported architectures: keys of the table.
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

/// How attention and MLP join the residual stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Residual {
    /// Attention first; the MLP sees its sum.
    Sequential,
    /// Both see the same, and both are added.
    Parallel,
    /// As `Sequential`, each normalised once more before it is added.
    PostNorms,
}

/// Whether projections have biases.
#[derive(Debug, Clone, Copy)]
pub(super) enum Bias {
    No,
    Yes,
    /// As this key says, with its default.
    Key(&'static str, bool),
}

/// The factor for attention scores.
#[derive(Debug, Clone, Copy)]
pub(super) enum AttentionScale {
    /// `head_dim^-0.5`.
    HeadDim,
    /// That, or 1 where `scale_attn_weights` is false.
    Optional,
    /// `query_pre_attn_scalar^-0.5`, with its default.
    QueryScalar(f64),
}

/// Key and value heads where `num_key_value_heads` is left out.
#[derive(Debug, Clone, Copy)]
pub(super) enum KvHeads {
    /// As many as query heads.
    All,
    Count(usize),
    /// One, or all where `multi_query` is false.
    MultiQuery,
}

/// The layers with a window where `layer_types` does not name them.
#[derive(Debug, Clone, Copy)]
pub(super) enum Slides {
    /// None: there is no window.
    Never,
    /// All, as soon as there is a window.
    Always,
    /// Those from `max_window_layers` on, where `use_sliding_window` is true.
    FromMaxWindowLayers,
    /// Those that do not rotate, where `use_sliding_window` is true.
    WithoutRotation,
    /// All but every `sliding_window_pattern`-th, this by default.
    Pattern(usize),
}

/// A rotary table: which layers it is for.
#[derive(Debug, Clone, Copy)]
pub(super) struct RopeFacts {
    /// The key of `rope_parameters` that has it, where layers with and without a window differ.
    pub layer_type: Option<&'static str>,
    /// The older key of its base.
    pub theta_key: &'static str,
    pub theta: f64,
}

/// A row of the table. Defaults are what the config class of transformers takes for a key that `config.json` leaves out.
#[derive(Debug, Clone, Copy)]
pub(super) struct Facts {
    /// `model_type` in `config.json`.
    pub model_type: &'static str,
    /// `model_type` of models that see too: their `text_config` is of this kind.
    pub multimodal: Option<&'static str>,
    /// `general.architecture` in a GGUF file.
    pub gguf: &'static str,
    pub names: &'static Names,
    pub gguf_names: &'static Names,
    /// Keys that are not called what most models call them: (most models, this one).
    pub keys: &'static [(&'static str, &'static str)],
    /// Keys of sizes that published configs leave out, and what they are then.
    pub sizes: &'static [(&'static str, usize)],
    /// Keys that must be left out, null, false or zero here, besides those that must be so in any model.
    pub refused: &'static [&'static str],
    pub norm: NormKind,
    pub norm_eps: f64,
    pub residual: Residual,
    /// Positions are embedded like tokens; nothing rotates.
    pub learned_positions: bool,
    pub ropes: &'static [RopeFacts],
    /// `partial_rotary_factor`; none: whole heads rotate.
    pub rotary_factor: Option<f64>,
    /// `original_max_position_embeddings`; none: as many positions as the model has.
    pub original_positions: Option<f64>,
    /// `no_rope_layers` says which layers do not rotate.
    pub some_do_not_rotate: bool,
    pub kv_heads: KvHeads,
    /// None: `hidden_size / num_attention_heads`.
    pub head_dim: Option<usize>,
    pub attention_scale: AttentionScale,
    pub slides: Slides,
    pub sliding_window: Option<usize>,
    /// `layer_types` may name the layers with a window.
    pub layer_types: bool,
    pub qkv_bias: Bias,
    pub output_bias: Bias,
    pub qk_norm: bool,
    /// The MLP is gated, and not plain.
    pub gated: bool,
    pub activation: &'static str,
    pub mlp_bias: Bias,
    /// Without `intermediate_size`: so many times `hidden_size`.
    pub mlp_ratio: Option<usize>,
    /// Embedding rows are multiplied by `hidden_size^0.5`.
    pub scaled_embedding: bool,
    pub tie_word_embeddings: bool,
    pub bos_token_id: Option<u32>,
    pub eos_token_id: Option<u32>,
}

const ROPE: RopeFacts = RopeFacts { layer_type: None, theta_key: "rope_theta", theta: 10_000.0 };
const ATTENTION_BIAS: Bias = Bias::Key("attention_bias", false);
const MLP_BIAS: Bias = Bias::Key("mlp_bias", false);

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
    qkv_bias: Bias::No,
    output_bias: Bias::No,
    mlp_bias: Bias::No,
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
    qkv_bias: Bias::Yes,
    output_bias: Bias::No,
    mlp_bias: Bias::No,
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
    // A bias would have to be added before the norm behind the projection.
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
    qkv_bias: Bias::No,
    output_bias: Bias::No,
    qk_norm: true,
    activation: "gelu_pytorch_tanh",
    mlp_bias: Bias::No,
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
    qkv_bias: Bias::No,
    output_bias: Bias::No,
    mlp_bias: Bias::No,
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
    qkv_bias: Bias::Yes,
    output_bias: Bias::Yes,
    gated: false,
    activation: "gelu_new",
    mlp_bias: Bias::Yes,
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
    qkv_bias: Bias::Key("attention_bias", true),
    output_bias: Bias::Key("attention_bias", true),
    gated: false,
    activation: "gelu",
    mlp_bias: Bias::Yes,
    bos_token_id: Some(0),
    eos_token_id: Some(2),
    ..LLAMA
};

impl Architecture {
    /// All of them. Where several have one name in GGUF, the first is meant.
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

    /// Its row.
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

    /// By what a checkpoint calls it: `model_type` in `config.json`, or `general.architecture` in a GGUF file.
    ///
    /// # Errors
    /// [`Error::UnsupportedArchitecture`].
    pub fn named(name: &str, naming: Naming) -> Result<Self> {
        let called = |architecture: &Self| architecture.called(naming);
        Self::ALL.into_iter().find(|architecture| called(architecture) == name).ok_or_else(|| {
            let mut supported: Vec<_> = Self::ALL.iter().map(called).collect();
            supported.dedup();
            Error::UnsupportedArchitecture { architecture: name.into(), supported: supported.join(", ") }
        })
    }

    /// What a checkpoint calls it.
    pub fn called(self, naming: Naming) -> &'static str {
        match naming {
            Naming::HuggingFace => self.facts().model_type,
            Naming::Gguf => self.facts().gguf,
        }
    }

    /// The one of the text part of models with this `model_type`, which see too.
    pub(super) fn of_multimodal(model_type: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|architecture| architecture.facts().multimodal == Some(model_type))
    }

    /// What its tensors are called, and how they lie.
    pub fn names(self, naming: Naming) -> &'static Names {
        match naming {
            Naming::HuggingFace => self.facts().names,
            Naming::Gguf => self.facts().gguf_names,
        }
    }
}
