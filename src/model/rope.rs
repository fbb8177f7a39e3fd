//! Rotary position embedding tables, computed in f64: shader sines are wrong by up to 3e-3 on some drivers.

use super::spec::{RopeScaling, RopeSpec};

/// Returns the flattened table [positions, rotary_dim / 2] of (cos, sin) of `position * frequency`. `positions` is the capacity of the
/// context, since frequencies may depend on it.
pub fn rotary_table(rope: &RopeSpec, positions: usize) -> Vec<f32> {
    let frequencies = frequencies(rope, positions);
    let factor = match &rope.scaling {
        RopeScaling::LongRope { attention_factor, .. } => *attention_factor,
        _ => 1.0,
    };
    let mut table = Vec::with_capacity(positions * rope.rotary_dim);
    for position in 0..positions {
        for frequency in &frequencies {
            let (sin, cos) = (position as f64 * frequency).sin_cos();
            table.extend([(cos * factor) as f32, (sin * factor) as f32]);
        }
    }
    table
}

/// Returns the angle per position of each rotating pair [rotary_dim / 2].
fn frequencies(rope: &RopeSpec, positions: usize) -> Vec<f64> {
    let plain = (0..rope.rotary_dim / 2).map(|pair| rope.theta.powf(-((2 * pair) as f64) / rope.rotary_dim as f64));
    let scaled = plain.enumerate().map(|(pair, frequency)| match &rope.scaling {
        RopeScaling::None => frequency,
        RopeScaling::Linear { factor } => frequency / factor,
        RopeScaling::Llama3 { factor, low_freq_factor, high_freq_factor, original_max_position_embeddings } => {
            let turns = original_max_position_embeddings * frequency / std::f64::consts::TAU;
            let ramp = ((turns - low_freq_factor) / (high_freq_factor - low_freq_factor)).clamp(0.0, 1.0);
            (1.0 - ramp) * frequency / factor + ramp * frequency
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
