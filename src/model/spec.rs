//! Description of a model: enough to plan every kernel call without reading `config.json` again.

use super::architecture::{Architecture, NormKind, Residual};
use super::drafter::{AtOnce, HiddenStates, Markov};
use super::names::{Names, Naming};
use super::op::Table;
use super::rope_spec::RopeSpec;
use serde::Serialize;

/// A decoder-only transformer, in the same form for every supported architecture.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ModelSpec {
    /// Architecture whose facts it was made from.
    pub architecture: Architecture,
    /// Naming convention of its tensors.
    pub naming: Naming,
    /// Tokens in the embedding table.
    pub vocab_size: usize,
    /// Width of the residual stream.
    pub hidden_size: usize,
    /// Positions that the model was made for.
    pub max_position_embeddings: usize,
    /// Norm of the residual stream.
    pub norm: NormKind,
    /// `true`: norms have gains.
    pub norm_gain: bool,
    /// `true`: layer norms have biases.
    pub norm_bias: bool,
    /// Added to the mean square, or to the variance.
    pub norm_eps: f64,
    /// Way in which attention and MLP are added to the residual stream.
    pub residual: Residual,
    /// Factor for what attention and MLP add to the residual stream.
    pub residual_scale: f32,
    /// `true`: positions are embedded like tokens.
    pub learned_positions: bool,
    /// Factor for the embedding rows.
    pub embedding_scale: f32,
    /// `true`: the embedding rows are normalised.
    pub embedding_norm: bool,
    /// Factor for the attention scores, usually `head_dim^-0.5`.
    pub attention_scale: f32,
    /// Bound of the attention scores: `cap tanh(score / cap)`; `None`: no bound.
    pub attention_cap: Option<f32>,
    /// `true`: the q, k and v projections have biases.
    pub qkv_bias: bool,
    /// `true`: the output projection of attention has a bias.
    pub output_bias: bool,
    /// `true`: each head has a number that is one more score, of a value of zeros.
    pub attention_sinks: bool,
    /// Gates whose sigmoid multiplies attention's output; `None`: there are none.
    pub attention_gate: Option<AttentionGate>,
    /// Norm of q and k; `None`: there is none.
    pub qk_norm: Option<QkNorm>,
    /// MLP.
    pub mlp: Mlp,
    /// Experts of some layers; `None`: no layer has any.
    pub experts: Option<Experts>,
    /// Width of each layer's own input, made from a second embedding of the token; 0: layers have none.
    pub layer_input_size: usize,
    /// `true`: the residual stream is multiplied by a number after each layer.
    pub layer_scale: bool,
    /// `true`: the LM head is the embedding table.
    pub tie_word_embeddings: bool,
    /// `true`: the LM head has a bias.
    pub head_bias: bool,
    /// Factor for the logits.
    pub logit_scale: f32,
    /// Bound of the logits: `cap tanh(logit / cap)`, after their factor; `None`: no bound.
    pub logit_cap: Option<f32>,
    /// `true`: rows of q and k that rotate together are adjacent in the checkpoint, whatever its architecture.
    pub interleaved_rotation: bool,
    /// Rotary tables that layers refer to.
    pub ropes: Vec<RopeSpec>,
    /// One entry per layer.
    pub layers: Vec<LayerSpec>,
    /// Use of hidden states, by a target and its drafter.
    pub hidden_states: HiddenStates,
    /// Pass in which the model, a drafter, guesses several tokens; `None`: a pass guesses one.
    pub at_once: Option<AtOnce>,
    /// Correction of its logits by the tokens before; `None`: there is none.
    pub markov: Option<Markov>,
    /// Token that begins a text; `None`: there is none.
    pub bos_token_id: Option<u32>,
    /// Tokens that end a text.
    pub eos_token_id: Vec<u32>,
}

/// Token facts that texts need, for a local model or one on a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenSpec {
    /// Size of the vocabulary.
    pub vocab_size: usize,
    /// Token that begins a text; `None`: there is none.
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

/// Properties that differ between layers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LayerSpec {
    /// The part that lets a row depend on the rows before it.
    pub mixer: Mixer,
    /// Width of the MLP; 0: it has none.
    pub intermediate_size: usize,
    /// Width of each of [`ModelSpec::experts`]; 0: it has none.
    pub expert_size: usize,
}

