//! Tests of `noise`.

use super::*;

#[test]
fn tails_are_those_of_the_exact_function() {
    for (high, low) in [(0, 0), (0, 1), (0, u32::MAX), (1, 7), (1 << 24, 5), ((1 << 31) - 1, 9), (1 << 31, 0)] {
        let v = (f64::from(high) + (f64::from(low) + 0.5) / 4_294_967_296.0) / 4_294_967_296.0;
        let exact = -(-v).ln_1p();
        let found = f64::from(inverse(high, low));
        assert!((found / exact - 1.0).abs() < 1e-6, "{high} {low}: {found} instead of {exact}");
    }
    for (high, low) in [(u32::MAX, u32::MAX), (u32::MAX, 0), (u32::MAX - 1, 3), (u32::MAX - 70_000, 0)] {
        let rest = (f64::from(!high) + (f64::from(!low) + 0.5) / 4_294_967_296.0) / 4_294_967_296.0;
        let found = f64::from(inverse(high, low));
        assert!((found / -rest.ln() - 1.0).abs() < 1e-6, "{high} {low}: {found} instead of {}", -rest.ln());
    }
}
