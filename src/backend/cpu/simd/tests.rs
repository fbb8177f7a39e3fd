//! Tests of `simd`.

use super::{arch, exp};
use pulp::{Scalar, Simd, WithSimd};

struct Exp<'a>(&'a [f32]);

impl WithSimd for Exp<'_> {
    type Output = Vec<f32>;

    fn with_simd<S: Simd>(self, simd: S) -> Vec<f32> {
        let each = |x: &f32| simd.reduce_max_f32s(exp(simd, simd.splat_f32s(*x)));
        self.0.iter().map(each).collect()
    }
}

#[test]
fn powers_of_e() {
    let all: Vec<f32> = (-8_700..=8_800).map(|i| i as f32 / 100.0).collect();
    for run in [|x: &[f32]| arch().dispatch(Exp(x)), |x: &[f32]| Exp(x).with_simd(Scalar)] {
        for (x, power) in all.iter().zip(run(&all)) {
            let expected = f64::from(*x).exp();
            let error = (f64::from(power) - expected).abs() / expected;
            assert!(error <= 2.0 * f64::from(f32::EPSILON), "e^{x}: {error:e}");
        }
        let [one, least, nan] = run(&[0.0, f32::NEG_INFINITY, f32::NAN])[..] else { unreachable!() };
        assert_eq!(one, 1.0);
        assert!(least < 2e-38);
        assert!(nan.is_nan());
    }
}
