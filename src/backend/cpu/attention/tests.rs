//! Tests of `attention`.

use super::*;

/// Checks keys too large for f16: they are infinite, with scores of either sign.
#[test]
fn a_score_that_is_not_finite_is_never_dropped() {
    const DIM: usize = 8;
    let heads = LayerHeads {
        heads: 1,
        kv_heads: 1,
        head_dim: DIM,
        rotary: 0,
        window: 64,
        has_own_kv: true,
        ahead: 0,
        sees_pass: false,
        scale: 1.0,
        cap: None,
        q_table: 0,
    };
    for sign in [1.0, -1.0] {
        for broken in [None, Some(0), Some(3), Some(16)] {
            let mut cache = Cache::new(1, DIM, KvDtype::F16);
            let mut qkv = Rows::new(17, 3 * DIM);
            for row in 0..qkv.len() {
                let key = if broken == Some(row) { 1e5 } else { 0.5 };
                qkv.row_mut(row)[..DIM].fill(sign);
                qkv.row_mut(row)[DIM..2 * DIM].fill(key);
                qkv.row_mut(row)[2 * DIM..].fill(1.0);
            }
            let q = cache.append(&heads, qkv, &[], &[]);
            let attended = cache.attend(&heads, &q, &[f32::MIN]);
            for row in 0..attended.len() {
                let is_finite = attended.row(row).iter().all(|value| value.is_finite());
                assert_eq!(is_finite, broken.is_none_or(|broken| row < broken), "{sign} {broken:?}: row {row}");
            }
        }
    }
}
