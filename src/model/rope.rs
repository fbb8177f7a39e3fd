//! Rotary position embedding tables, computed in f64: shader sines are wrong by up to 3e-3 on some drivers.

use super::rope_spec::{QueryGrowth, RopeScaling, RopeSpec};

/// Returns the flattened table [positions, rotary_dim / 2] of (cos, sin) of `position * frequency`. `positions` is the capacity of the
/// context, since frequencies may depend on it. If q grows, a second table of the same size follows, for q.
pub fn rotary_table(rope: &RopeSpec, positions: usize) -> Vec<f32> {
    let frequencies = frequencies(rope, positions);
    let factor = match &rope.scaling {
        RopeScaling::LongRope { attention_factor, .. } | RopeScaling::Yarn { attention_factor, .. } => {
            *attention_factor
        }
        _ => 1.0,
    };
    let mut table = Vec::with_capacity(rope.tables() * positions * rope.rotary_dim);
    for growth in [None, rope.query_growth].into_iter().take(rope.tables()) {
        for position in (0..positions).map(|position| position as f64) {
            let growth = growth
                .map_or(1.0, |QueryGrowth { beta, original }| 1.0 + beta * (1.0 + (position / original).floor()).ln());
            for frequency in &frequencies {
                let angle = position * frequency;
                let (sin, cos) = if rope.reversed { -angle } else { angle }.sin_cos();
                table.extend([cos, sin].map(|x| (x * factor * growth) as f32));
            }
        }
    }
    table
}

impl RopeSpec {
    /// Returns the number of tables of [`rotary_table`].
    pub fn tables(&self) -> usize {
        if self.query_growth.is_some() { 2 } else { 1 }
    }
}

/// Returns the angle per position of each rotating pair [rotary_dim / 2].
fn frequencies(rope: &RopeSpec, positions: usize) -> Vec<f64> {
    let plain = (0..rope.rotary_dim / 2).map(|pair| rope.theta.powf(-((2 * pair) as f64) / rope.rotary_dim as f64));
    let scaled = plain.enumerate().map(|(pair, frequency)| match &rope.scaling {
        RopeScaling::None => frequency,
        RopeScaling::Proportional { pairs } => {
            if pair < *pairs {
                frequency
            } else {
                0.0
            }
        }
        RopeScaling::Linear { factor } => frequency / factor,
        RopeScaling::Llama3 { factor, low_freq_factor, high_freq_factor, original_max_position_embeddings } => {
            let turns = original_max_position_embeddings * frequency / std::f64::consts::TAU;
            let ramp = ((turns - low_freq_factor) / (high_freq_factor - low_freq_factor)).clamp(0.0, 1.0);
            (1.0 - ramp) * frequency / factor + ramp * frequency
        }
        RopeScaling::Yarn { factor, beta_fast, beta_slow, truncate, original_max_position_embeddings, .. } => {
            // Returns the pair that turns this often within the original context.
            let pair_of = |turns: f64| {
                let wavelength = original_max_position_embeddings / (turns * std::f64::consts::TAU);
                rope.rotary_dim as f64 * wavelength.ln() / (2.0 * rope.theta.ln())
            };
            let (first, last) = (pair_of(*beta_fast), pair_of(*beta_slow));
            let (first, last) = if *truncate { (first.floor(), last.ceil()) } else { (first, last) };
            let (first, last) = (first.max(0.0), last.min((rope.rotary_dim - 1) as f64));
            let last = if first == last { last + 0.001 } else { last };
            let ramp = ((pair as f64 - first) / (last - first)).clamp(0.0, 1.0);
            ramp * frequency / factor + (1.0 - ramp) * frequency
        }
        RopeScaling::LongRope { short_factor, long_factor, original_max_position_embeddings, .. } => {
            let is_long = positions as f64 > *original_max_position_embeddings;
            frequency / if is_long { long_factor } else { short_factor }[pair]
        }
    });
    // Rounded as in transformers.
    scaled.map(|frequency| f64::from(frequency as f32)).collect()
}

#[cfg(test)]
mod tests;
