//! Rows of the table: models with experts.

use super::{GRANITE, LFM2, LLAMA, OLMO2, QWEN3, QWEN3_5, ROPE};
use crate::model::architecture::{
    ExpertFacts, Facts, KvHeads, LayerTypes, ProjectionBias, Residual, RopeFacts, Slides,
};
use crate::model::names;
use crate::model::spec::ExpertScores;

pub(super) const EXPERTS: ExpertFacts = ExpertFacts {
    count: 8,
    chosen: 2,
    width: None,
    scores: ExpertScores::Softmax,
    normalised: None,
    gguf_normalised: true,
    bias: false,
    dense: 0,
    shared: None,
    optional: false,
    with_mlp: false,
};

pub(in crate::model) const QWEN3_MOE: Facts = Facts {
    model_type: "qwen3_moe",
    gguf: "qwen3moe",
    // If there is a window, all layers have it.
    unused: &["max_window_layers"],
    sizes: &[("max_window_layers", 0)],
    kv_heads: KvHeads::Count(4),
    head_dim: None,
    layer_types: LayerTypes::No,
    experts: Some(ExpertFacts { count: 128, chosen: 8, width: Some(768), normalised: Some(false), ..EXPERTS }),
    ..QWEN3
};

pub(in crate::model) const QWEN3_5_MOE: Facts = Facts {
    model_type: "qwen3_5_moe_text",
    multimodal: Some("qwen3_5_moe"),
    sizes: &[("intermediate_size", 512)],
    gguf: "qwen35moe",
    kv_heads: KvHeads::Count(2),
    experts: Some(ExpertFacts { count: 256, chosen: 8, width: Some(512), shared: Some(512), ..EXPERTS }),
    ..QWEN3_5
};

pub(in crate::model) const GRANITE_MOE: Facts = Facts {
    model_type: "granitemoe",
    gguf: "granitemoe",
    names: &names::GRANITE_MOE,
    mlp_bias: ProjectionBias::No,
    experts: Some(EXPERTS),
    ..GRANITE
};

pub(in crate::model) const OLMOE: Facts = Facts {
    model_type: "olmoe",
    gguf: "olmoe",
    names: &names::LLAMA,
    residual: Residual::Sequential,
    refused: &["attention_bias", "clip_qkv"],
    experts: Some(ExpertFacts { count: 64, chosen: 8, normalised: Some(false), ..EXPERTS }),
    ..OLMO2
};

pub(in crate::model) const GPT_OSS: Facts = Facts {
    model_type: "gpt_oss",
    gguf: "gpt-oss",
    names: &names::GPT_OSS,
    gguf_names: &names::GGUF_GPT_OSS,
    older: &[("rope_scaling", "rope_parameters")],
    required: &["rope_parameters"],
    norm_eps: 1e-5,
    ropes: &[RopeFacts { theta: 150_000.0, ..ROPE }],
    fractional_ramp: true,
    kv_heads: KvHeads::Count(8),
    head_dim: Some(64),
    slides: Slides::Pattern(2),
    sliding_window: Some(128),
    layer_types: LayerTypes::Optional,
    qkv_bias: ProjectionBias::Key("attention_bias", true),
    output_bias: ProjectionBias::Key("attention_bias", true),
    attention_sinks: true,
    activation: "swiglu_oai",
    mlp_bias: ProjectionBias::Yes,
    experts: Some(ExpertFacts { count: 128, chosen: 4, bias: true, ..EXPERTS }),
    bos_token_id: None,
    eos_token_id: &[],
    ..LLAMA
};

pub(in crate::model) const LFM2_MOE: Facts = Facts {
    model_type: "lfm2_moe",
    gguf: "lfm2moe",
    names: &names::LFM2_MOE,
    older: &[("tie_embedding", "tie_word_embeddings")],
    adjusted_mlp: false,
    experts: Some(ExpertFacts {
        count: 32,
        chosen: 4,
        width: Some(1792),
        scores: ExpertScores::Sigmoid,
        normalised: Some(true),
        bias: true,
        dense: 2,
        ..EXPERTS
    }),
    ..LFM2
};
