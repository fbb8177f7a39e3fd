//! What a model is, in plain facts: enough to plan every kernel call without another look at `config.json`.

use super::architecture::{Architecture, NormKind, Residual};
use super::names::{Names, Naming};
use serde::Serialize;

/// A decoder-only transformer, as one description for every supported architecture.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ModelSpec {
    /// The row of facts that it was made from.
    pub architecture: Architecture,
    /// What its tensors are called.
    pub naming: Naming,
    /// Tokens in the embedding table.
    pub vocab_size: usize,
    /// Width of the residual stream.
    pub hidden_size: usize,
    /// Query heads.
    pub num_attention_heads: usize,
    /// Key and value heads; divides the query heads.
    pub num_key_value_heads: usize,
    /// Elements per head; a multiple of 4.
    pub head_dim: usize,
    /// Width of the MLP.
    pub intermediate_size: usize,
    /// Positions the model was made for.
    pub max_position_embeddings: usize,
    /// Of the residual stream.
    pub norm: NormKind,
    /// Added to the mean square, or to the variance.
    pub norm_eps: f64,
    /// How attention and MLP join the residual stream.
    pub residual: Residual,
    /// Positions are embedded like tokens.
    pub learned_positions: bool,
    /// Factor for the embedding rows.
    pub embedding_scale: f32,
    /// Factor for the attention scores, usually `head_dim^-0.5`.
    pub attention_scale: f32,
    /// Biases of the q, k and v projections.
    pub qkv_bias: bool,
    /// Bias of the attention's output projection.
    pub output_bias: bool,
    /// Each head of q and k is normalised before it rotates.
    pub qk_norm: bool,
    /// The MLP.
    pub mlp: Mlp,
    /// The LM head is the embedding table.
    pub tie_word_embeddings: bool,
    /// Rotary tables that layers refer to.
    pub ropes: Vec<RopeSpec>,
    /// One entry per layer.
    pub layers: Vec<LayerSpec>,
    /// The token that begins a text, if any.
    pub bos_token_id: Option<u32>,
    /// Tokens that end a text.
    pub eos_token_id: Vec<u32>,
}

/// What texts have to know of a model, be it here or on a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenSpec {
    /// Tokens that it has.
    pub vocab_size: usize,
    /// The token that begins a text, if any.
    pub bos_token_id: Option<u32>,
    /// Tokens that end a text.
    pub eos_token_id: Vec<u32>,
}

impl From<&ModelSpec> for TokenSpec {
    fn from(spec: &ModelSpec) -> Self {
        let ModelSpec { vocab_size, bos_token_id, eos_token_id, .. } = spec;
        Self { vocab_size: *vocab_size, bos_token_id: *bos_token_id, eos_token_id: eos_token_id.clone() }
    }
}

/// What differs from layer to layer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LayerSpec {
    /// Positions that a row sees, itself included; none: all.
    pub window: Option<usize>,
    /// Index into [`ModelSpec::ropes`]; none: no rotation.
    pub rope: Option<usize>,
}

/// The feed-forward part of a layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Mlp {
    /// `down(activation(gate(x)) * up(x))`, and not `down(activation(up(x)))`.
    pub gated: bool,
    /// Of the gate, or of what goes up.
    pub activation: Activation,
    /// Biases of all its projections.
    pub bias: bool,
}

/// Pointwise functions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Activation {
    /// `x sigmoid(x)`.
    Silu,
    /// `x Phi(x)`, with the distribution function of the normal distribution (Hendrycks and Gimpel 2016).
    Gelu,
    /// An approximation of that by a hyperbolic tangent.
    GeluTanh,
    /// `max(x, 0)`.
    Relu,
}

impl Activation {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Silu, Self::Gelu, Self::GeluTanh, Self::Relu];
}

/// One rotary table.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RopeSpec {
    /// Base of the wavelengths.
    pub theta: f64,
    /// Leading elements of a head that rotate; even.
    pub rotary_dim: usize,
    /// How the wavelengths are stretched.
    pub scaling: RopeScaling,
}

/// Ways to stretch the wavelengths for longer contexts.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RopeScaling {
    /// As they are (Su et al. 2021).
    None,
    /// All by one factor (Chen et al. 2023).
    Linear {
        /// The factor.
        factor: f64,
    },
    /// Long ones by a factor, short ones not, a ramp between (Llama 3.1).
    Llama3 {
        /// For wavelengths longer than `original / low_freq_factor`.
        factor: f64,
        /// Where the ramp begins.
        low_freq_factor: f64,
        /// Where the ramp ends.
        high_freq_factor: f64,
        /// Context length before the stretch.
        original_max_position_embeddings: f64,
    },
    /// Each wavelength by a factor of its own, from one of two lists (Ding et al. 2024, "LongRoPE"). Which one, is decided once,
    /// by the context that there is room for: were it to change in the middle of a text, as in transformers, the keys that
    /// are cached would be others than those of the same text read at once.
    LongRope {
        /// For contexts up to the original length [rotary_dim / 2].
        short_factor: Vec<f64>,
        /// For longer ones [rotary_dim / 2].
        long_factor: Vec<f64>,
        /// For cosine and sine.
        attention_factor: f64,
        /// Context length before the stretch.
        original_max_position_embeddings: f64,
    },
}

impl ModelSpec {
    /// What its tensors are called, and how they lie.
    pub fn names(&self) -> &'static Names {
        self.architecture.names(self.naming)
    }

    /// Elements of the fused q, k, v projection's output.
    pub fn qkv_width(&self) -> usize {
        (self.num_attention_heads + 2 * self.num_key_value_heads) * self.head_dim
    }

    /// Elements of q, and of what attention gives.
    pub fn q_width(&self) -> usize {
        self.num_attention_heads * self.head_dim
    }

    /// Elements of k, and of v, per position and layer.
    pub fn kv_width(&self) -> usize {
        self.num_key_value_heads * self.head_dim
    }
}
