//! Rotary position embedding tables, computed in f64: shader sines are wrong by up to 3e-3 on some drivers.

use super::spec::{RopeScaling, RopeSpec};

/// The table [positions, rotary_dim / 2] of (cos, sin), flattened, for the angles `position * frequency`.
pub fn rotary_table(rope: &RopeSpec, positions: usize) -> Vec<f32> {
    let frequencies = frequencies(rope);
    let mut table = Vec::with_capacity(positions * rope.rotary_dim);
    for position in 0..positions {
        for frequency in &frequencies {
            let (sin, cos) = (position as f64 * frequency).sin_cos();
            table.extend([cos as f32, sin as f32]);
        }
    }
    table
}

/// Angle per position of each rotating pair [rotary_dim / 2].
fn frequencies(rope: &RopeSpec) -> Vec<f64> {
    let pairs = (0..rope.rotary_dim).step_by(2);
    let plain = pairs.map(|i| rope.theta.powf(-(i as f64) / rope.rotary_dim as f64));
    let scaled = plain.map(|frequency| match &rope.scaling {
        RopeScaling::None => frequency,
        RopeScaling::Linear { factor } => frequency / factor,
        RopeScaling::Llama3 { factor, low_freq_factor, high_freq_factor, original_max_position_embeddings } => {
            let turns = original_max_position_embeddings * frequency / std::f64::consts::TAU;
            let ramp = ((turns - low_freq_factor) / (high_freq_factor - low_freq_factor)).clamp(0.0, 1.0);
            (1.0 - ramp) * frequency / factor + ramp * frequency
        }
    });
    // As transformers rounds them.
    scaled.map(|frequency| f64::from(frequency as f32)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rope(scaling: RopeScaling) -> RopeSpec {
        RopeSpec { theta: 10_000.0, rotary_dim: 8, scaling }
    }

    #[test]
    fn the_table_holds_cosines_and_sines_at_far_positions() {
        let table = rotary_table(&rope(RopeScaling::None), 32_768);
        for position in [0usize, 1, 4095, 32_767] {
            for pair in 0..4 {
                let angle = position as f64 * f64::from(10_000f64.powf(-(pair as f64) / 4.0) as f32);
                let at = position * 8 + pair * 2;
                assert!((f64::from(table[at]) - angle.cos()).abs() < 1e-7);
                assert!((f64::from(table[at + 1]) - angle.sin()).abs() < 1e-7);
            }
        }
    }

    #[test]
    fn llama3_scaling_leaves_short_waves_and_stretches_long_ones() {
        let scaling = RopeScaling::Llama3 {
            factor: 8.0,
            low_freq_factor: 1.0,
            high_freq_factor: 4.0,
            original_max_position_embeddings: 64.0,
        };
        let plain = frequencies(&rope(RopeScaling::None));
        let scaled = frequencies(&rope(scaling));
        assert_eq!(plain[0], scaled[0]);
        assert!((scaled[3] * 8.0 - plain[3]).abs() < 1e-9);
    }
}
