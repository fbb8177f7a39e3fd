//! Table of architectures with the facts about each. No other module checks which architecture a model has.

use super::names::{Names, Naming};
use super::spec::{AttentionGate, DeltaSpec, ExpertScores, QkNorm};
use super::table;
use crate::error::{Error, Result};
use serde::Serialize;

/// Declares the architectures, in the order of [`Architecture::ALL`], with their rows of the table.
macro_rules! architectures {
    ($($(#[doc = $doc:literal])* $name:ident => $row:ident,)*) => {
        /// Supported architectures: keys of the table.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
        #[serde(rename_all = "lowercase")]
        pub enum Architecture {
            $($(#[doc = $doc])* $name,)*
        }

        impl Architecture {
            /// All architectures. If several have the same name in GGUF, the first is used.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            pub(super) fn facts(self) -> &'static Facts {
                match self {
                    $(Self::$name => &table::$row,)*
                }
            }
        }
    };
}

architectures! {
    /// Llama 1 to 3.x, SmolLM2, Vicuna.
    Llama => LLAMA,
    /// Mistral, with its sliding window.
    Mistral => MISTRAL,
    /// Qwen2 and Qwen2.5.
    Qwen2 => QWEN2,
    /// Qwen3, dense.
    Qwen3 => QWEN3,
    /// Qwen3 with experts.
    Qwen3Moe => QWEN3_MOE,
    /// Qwen3.5, dense, text only: gated attention in some layers, delta nets in the others.
    Qwen3_5 => QWEN3_5,
    /// Qwen3.5 with experts.
    Qwen3_5Moe => QWEN3_5_MOE,
    /// SmolLM3, with layers that do not rotate.
    SmolLm3 => SMOL_LM3,
    /// Gemma 3, text only.
    Gemma3 => GEMMA3,
    /// Gemma 4, text only: layers of two kinds, some without keys and values of their own.
    Gemma4 => GEMMA4,
    /// Phi-3, Phi-3.5 and Phi-4.
    Phi3 => PHI3,
    /// GPT-2.
    Gpt2 => GPT2,
    /// GPT-NeoX and Pythia.
    GptNeoX => GPT_NEO_X,
    /// GPTBigCode: StarCoder.
    GptBigCode => GPT_BIG_CODE,
    /// Seed-OSS.
    SeedOss => SEED_OSS,
    /// ERNIE 4.5, dense.
    Ernie4_5 => ERNIE4_5,
    /// StarCoder2.
    StarCoder2 => STAR_CODER2,
    /// GLM-4 of 2025.
    Glm4 => GLM4,
    /// Ministral 3.
    Ministral3 => MINISTRAL3,
    /// Granite 3 and 4, dense.
    Granite => GRANITE,
    /// Granite 3 with experts.
    GraniteMoe => GRANITE_MOE,
    /// Granite 4 of the hybrid architecture, with attention in all layers.
    GraniteMoeHybrid => GRANITE_MOE_HYBRID,
    /// Gemma 2.
    Gemma2 => GEMMA2,
    /// OLMo 3, and in GGUF files also OLMo 2, which is the same without windows.
    Olmo3 => OLMO3,
    /// OLMo 2.
    Olmo2 => OLMO2,
    /// OLMoE.
    Olmoe => OLMOE,
    /// EXAONE 4.
    Exaone4 => EXAONE4,
    /// Hunyuan, dense.
    HunYuanDense => HUNYUAN_DENSE,
    /// Command R7B and its successors.
    Cohere2 => COHERE2,
    /// Phi-1 to Phi-2.
    Phi => PHI,
    /// LFM2 and LFM2.5: attention in some layers, short convolutions in the others.
    Lfm2 => LFM2,
    /// gpt-oss.
    GptOss => GPT_OSS,
    /// LFM2 with experts.
    Lfm2Moe => LFM2_MOE,
    /// LFM3: LFM2 with windows, gates of heads, and norms after each part.
    Lfm3 => LFM3,
    /// StableLM.
    StableLm => STABLE_LM,
    /// nanochat.
    NanoChat => NANO_CHAT,
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
    /// Both read the same input, each after its own norm, and both are added.
    Parallel,
    /// Both read the same input after one norm, and both are added.
    ParallelOneNorm,
    /// Like `Sequential`, but each is normalised again before it is added.
    PostNorms,
    /// Like `PostNorms`, but without the norms before.
    OnlyPostNorms,
}

impl Residual {
    /// Returns true if the outputs of attention and MLP are normalised.
    pub fn has_post_norms(self) -> bool {
        matches!(self, Self::PostNorms | Self::OnlyPostNorms)
    }
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
    /// `attention_multiplier`.
    Multiplier,
    /// 1.
    One,
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

/// Presence of `layer_types`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LayerTypes {
    /// It is ignored.
    No,
    /// It may select the layers with a window, or with a convolution.
    Optional,
}

/// Layers that do not rotate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unrotated {
    No,
    /// Those that `no_rope_layers` selects.
    Listed,
    /// Those without a window, if the model has one.
    WithoutWindow,
    /// All, unless `position_embedding_type` is "rope"; in GGUF files, if it is "nope".
    ByType,
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

/// Experts of an architecture.
#[derive(Debug, Clone, Copy)]
pub(super) struct ExpertFacts {
    /// Default of `num_experts`, or `num_local_experts`.
    pub count: usize,
    /// Default of `num_experts_per_tok`.
    pub chosen: usize,
    /// Default of `moe_intermediate_size`; `None`: experts have the width of the MLP.
    pub width: Option<usize>,
    pub scores: ExpertScores,
    /// Default of `norm_topk_prob`; `None`: weights are always divided by their sum.
    pub normalised: Option<bool>,
    /// Default in GGUF files.
    pub gguf_normalised: bool,
    /// Default of `use_expert_bias`; there is a bias if it is true.
    pub bias: bool,
    /// Default of `num_dense_layers`, the first ones, which have no experts.
    pub dense: usize,
    /// Default of `shared_expert_intermediate_size`; `None`: there is no shared expert.
    pub shared: Option<usize>,
    /// `true`: the number of experts may be 0, for none. If there are some, the layers also have an MLP, which all rows use.
    pub optional: bool,
    /// `true`: if `enable_moe_block` is true, layers have both an MLP and experts, and the keys above have no defaults.
    pub with_mlp: bool,
}

/// A row of the table. For keys missing in `config.json`, defaults are those of the config class in transformers.
#[derive(Debug, Clone, Copy)]
pub(super) struct Facts {
    /// `model_type` in `config.json`.
    pub model_type: &'static str,
    /// `model_type` of multimodal models whose `text_config` is of this kind.
    pub multimodal: Option<&'static str>,
    /// `general.architecture` in a GGUF file; empty: llama.cpp does not know the architecture.
    pub gguf: &'static str,
    pub names: &'static Names,
    pub gguf_names: &'static Names,
    /// Keys with a different name here: (usual name, name here).
    pub keys: &'static [(&'static str, &'static str)],
    /// Keys that have no effect.
    pub unused: &'static [&'static str],
    /// Older keys that win over newer ones: (older key, newer key).
    pub older: &'static [(&'static str, &'static str)],
    /// Keys of sizes that published configs leave out, with their defaults.
    pub sizes: &'static [(&'static str, usize)],
    /// Keys without which `config.json` means something that is not supported.
    pub required: &'static [&'static str],
    /// Keys that must be missing, null, false or zero here, in addition to those of all models.
    pub refused: &'static [&'static str],
    pub norm: NormKind,
    /// `true`: norms have gains.
    pub norm_gain: bool,
    /// `true`: layer norms have biases.
    pub norm_bias: bool,
    pub norm_eps: f64,
    pub residual: Residual,
    /// Default of `use_parallel_residual`, without which the residual is sequential; `None`: there is no such key.
    pub parallel_residual: Option<bool>,
    /// `true`: positions are embedded like tokens, and nothing rotates.
    pub learned_positions: bool,
    pub ropes: &'static [RopeFacts],
    /// `true`: heads rotate by negative angles.
    pub reversed_rotation: bool,
    /// `partial_rotary_factor`; `None`: whole heads rotate.
    pub rotary_factor: Option<f64>,
    /// `original_max_position_embeddings`; `None`: the positions of the model.
    pub original_positions: Option<f64>,
    /// `true`: in GGUF files, which cannot say so, the ramp of YaRN begins and ends within pairs.
    pub fractional_ramp: bool,
    pub unrotated: Unrotated,
    pub kv_heads: KvHeads,
    /// `None`: `hidden_size / num_attention_heads`.
    pub head_dim: Option<usize>,
    /// Default of `global_head_dim`, of layers without a window; `None`: all layers have the same heads, and their own keys and values.
    pub global_head_dim: Option<usize>,
    pub attention_scale: AttentionScale,
    pub slides: Slides,
    pub sliding_window: Option<usize>,
    pub layer_types: LayerTypes,
    pub qkv_bias: ProjectionBias,
    pub output_bias: ProjectionBias,
    pub qk_norm: Option<QkNorm>,
    /// `true`: heads have attention sinks.
    pub attention_sinks: bool,
    /// Gates of attention's output, unless `use_attention_gate` is false.
    pub attention_gate: Option<AttentionGate>,
    /// `true`: parts of a layer have norms after them only if `use_sandwich_norm` is true or missing.
    pub sandwich_key: bool,
    /// `true`: the MLP is gated; `false`: plain.
    pub gated: bool,
    pub activation: &'static str,
    pub mlp_bias: ProjectionBias,
    /// Default of `intermediate_size`, as a multiple of `hidden_size`.
    pub mlp_ratio: Option<usize>,
    /// `true`: the width of the MLP is made from `intermediate_size` if `block_auto_adjust_ff_dim` is true.
    pub adjusted_mlp: bool,
    /// `None`: no layer has experts.
    pub experts: Option<ExpertFacts>,
    /// Default of `conv_L_cache`, the taps of short convolutions; `None`: no layer has one.
    pub short_conv: Option<usize>,
    /// Default sizes of delta nets or Mamba-2 in layers without attention; `None`: there are none.
    pub delta_net: Option<DeltaSpec>,
    /// `true`: checkpoints may have an MTP layer.
    pub mtp: bool,
    /// `true`: embedding rows are multiplied by `hidden_size^0.5`.
    pub scaled_embedding: bool,
    /// `true`: embedding rows are normalised.
    pub embedding_norm: bool,
    /// `true`: there are `embedding_multiplier`, `residual_multiplier` and `logits_scaling`.
    pub multipliers: bool,
    /// Default of `hidden_size_per_layer_input`; `None`: layers have no inputs of their own.
    pub layer_input_size: Option<usize>,
    /// `true`: a factor of the residual stream follows each layer.
    pub layer_scale: bool,
    pub tie_word_embeddings: bool,
    /// `true`: the LM head has a bias.
    pub head_bias: bool,
    /// Default of `logit_scale`; `None`: there is none.
    pub logit_scale: Option<f64>,
    /// Default of `attn_logit_softcapping`; `None`: there is none.
    pub attention_cap: Option<f64>,
    /// Default of `final_logit_softcapping`, infinite for no bound; `None`: there is no such key.
    pub logit_cap: Option<f64>,
    pub bos_token_id: Option<u32>,
    pub eos_token_id: &'static [u32],
}

