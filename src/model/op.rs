//! Steps of a plan.

use super::plan::{MatrixId, VectorId};
use super::spec::Activation;

/// One step of the forward pass, and one dispatch. Attention over several blocks and the choice of experts take two, a split matrix one per
/// piece, a fused norm none ([`Op::norm_by`]).
#[derive(Debug, Clone, PartialEq)]
pub enum Op {
    /// Token ids or positions -> residual, normed if a norm of the embedding follows, or layer inputs.
    Embed {
        /// Embedding table.
        table: MatrixId,
        /// Meaning of the table's rows.
        of: Table,
    },
    /// Rows -> normalised.
    Norm {
        /// Rows to read.
        from: HiddenRows,
        /// Rows to write.
        to: HiddenRows,
        /// Gain [hidden].
        gain: VectorId,
        /// Bias [hidden], if this kind of norm has one.
        bias: Option<VectorId>,
        /// `true`: only rows whose logits are needed.
        head: bool,
    },
    /// Ends a draft before a token that its drafter expects to be rejected: normed and Markov rows, at the token's row -> the step.
    Confide {
        /// Weights of the normed row and of the Markov row [hidden + rank].
        weights: VectorId,
        /// Bias [1].
        bias: VectorId,
    },
    /// Residual -> kept hidden states, at the rows' positions.
    KeepHidden {
        /// Index of these hidden states among those of a position.
        part: usize,
    },
    /// Kept hidden states at the rows' positions -> joined, after an embedding if there is one.
    TakeHidden,
    /// Projected -> kept hidden states, each one position after a row's.
    KeepProjected,
    /// Rows -> normalised, added to others, which are then multiplied by a factor.
    AddNorm {
        /// Rows to read.
        from: HiddenRows,
        /// Rows to add to.
        to: HiddenRows,
        /// Gain [hidden].
        gain: VectorId,
        /// Factor [1].
        factor: VectorId,
    },
    /// Projections to the inputs of all layers -> each normalised, layer inputs.
    LayerInputNorm {
        /// Gain [layer_input_size].
        gain: VectorId,
    },
    /// x W^T, with the epilogue fused. If the matrix is of experts, for each expert that a row uses.
    Matmul {
        /// x.
        input: Input,
        /// W.
        matrix: MatrixId,
        /// Destination of the result.
        output: Output,
    },
    /// Fused q, k, v -> normalised, rotated, q and the KV cache.
    QkNorm {
        /// Layer, for its cache and rope.
        layer: usize,
        /// Gains of q and k [heads + kv_heads, head_dim].
        gain: VectorId,
        /// Bias of the fused projection.
        bias: VectorId,
    },
    /// q and the KV cache -> mixed.
    Attention {
        /// Layer, for its cache and window.
        layer: usize,
        /// One more score of each head [heads]; without sinks so low that its weight is 0.
        sinks: VectorId,
    },
    /// Mixed, with gates among the projections -> mixed, times a function of the gates.
    GateHeads {
        /// Layer, for its heads.
        layer: usize,
        /// Gain of a norm: of each head before the gates [value_dim] in a delta net, of each group after them [value_width] in Mamba-2.
        gain: Option<VectorId>,
    },
    /// Projections to scores -> the experts of each row, and their weights.
    Route {
        /// Bias of the projections, or of the scores, [experts] ([`Experts::bias`](super::spec::Experts::bias)).
        bias: VectorId,
        /// Factor of the weight of each expert [experts].
        factors: VectorId,
    },
    /// Rows of experts -> their weighted sum.
    Combine {
        /// Residual, to which the sum is added, or other rows to write.
        to: HiddenRows,
        /// Bias of the rows of each expert [experts, hidden], or zeros for all [hidden].
        bias: VectorId,
    },
    /// Fused b, c and x, and the history of b x -> c times the convolution of b x.
    ShortConv {
        /// Layer, for its history.
        layer: usize,
        /// Weights [hidden, taps].
        taps: VectorId,
    },
    /// Fused q, k, v, write strength, decay and gates, and the states -> mixed, which the gates do not multiply yet.
    DeltaNet {
        /// Layer, for its states.
        layer: usize,
        /// Weights of the convolution [conv_width, taps].
        taps: VectorId,
        /// Bias of the convolution [conv_width].
        conv_bias: VectorId,
        /// Speed of the decay [value_heads].
        rates: VectorId,
        /// Bias of the decay [value_heads].
        bias: VectorId,
        /// Factor of v in the output [value_heads].
        skip: VectorId,
    },
}

