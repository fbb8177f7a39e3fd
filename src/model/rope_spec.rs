//! Description of rotary tables.

use serde::Serialize;

/// One rotary table.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RopeSpec {
    /// Base of the wavelengths.
    pub theta: f64,
    /// Leading elements of a head that rotate; even.
    pub rotary_dim: usize,
    /// `true`: angles are negative.
    pub reversed: bool,
    /// Scaling of the wavelengths.
    pub scaling: RopeScaling,
    /// Growth of q with the position; `None`: q does not grow.
    pub query_growth: Option<QueryGrowth>,
}

/// Growth of q: by `1 + beta ln(1 + floor(position / original))` (Llama 4).
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct QueryGrowth {
    /// Factor of the logarithm.
    pub beta: f64,
    /// Context length before scaling.
    pub original: f64,
}

/// Ways to scale the wavelengths for longer contexts.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RopeScaling {
    /// Unchanged (Su et al. 2021).
    None,
    /// All by one factor (Chen et al. 2023).
    Linear {
        /// Factor of all wavelengths.
        factor: f64,
    },
    /// Long wavelengths by a factor, short ones unchanged, with a ramp between (Llama 3.1).
    Llama3 {
        /// Factor of wavelengths longer than `original / low_freq_factor`.
        factor: f64,
        /// Start of the ramp, as `original / wavelength`.
        low_freq_factor: f64,
        /// End of the ramp, as `original / wavelength`.
        high_freq_factor: f64,
        /// Context length before scaling.
        original_max_position_embeddings: f64,
    },
    /// The first pairs unchanged, the others do not rotate (Gemma 4).
    Proportional {
        /// Number of pairs that rotate.
        pairs: usize,
    },
    /// Like `Llama3`, with a ramp over the pairs instead of the wavelengths (Peng et al. 2023, "YaRN").
    Yarn {
        /// Factor of long wavelengths.
        factor: f64,
        /// Turns within the original context from which a wavelength is unchanged.
        beta_fast: f64,
        /// Turns up to which a wavelength has the whole factor.
        beta_slow: f64,
        /// `true`: the ramp begins and ends at whole pairs.
        truncate: bool,
        /// Factor for cosine and sine.
        attention_factor: f64,
        /// Context length before scaling.
        original_max_position_embeddings: f64,
    },
    /// Each wavelength by its own factor, from one of two lists (Ding et al. 2024, "LongRoPE"). The list is selected once, by the capacity
    /// of the context. transformers changes it within a text; then cached keys differ from those of the same text read at once.
    LongRope {
        /// Factors for contexts up to the original length [rotary_dim / 2].
        short_factor: Vec<f64>,
        /// Factors for longer contexts [rotary_dim / 2].
        long_factor: Vec<f64>,
        /// Factor for cosine and sine.
        attention_factor: f64,
        /// Context length before scaling.
        original_max_position_embeddings: f64,
    },
}