impl Architecture {
    /// Finds an architecture by its name in a checkpoint: `model_type` in `config.json`, or `general.architecture` in a GGUF file.
    pub fn named(name: &str, naming: Naming) -> Result<Self> {
        let called = |architecture: &Self| architecture.called(naming);
        let known = || Self::ALL.iter().filter(|architecture| !called(architecture).is_empty());
        known().copied().find(|architecture| called(architecture) == name).ok_or_else(|| {
            let mut supported: Vec<_> = known().map(called).collect();
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

    /// Architecture of the layers of block drafters, whatever their target.
    pub const OF_BLOCK_DRAFTERS: Self = Self::Qwen3;
    /// Architecture of the layers of Gemma 4 assistants.
    pub const OF_ASSISTANTS: Self = Self::Gemma4;

    /// Finds the architecture of the text part of multimodal models with this `model_type`.
    pub(super) fn of_multimodal(model_type: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|architecture| architecture.facts().multimodal == Some(model_type))
    }

    /// Returns true if `config.json` holds the factor of attention scores.
    pub fn has_attention_multiplier(self) -> bool {
        matches!(self.facts().attention_scale, AttentionScale::Multiplier)
    }

    /// Returns the factor of the logits as checkpoints store it; `None`: they store none.
    pub fn stored_logit_scale(self, scale: f32) -> Option<f32> {
        let facts = self.facts();
        facts.logit_scale.map(|_| scale).or_else(|| facts.multipliers.then_some(1.0 / scale))
    }

    /// Returns the names and layouts of its tensors.
    pub fn names(self, naming: Naming) -> &'static Names {
        match naming {
            Naming::HuggingFace => self.facts().names,
            Naming::Gguf => self.facts().gguf_names,
        }
    }
}

/// Returns true if GGUF files call block drafters by this name.
pub fn is_block_drafter(name: &str) -> bool {
    name == "dflash"
}

/// Returns true if GGUF files call assistants of Gemma 4 by this name.
pub fn is_assistant(name: &str) -> bool {
    name == "gemma4-assistant"
}