impl Op {
    /// Returns a norm of the same rows that writes the hidden states to keep, of all rows.
    pub(super) fn keeping(self) -> Self {
        match self {
            Self::Norm { from, gain, bias, .. } => Self::Norm { from, to: HiddenRows::Kept, gain, bias, head: false },
            other => other,
        }
    }

    /// Returns the gain of `next` if it is fused into this step and the readers of its output: an RMS norm directly after an addition to
    /// the residual stream.
    pub fn norm_by(&self, next: &Self) -> Option<VectorId> {
        match (self, next) {
            (
                Self::Matmul { output: Output::Residual { .. }, .. },
                Self::Norm { from: HiddenRows::Residual, to: HiddenRows::Normed, gain, bias: None, .. },
            ) => Some(*gain),
            _ => None,
        }
    }
}

/// Meaning of the rows of an embedding table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Table {
    /// Tokens: the start of the residual stream.
    Tokens,
    /// Positions: added to the residual stream.
    Positions,
    /// Tokens: added to the inputs of all layers.
    LayerInputs,
    /// Tokens of the target: first half of joined rows.
    Joined,
    /// Tokens: a Markov row, for the logits after them.
    Markov,
}

impl Table {
    /// Returns the factor for the sum of a row and what it is added to.
    pub fn factor(self) -> f32 {
        match self {
            Self::Tokens | Self::Positions | Self::Joined | Self::Markov => 1.0,
            // Keeps the variance of a sum of two.
            Self::LayerInputs => std::f32::consts::FRAC_1_SQRT_2,
        }
    }
}

/// Rows [hidden] of a pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HiddenRows {
    /// Residual stream.
    Residual,
    /// Normalised rows, or the output of a branch before its norm.
    Normed,
    /// Sum of an MLP and of the experts of its layer, each normalised.
    Branches,
    /// Kept hidden states, at the rows' positions.
    Kept,
    /// Kept hidden states, each one position after a row's.
    KeptNext,
    /// First half of joined rows [2 hidden], for an embedding.
    JoinedEmbedding,
    /// Second half of joined rows [2 hidden], for a hidden state.
    JoinedHidden,
}

/// Input of a matmul.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Input {
    /// Normed rows [hidden].
    Normed,
    /// Residual stream [hidden].
    Residual,
    /// Output of the mixer.
    Mixed,
    /// Rows of the MLP [intermediate], or gated layer inputs.
    Mlp,
    /// An embedding and a hidden state [2 hidden], or hidden states after several layers, side by side.
    Joined,
    /// Markov rows [rank].
    Markov,
}

/// Destination of a matmul's result: the epilogue.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Output {
    /// Projections without changes, for [`Op::QkNorm`], [`Op::GateHeads`], [`Op::ShortConv`], [`Op::DeltaNet`], [`Op::Route`] and
    /// [`Op::LayerInputNorm`].
    Projected,
    /// Rotated q, and k and v appended to the cache.
    Rotary {
        /// Layer, for its cache and rope.
        layer: usize,
        /// Bias [rows].
        bias: VectorId,
    },
    /// Residual stream, in place of what it was.
    Start,
    /// Added to the residual.
    Residual {
        /// Bias [rows].
        bias: VectorId,
    },
    /// Normed, for [`Op::AddNorm`].
    Normed,
    /// Rows of experts [rows, experts used, hidden], for [`Op::Combine`].
    Experts,
    /// MLP, `activation(gate) * up`.
    Gate {
        /// Bias [rows], gate and up alternating. Without biases, experts share the zeros of one.
        bias: VectorId,
        /// Activation of the gate.
        activation: Activation,
    },
    /// MLP, `activation(result)`, times the input of a layer if there is one.
    Activate {
        /// Bias [rows].
        bias: VectorId,
        /// Activation function.
        activation: Activation,
        /// Layer whose input multiplies the result.
        input_of: Option<usize>,
    },
    /// Added to the logits of a draft token.
    MoreLogits {
        /// Zeros [vocab].
        bias: VectorId,
    },
    /// Logits, with their bias, factor and bound.
    Logits {
        /// Bias [vocab].
        bias: VectorId,
    },
}