impl LayerSpec {
    /// Returns the attention of the layer, if it has one.
    pub fn attention(&self) -> Option<&AttentionSpec> {
        match &self.mixer {
            Mixer::Attention(attention) => Some(attention),
            Mixer::ShortConv { .. } | Mixer::DeltaNet(_) => None,
        }
    }

    /// Returns the delta net or the Mamba-2 of the layer, if it has one.
    pub fn delta_net(&self) -> Option<&DeltaSpec> {
        match &self.mixer {
            Mixer::DeltaNet(delta) => Some(delta),
            Mixer::Attention(_) | Mixer::ShortConv { .. } => None,
        }
    }

    /// Returns the width of the mixer's output, for a residual stream of width `hidden`.
    pub fn mixed_width(&self, hidden: usize) -> usize {
        match &self.mixer {
            Mixer::Attention(attention) => attention.q_width(),
            Mixer::ShortConv { .. } => hidden,
            Mixer::DeltaNet(delta) => delta.value_width(),
        }
    }
}

/// Kinds of mixers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Mixer {
    /// Softmax attention with a KV cache.
    Attention(AttentionSpec),
    /// `c * conv(b * x)` for three projections b, c and x of a row [hidden], with a convolution over positions for each element (LFM2).
    ShortConv {
        /// Positions that a row depends on, including its own.
        taps: usize,
    },
    /// Linear attention whose state forgets.
    DeltaNet(DeltaSpec),
}

/// Gated delta net of a layer (Yang et al. 2024, "Gated Delta Networks"), or a Mamba-2 (Dao and Gu 2024, "Transformers are SSMs"), which is
/// one that replaces nothing. Their q, k and v first pass a short convolution over positions. In Mamba-2 they are called C, B and x.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct DeltaSpec {
    /// Heads of q and k.
    pub key_heads: usize,
    /// Heads of v, each with a state [key_dim, value_dim]; a multiple of `key_heads`.
    pub value_heads: usize,
    /// Elements per head of q and k; a multiple of 4.
    pub key_dim: usize,
    /// Elements per head of v.
    pub value_dim: usize,
    /// Positions that the convolution of a row depends on, including its own.
    pub taps: usize,
    /// `true`: a delta net: a new v replaces what the state has for its k, and q and k are normalised. `false`: Mamba-2: the state adds up,
    /// the decay is also the write strength, the convolution has a bias, and v is added to the output, times a factor.
    pub replaces: bool,
}

impl DeltaSpec {
    /// Returns the width of v and of the output.
    pub fn value_width(&self) -> usize {
        self.value_heads * self.value_dim
    }

    /// Returns the width of q, k and v together.
    pub fn conv_width(&self) -> usize {
        2 * self.key_heads * self.key_dim + self.value_width()
    }

    /// Returns the numbers of a row that the recurrence reads: q, k and v, then two for each head of v.
    pub fn input_width(&self) -> usize {
        self.conv_width() + 2 * self.value_heads
    }
}

/// Gates of attention's output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum AttentionGate {
    /// One for each head.
    Heads,
    /// One for each element. The projection to q has the gates of each head after its q.
    Elements,
}

/// Attention of a layer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AttentionSpec {
    /// Query heads.
    pub heads: usize,
    /// Key and value heads; divides the query heads.
    pub kv_heads: usize,
    /// Elements per head; a multiple of 4.
    pub head_dim: usize,
    /// Positions that a row attends to, including its own; `None`: all.
    pub window: Option<usize>,
    /// Index into [`ModelSpec::ropes`]; `None`: no rotation.
    pub rope: Option<usize>,
    /// Earlier layer whose keys and values it reads; `None`: it has its own.
    pub kv_layer: Option<usize>,
    /// `true`: the projection to k is also that to v.
    pub values_are_keys: bool,
}

impl AttentionSpec {
    /// Returns the output width of the fused q, k, v projection.
    pub fn qkv_width(&self) -> usize {
        (self.heads + 2 * self.own_kv_heads()) * self.head_dim
    }

    /// Returns the key and value heads that it computes: none if it reads those of another layer.
    pub fn own_kv_heads(&self) -> usize {
        if self.kv_layer.is_some() { 0 } else { self.kv_heads }
    }

    /// Returns the width of q and of attention's output.
    pub fn q_width(&self) -> usize {
        self.heads * self.head_dim
    }

    /// Returns the width of k and of v that it stores per position.
    pub fn kv_width(&self) -> usize {
        self.own_kv_heads() * self.head_dim
    }
}

