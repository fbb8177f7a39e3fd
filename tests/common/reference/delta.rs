//! Gated delta nets and Mamba-2.

use super::norm_rms;
use foretoken::internals::model::DeltaSpec;

/// Vectors of a gated delta net or a Mamba-2.
pub struct DeltaVectors {
    /// Convolution [conv_width, taps], whose last tap is for the row's own position.
    pub taps: Vec<f32>,
    /// Bias of the convolution [conv_width].
    pub conv_bias: Vec<f32>,
    /// Speed and bias of the decay, each [value_heads].
    pub decay: [Vec<f32>; 2],
    /// Factor of v in the output [value_heads].
    pub skip: Vec<f32>,
    /// Gain of the norm of each head [value_dim], or of all [value_width]; empty: without norm.
    pub gain: Vec<f32>,
    /// `true`: heads of v that share a head of k are `key_heads` apart.
    pub tiled: bool,
}

/// Returns the output of the recurrence for all rows of a text, before its gates [rows, value_heads, value_dim]. Each row of `projected` is
/// q, k, v, write strengths, decays and gates.
pub fn delta_net(projected: &[f32], vectors: &DeltaVectors, delta: &DeltaSpec) -> Vec<f32> {
    let DeltaSpec { key_heads, value_heads, key_dim, value_dim, taps, replaces } = *delta;
    let rows: Vec<_> = projected.chunks_exact(delta.input_width() + delta.value_width()).collect();
    let conv = |here: usize, i: usize| {
        let terms = (0..taps).filter_map(|tap| Some((tap, rows[(here + tap + 1).checked_sub(taps)?][i])));
        let sum: f64 = terms.map(|(tap, x)| f64::from(x) * f64::from(vectors.taps[i * taps + tap])).sum();
        let sum = sum + f64::from(vectors.conv_bias[i]);
        sum / (1.0 + (-sum).exp())
    };
    let unit = |x: Vec<f64>| {
        let length = if !replaces { 1.0 } else { (x.iter().map(|x| x * x).sum::<f64>() + 1e-6).sqrt() };
        x.into_iter().map(|x| x / length).collect::<Vec<_>>()
    };
    let [rates, bias] = &vectors.decay;
    let mut y = vec![0.0; rows.len() * delta.value_width()];
    for head in 0..value_heads {
        let key_head = if vectors.tiled { head % key_heads } else { head / (value_heads / key_heads) };
        let mut state = vec![vec![0.0; value_dim]; key_dim];
        for (here, row) in rows.iter().enumerate() {
            let of = |first: usize, len: usize| (first..first + len).map(|i| conv(here, i)).collect::<Vec<_>>();
            let q = unit(of(key_head * key_dim, key_dim));
            let k = unit(of((key_heads + key_head) * key_dim, key_dim));
            let v = of(2 * key_heads * key_dim + head * value_dim, value_dim);
            let strengths = &row[delta.conv_width()..];
            let x = f64::from(strengths[value_heads + head]) + f64::from(bias[head]);
            let speed = x.exp().ln_1p();
            let decay = (-f64::from(rates[head]) * speed).exp();
            let strength = if replaces { 1.0 / (1.0 + (-f64::from(strengths[head])).exp()) } else { speed };
            let length = if replaces { (key_dim as f64).sqrt() } else { 1.0 };
            state.iter_mut().flatten().for_each(|value| *value *= decay);
            for (i, v) in v.iter().enumerate() {
                let known: f64 = state.iter().zip(&k).map(|(state, k)| state[i] * k).sum();
                let known = if replaces { known } else { 0.0 };
                state.iter_mut().zip(&k).for_each(|(state, k)| state[i] += k * (v - known) * strength);
                let sum: f64 = state.iter().zip(&q).map(|(state, q)| state[i] * q).sum();
                y[here * delta.value_width() + head * value_dim + i] =
                    (sum / length + f64::from(vectors.skip[head]) * v) as f32;
            }
        }
    }
    y
}

/// Normalises each head of x [heads, value_dim], and multiplies each element by the SiLU of its gate.
pub fn gate_normed(x: &mut [f32], gates: &[f32], gain: &[f32], eps: f64) {
    let normed = norm_rms(x, gain, eps);
    for ((x, normed), gate) in x.iter_mut().zip(normed).zip(gates) {
        let gate = f64::from(*gate);
        *x = (f64::from(normed) * gate / (1.0 + (-gate).exp())) as f32;
    }
}

/// Multiplies each element of x [rows, groups, width] by the SiLU of its gate, and normalises each group, with a gain for each element of a
/// row.
pub fn gate_then_norm(x: &mut [f32], gates: &[f32], gain: &[f32], groups: usize, eps: f64) {
    let gated = x.iter().zip(gates).map(|(x, gate)| {
        let gate = f64::from(*gate);
        (f64::from(*x) * gate / (1.0 + (-gate).exp())) as f32
    });
    let normed = norm_rms(&gated.collect::<Vec<_>>(), &vec![1.0; gain.len() / groups], eps);
    x.iter_mut().zip(normed).zip(gain.iter().cycle()).for_each(|((x, normed), gain)| *x = normed * gain);
}
