//! Norms and activations of rows.

use super::rows::Rows;
use super::simd::{arch, dot, exp, mul_add_vectors};
use crate::model::Activation;
use pulp::{Simd, WithSimd};
use std::iter::repeat;
use std::ops::Range;

/// Returns `x / rms(x) * gain` for each row, gain [width].
pub fn norm_rms(x: &Rows, gain: &[f32], eps: f32) -> Rows {
    let mut y = Rows::new(x.len(), x.width);
    arch().dispatch(NormRms { x, gain, eps, y: &mut y });
    y
}

struct NormRms<'a> {
    x: &'a Rows,
    gain: &'a [f32],
    eps: f32,
    y: &'a mut Rows,
}

impl WithSimd for NormRms<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { x, gain, eps, y } = self;
        for row in 0..x.len() {
            let squares = dot(simd, x.padded(row), x.padded(row));
            let scale = 1.0 / (squares / x.width as f32 + eps).sqrt();
            let factor = simd.splat_f32s(scale);
            let ((x, x_rest), (gain, gain_rest)) = (S::as_simd_f32s(x.row(row)), S::as_simd_f32s(gain));
            let (y, y_rest) = S::as_mut_simd_f32s(y.row_mut(row));
            for ((y, x), gain) in y.iter_mut().zip(x).zip(gain) {
                *y = simd.mul_f32s(simd.mul_f32s(*x, factor), *gain);
            }
            for ((y, x), gain) in y_rest.iter_mut().zip(x_rest).zip(gain_rest) {
                *y = x * scale * gain;
            }
        }
    }
}

/// Normalises parts of some numbers of each row, each as wide as the gain [width], times the gain.
pub fn norm_parts(x: &mut Rows, numbers: Range<usize>, gain: &[f32], eps: f32) {
    for row in 0..x.len() {
        let parts = norm_rms(&Rows::from_flat(&x.row(row)[numbers.clone()], gain.len()), gain, eps);
        let to = x.row_mut(row)[numbers.clone()].chunks_exact_mut(gain.len());
        to.enumerate().for_each(|(part, to)| to.copy_from_slice(parts.row(part)));
    }
}

/// Returns `(x - mean) / deviation * gain + bias` for each row, gain and bias [width].
pub fn norm_layer(x: &Rows, gain: &[f32], bias: &[f32], eps: f64) -> Rows {
    let mut y = Rows::new(x.len(), x.width);
    for row in 0..x.len() {
        let values = x.row(row);
        let mean = values.iter().map(|x| f64::from(*x)).sum::<f64>() / x.width as f64;
        let variance = values.iter().map(|x| (f64::from(*x) - mean).powi(2)).sum::<f64>() / x.width as f64;
        let scale = 1.0 / (variance + eps).sqrt();
        let rules = gain.iter().zip(bias.iter().chain(repeat(&0.0)));
        for ((y, x), (gain, bias)) in y.row_mut(row).iter_mut().zip(values).zip(rules) {
            *y = ((f64::from(*x) - mean) * scale) as f32 * gain + bias;
        }
    }
    y
}

/// Applies a pointwise function in place.
pub fn activation(function: Activation, x: &mut Rows) {
    arch().dispatch(Activate { function, values: x.data_mut() });
}

struct Activate<'a> {
    function: Activation,
    /// Whole rows with padding; zeros stay zeros.
    values: &'a mut [f32],
}

impl WithSimd for Activate<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { function, values } = self;
        let vectors = S::as_mut_simd_f32s(values).0;
        match function {
            Activation::Silu => {
                for v in vectors {
                    *v = gated(simd, *v, *v);
                }
            }
            Activation::Gelu => {
                for v in values {
                    *v = *v * 0.5 * libm::erfcf(-*v * std::f32::consts::FRAC_1_SQRT_2);
                }
            }
            Activation::GeluTanh => {
                let (linear, cubic) =
                    (simd.splat_f32s(2.0 * 0.797_884_6), simd.splat_f32s(2.0 * 0.797_884_6 * 0.044_715));
                for v in vectors {
                    let factor = mul_add_vectors(simd, simd.mul_f32s(*v, *v), cubic, linear);
                    *v = gated(simd, *v, simd.mul_f32s(factor, *v));
                }
            }
            Activation::Relu => {
                let zero = simd.splat_f32s(0.0);
                for v in vectors {
                    *v = simd.select_f32s(simd.less_than_f32s(*v, zero), zero, *v);
                }
            }
            Activation::ReluSquared => {
                let zero = simd.splat_f32s(0.0);
                for v in vectors {
                    let positive = simd.select_f32s(simd.less_than_f32s(*v, zero), zero, *v);
                    *v = simd.mul_f32s(positive, positive);
                }
            }
            Activation::ClampedSwiglu => {
                let (limit, steepness) = (simd.splat_f32s(SWIGLU_LIMIT), simd.splat_f32s(1.702));
                for v in vectors {
                    let clamped = simd.select_f32s(simd.greater_than_f32s(*v, limit), limit, *v);
                    *v = gated(simd, clamped, simd.mul_f32s(steepness, clamped));
                }
            }
        }
    }
}

/// Largest gate, and largest magnitude of what it multiplies, of [`Activation::ClampedSwiglu`].
const SWIGLU_LIMIT: f32 = 7.0;

/// Returns `x / (1 + e^-by)`.
#[inline(always)]
fn gated<S: Simd>(simd: S, x: S::f32s, by: S::f32s) -> S::f32s {
    let one = simd.splat_f32s(1.0);
    simd.div_f32s(x, simd.add_f32s(one, exp(simd, simd.neg_f32s(by))))
}

/// Returns `function(gate) * up` for rows in which gate and up alternate.
pub fn gate(y: &Rows, function: Activation) -> Rows {
    let mut gated = Rows::new(y.len(), y.width / 2);
    for row in 0..y.len() {
        let pairs = y.row(row).as_chunks::<2>().0;
        gated.row_mut(row).iter_mut().zip(pairs).for_each(|(out, [gate, _])| *out = *gate);
    }
    activation(function, &mut gated);
    for row in 0..y.len() {
        let pairs = y.row(row).as_chunks::<2>().0;
        gated.row_mut(row).iter_mut().zip(pairs).for_each(|(out, [_, up])| {
            *out *= match function {
                Activation::ClampedSwiglu => up.clamp(-SWIGLU_LIMIT, SWIGLU_LIMIT) + 1.0,
                _ => *up,
            };
        });
    }
    gated
}

/// Multiplies each `together` numbers by the sigmoid of their gate.
pub fn gate_heads(x: &mut Rows, gates: &Rows, together: usize) {
    for row in 0..x.len() {
        for (values, gate) in x.row_mut(row).chunks_exact_mut(together).zip(gates.row(row)) {
            let factor = 1.0 / (1.0 + (-gate).exp());
            values.iter_mut().for_each(|value| *value *= factor);
        }
    }
}

/// Multiplies each number by the SiLU of its gate, after parts of the row were normalised that are as wide as the gain; or before `groups`
/// equal parts are.
pub fn gate_normed(x: &mut Rows, mut gates: Rows, gain: &[f32], groups: Option<usize>, eps: f32) {
    let width = x.width;
    activation(Activation::Silu, &mut gates);
    match groups {
        None => {
            norm_parts(x, 0..width, gain, eps);
            x.multiply_each(&gates, 0);
        }
        Some(groups) => {
            x.multiply_each(&gates, 0);
            norm_parts(x, 0..width, &vec![1.0; width / groups], eps);
            x.scale_each(gain);
        }
    }
}