/// RMS norms of q and k.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum QkNorm {
    /// Each head, before rotation.
    Heads,
    /// Each head, after rotation.
    RotatedHeads,
    /// All heads of q together, and all of k, before rotation.
    Width,
    /// Like `Heads`, and each head of v without a gain.
    HeadsAndValues,
}

/// The feed-forward part of a layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Mlp {
    /// `true`: `down(activation(gate(x)) * up(x))`; `false`: `down(activation(up(x)))`.
    pub gated: bool,
    /// Activation of the gate, or of the up projection.
    pub activation: Activation,
    /// `true`: all projections have biases, also those of experts.
    pub bias: bool,
}

/// Experts of a layer: MLPs of equal shape, of which each row uses a few. Their outputs are added, each times a weight.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Experts {
    /// Experts to choose from.
    pub count: usize,
    /// Experts chosen for a row: those with the highest scores.
    pub chosen: usize,
    /// Experts that each row uses, numbered after the others. Their weight is a sigmoid of a score of their own.
    pub shared: usize,
    /// Function of the router's results that makes scores.
    pub scores: ExpertScores,
    /// `true`: weights are divided by their sum.
    pub normalised: bool,
    /// `true`: a bias is added to the router's results; or, if scores are sigmoids, to the scores, for the choice alone.
    pub bias: bool,
    /// Factor of the weights.
    pub scale: f32,
    /// `true`: the layer also has an MLP, which reads the same residual. Each of both has a norm before it and one after it, the router has a norm of its
    /// own, and the weight of each expert a factor (Gemma 4).
    pub with_mlp: bool,
}

impl Experts {
    /// Returns the number of all experts.
    pub fn all(&self) -> usize {
        self.count + self.shared
    }

    /// Returns the number of experts that a row uses.
    pub fn used(&self) -> usize {
        self.chosen + self.shared
    }
}

/// Functions of a router's results, over all experts that it chooses from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ExpertScores {
    /// Softmax.
    Softmax,
    /// Sigmoid of each.
    Sigmoid,
}

/// Pointwise functions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Activation {
    /// `x sigmoid(x)`.
    Silu,
    /// `x Phi(x)`, with the distribution function of the normal distribution (Hendrycks and Gimpel 2016).
    Gelu,
    /// Approximation of `Gelu` by a hyperbolic tangent.
    GeluTanh,
    /// `max(x, 0)`.
    Relu,
    /// `max(x, 0)^2`.
    ReluSquared,
    /// `y sigmoid(1.702 y)` with `y = min(x, 7)`, of a gate for `1 + min(max(up, -7), 7)` (gpt-oss).
    ClampedSwiglu,
}

impl Activation {
    /// All activations.
    pub const ALL: [Self; 6] =
        [Self::Silu, Self::Gelu, Self::GeluTanh, Self::Relu, Self::ReluSquared, Self::ClampedSwiglu];
}

impl ModelSpec {
    /// Returns the names and layouts of its tensors.
    pub fn names(&self) -> &'static Names {
        self.architecture.names(self.naming)
    }

    /// Returns the name of a layer's tensor.
    pub(super) fn layer_tensor(&self, layer: usize, suffix: &str) -> String {
        match self.hidden_states {
            HiddenStates::Read { .. } => self.mtp_tensor(&format!("{}.{suffix}", self.naming.mtp().layer)),
            _ => format!("{}.{layer}.{suffix}", self.names().layers),
        }
    }

    /// Returns what is added to the mean square of a projection to a layer's input. The norm is that of the projection times
    /// `hidden_size^-0.5`.
    pub fn layer_input_eps(&self) -> f32 {
        (self.norm_eps * self.hidden_size as f64) as f32
    }

    /// Returns the factor for the rows of an embedding table.
    pub fn table_scale(&self, table: Table) -> f32 {
        match table {
            Table::Tokens | Table::Joined => self.embedding_scale,
            Table::Positions | Table::Markov => 1.0,
            Table::LayerInputs => (self.layer_input_size as f32).sqrt(),
        }
    }

    /// Returns the attention of each layer that has one.
    pub fn attentions(&self) -> impl Iterator<Item = &AttentionSpec> {
        self.layers.iter().filter_map(LayerSpec::attention)
    }

    /// Returns the largest value of any layer; 0 if no layer has one.
    pub fn largest(&self, of_layer: impl Fn(&LayerSpec) -> usize) -> usize {
        self.layers.iter().map(of_layer).max().unwrap_or(0)
    }
}
