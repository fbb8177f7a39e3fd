//! Names of the tensors of experts.

use super::{GGUF_POST_ATTENTION, LFM2, LLAMA, Names};

/// Tensors of experts, with their suffixes. `*` is the number of an expert; a tensor without it stacks all.
#[derive(Debug, Clone, Copy)]
pub struct ExpertNames {
    /// Projection to the scores of the experts [experts, hidden].
    pub router: &'static str,
    /// Bias of the router's results, or of the scores [experts].
    pub bias: &'static str,
    /// Projections to gate and up, as two tensors or as one.
    pub up: &'static [&'static str],
    /// Biases of `up`.
    pub up_bias: &'static [&'static str],
    /// Output projection.
    pub down: &'static str,
    /// Bias of `down`.
    pub down_bias: &'static str,
    /// `true`: rows of gate and up alternate in the one tensor of both.
    pub alternating: bool,
    /// `true`: matrices are transposed, [inputs, outputs].
    pub transposed: bool,
    /// Projection to the score of the shared expert [1, hidden].
    pub shared_gate: &'static str,
    /// Gate and up of the shared expert, or of the MLP of a layer that has both, as two tensors or as one; without suffix.
    pub shared_up: &'static [&'static str],
    /// Output projection of the shared expert, without suffix.
    pub shared_down: &'static str,
    /// Gain of the router's norm, times `hidden_size^0.5` [hidden]. This tensor and the next four exist only in Gemma 4.
    pub router_gain: &'static str,
    /// Factor of the weight of each expert [experts].
    pub factors: &'static str,
    /// Norm before the experts, without suffix.
    pub norm: &'static str,
    /// Norm after the experts, without suffix.
    pub post_norm: &'static str,
    /// Norm after the MLP, without suffix.
    pub mlp_post_norm: &'static str,
}

pub(super) const EXPERTS: ExpertNames = ExpertNames {
    router: "mlp.gate.weight",
    bias: "",
    up: &["mlp.experts.*.gate_proj.weight", "mlp.experts.*.up_proj.weight"],
    up_bias: &[],
    down: "mlp.experts.*.down_proj.weight",
    down_bias: "",
    alternating: false,
    transposed: false,
    shared_gate: "mlp.shared_expert_gate.weight",
    shared_up: &["mlp.shared_expert.gate_proj", "mlp.shared_expert.up_proj"],
    shared_down: "mlp.shared_expert.down_proj",
    router_gain: "router.scale",
    factors: "router.per_expert_scale",
    norm: "pre_feedforward_layernorm_2",
    post_norm: "post_feedforward_layernorm_2",
    mlp_post_norm: "post_feedforward_layernorm_1",
};

pub(super) const GGUF_EXPERTS: ExpertNames = ExpertNames {
    router: "ffn_gate_inp.weight",
    bias: "exp_probs_b.bias",
    up: &["ffn_gate_exps.weight", "ffn_up_exps.weight"],
    up_bias: &["ffn_gate_exps.bias", "ffn_up_exps.bias"],
    down: "ffn_down_exps.weight",
    down_bias: "ffn_down_exps.bias",
    alternating: false,
    transposed: false,
    shared_gate: "ffn_gate_inp_shexp.weight",
    shared_up: &["ffn_gate_shexp", "ffn_up_shexp"],
    shared_down: "ffn_down_shexp",
    router_gain: "ffn_gate_inp.scale",
    factors: "ffn_down_exps.scale",
    norm: "pre_ffw_norm_2",
    post_norm: "post_ffw_norm_2",
    mlp_post_norm: "post_ffw_norm_1",
};

pub(in crate::model) const GRANITE_MOE: Names = Names {
    experts: ExpertNames {
        router: "block_sparse_moe.router.layer.weight",
        up: &["block_sparse_moe.input_linear.weight"],
        down: "block_sparse_moe.output_linear.weight",
        ..EXPERTS
    },
    ..LLAMA
};

pub(in crate::model) const LFM2_MOE: Names = Names {
    experts: ExpertNames {
        router: "feed_forward.gate.weight",
        bias: "feed_forward.expert_bias",
        up: &["feed_forward.experts.*.w1.weight", "feed_forward.experts.*.w3.weight"],
        down: "feed_forward.experts.*.w2.weight",
        ..EXPERTS
    },
    ..LFM2
};

pub(in crate::model) const GPT_OSS: Names = Names {
    sinks: "self_attn.sinks",
    experts: ExpertNames {
        router: "mlp.router.weight",
        bias: "mlp.router.bias",
        up: &["mlp.experts.gate_up_proj"],
        up_bias: &["mlp.experts.gate_up_proj_bias"],
        down: "mlp.experts.down_proj",
        down_bias: "mlp.experts.down_proj_bias",
        alternating: true,
        transposed: true,
        ..EXPERTS
    },
    ..LLAMA
};

pub(in crate::model) const GGUF_GPT_OSS: Names = Names {
    sinks: "attn_sinks.weight",
    experts: ExpertNames { bias: "ffn_gate_inp.bias", ..GGUF_EXPERTS },
    ..GGUF_POST_ATTENTION
};
