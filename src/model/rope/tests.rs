//! Tests of `rope`.

use super::*;

fn rope(scaling: RopeScaling) -> RopeSpec {
    RopeSpec { theta: 10_000.0, rotary_dim: 8, reversed: false, scaling, query_growth: None }
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
    let plain = frequencies(&rope(RopeScaling::None), 256);
    let scaled = frequencies(&rope(scaling), 256);
    assert_eq!(plain[0], scaled[0]);
    assert!((scaled[3] * 8.0 - plain[3]).abs() < 1e-9);
}

#[test]
fn longrope_takes_the_long_factors_where_there_is_room_for_more_than_the_original_length() {
    let scaling = RopeScaling::LongRope {
        short_factor: vec![1.0, 1.0, 1.0, 1.0],
        long_factor: vec![1.0, 2.0, 3.0, 4.0],
        attention_factor: 1.25,
        original_max_position_embeddings: 64.0,
    };
    let plain = frequencies(&rope(RopeScaling::None), 0);
    assert_eq!(frequencies(&rope(scaling.clone()), 64), plain);
    assert!((frequencies(&rope(scaling.clone()), 65)[3] * 4.0 - plain[3]).abs() < 1e-9);
    assert_eq!(rotary_table(&rope(scaling), 1)[..2], [1.25, 0.0]);
}
