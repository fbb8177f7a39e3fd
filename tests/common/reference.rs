//! Reference implementation: every kernel as plain CPU code, and a model's forward pass made of them.
//!
//! Each file of `shaders/` has a function of the same name; shaders that compute one thing (rows and tile, blocks and prefill) share
//! one. Numbers are stored as f32 and summed in f64, so a kernel differs from its twin by the kernel's rounding alone. Nothing is fused,
//! tiled or reordered, and tensors keep the checkpoint's layout. So [`Model`] checks all that the GPU does differently. It is readable
//! and slow: for tests and small models.

mod delta;
mod mlp;
mod model;

pub use self::delta::{DeltaVectors, delta_net, gate_normed, gate_then_norm};
pub use self::mlp::{combine, group, route};
pub use self::model::Model;

use foretoken::KvDtype;
use foretoken::internals::model::{Activation, QkNorm};
use foretoken::internals::sample::{self, Processors, accepts, log_sum_exp, most_likely, recovered};
use half::f16;

/// Dimensions and rules of an attention layer.
#[derive(Debug, Clone, Copy)]
pub struct Heads {
    /// Query heads.
    pub heads: usize,
    /// Key and value heads; consecutive query heads share one.
    pub kv_heads: usize,
    /// Elements per head.
    pub head_dim: usize,
    /// Leading elements of a head that rotate; even.
    pub rotary: usize,
    /// Elements that rotate together.
    pub pairs: Pairs,
    /// Positions that a row attends to, itself included.
    pub window: usize,
    /// Factor for the scores.
    pub scale: f32,
    /// Bound of the scores: `cap tanh(score / cap)`; `None`: no bound.
    pub cap: Option<f32>,
    /// Numbers of the rotary table before those for q; 0: q and k have the same table.
    pub q_table: usize,
    /// `true`: a row also attends to all rows of its pass.
    pub sees_pass: bool,
}

impl Heads {
    fn q_width(&self) -> usize {
        self.heads * self.head_dim
    }

    fn kv_width(&self) -> usize {
        self.kv_heads * self.head_dim
    }
}

/// Elements of a head that rotate together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pairs {
    /// i and i + rotary / 2: the order in checkpoints.
    Halves,
    /// 2i and 2i + 1: the order in kernels, to which the loader permutes rows of the projections.
    Neighbours,
}

/// KV cache of a layer, by position.
#[derive(Debug, Clone)]
pub struct Kv {
    /// Type to which appended elements are rounded.
    pub dtype: KvDtype,
    /// Keys [positions, kv_heads, head_dim].
    pub k: Vec<f32>,
    /// Values [positions, kv_heads, head_dim].
    pub v: Vec<f32>,
}

impl Kv {
    /// Creates an empty cache.
    pub fn new(dtype: KvDtype) -> Self {
        Self { dtype, k: Vec::new(), v: Vec::new() }
    }

    /// Appends `k` and `v`, each [positions, kv_heads, head_dim], rounded to the cache's dtype.
    pub fn append(&mut self, k: &[f32], v: &[f32]) {
        let dtype = self.dtype;
        let round = |x: &f32| if dtype == KvDtype::F16 { f16::from_f32(*x).to_f32() } else { *x };
        self.k.extend(k.iter().map(round));
        self.v.extend(v.iter().map(round));
    }
}

/// Returns rows of `table` [vocab, width] for `ids` [rows], times `scale`: [rows, width].
pub fn embed(table: &[f32], width: usize, ids: &[u32], scale: f32) -> Vec<f32> {
    ids.iter().flat_map(|id| &table[*id as usize * width..][..width]).map(|x| x * scale).collect()
}

/// Returns `x / rms(x) * gain` for each row of x [rows, width], gain [width]: [rows, width].
pub fn norm_rms(x: &[f32], gain: &[f32], eps: f64) -> Vec<f32> {
    let width = gain.len();
    let mut y = Vec::with_capacity(x.len());
    for row in x.chunks_exact(width) {
        let scale = 1.0 / (dot(row, row) / width as f64 + eps).sqrt();
        y.extend(row.iter().zip(gain).map(|(x, gain)| (f64::from(*x) * scale * f64::from(*gain)) as f32));
    }
    y
}

/// Returns `(x - mean) / deviation * gain + bias` for each row of x [rows, width], gain and bias [width]: [rows, width].
pub fn norm_layer(x: &[f32], gain: &[f32], bias: &[f32], eps: f64) -> Vec<f32> {
    let width = gain.len();
    let mut y = Vec::with_capacity(x.len());
    for row in x.chunks_exact(width) {
        let mean = row.iter().map(|x| f64::from(*x)).sum::<f64>() / width as f64;
        let variance = row.iter().map(|x| (f64::from(*x) - mean).powi(2)).sum::<f64>() / width as f64;
        let normed = row.iter().map(|x| (f64::from(*x) - mean) / (variance + eps).sqrt());
        let scaled = normed.zip(gain).zip(bias).map(|((x, gain), bias)| x * f64::from(*gain) + f64::from(*bias));
        y.extend(scaled.map(|x| x as f32));
    }
    y
}

/// Multiplies each `together` elements of x by the sigmoid of their gate.
pub fn gate_heads(x: &mut [f32], gates: &[f32], together: usize) {
    for (head, gate) in x.chunks_exact_mut(together).zip(gates) {
        let factor = 1.0 / (1.0 + (-f64::from(*gate)).exp());
        head.iter_mut().for_each(|value| *value = (f64::from(*value) * factor) as f32);
    }
}

/// Returns c times the convolution of b x over positions, for b, c and x of all rows of a text [rows, 3, width], and weights [width, taps]
/// whose last is for the row's own position: [rows, width].
pub fn short_conv(projected: &[f32], weights: &[f32], width: usize) -> Vec<f32> {
    let taps = weights.len() / width;
    let rows: Vec<_> = projected.chunks_exact(3 * width).collect();
    let mut y = Vec::with_capacity(rows.len() * width);
    for (here, row) in rows.iter().enumerate() {
        for i in 0..width {
            let input = |row: &[f32]| f64::from(row[i] * row[2 * width + i]);
            let first = (here + 1).saturating_sub(taps);
            let weights = &weights[i * taps..][..taps][first + taps - 1 - here..];
            let sum: f64 = rows[first..=here].iter().zip(weights).map(|(row, w)| input(row) * f64::from(*w)).sum();
            y.push((f64::from(row[width + i]) * sum) as f32);
        }
    }
    y
}

/// Returns `x W^T` for x [rows, cols], w [outs, cols]: [rows, outs]. Twin of matmul_rows and matmul_tile, which are for different
/// numbers of rows, with the epilogue `store`.
pub fn matmul(x: &[f32], w: &[f32], cols: usize) -> Vec<f32> {
    x.chunks_exact(cols).flat_map(|x| w.chunks_exact(cols).map(move |w| dot(x, w) as f32)).collect()
}

/// Rounds x [rows, cols] to 8-bit codes [rows, cols], with a scale per 32 elements [rows, cols / 32]: the largest magnitude / 127. A
/// code is the integer nearest to element / scale; ties go to the even one.
///
/// With [`Arithmetic::Int8`](foretoken::Arithmetic::Int8) a matmul uses these codes of x, [`dequantise`]d. It multiplies codes by
/// codes. Per 32 elements, or 16 if weights have a scale per 16, it adds
/// scale * scale * (exact sum of products) + scale * offset * (exact sum of the codes of x).
pub fn quantise(x: &[f32]) -> (Vec<i8>, Vec<f32>) {
    let (mut codes, mut scales) = (Vec::with_capacity(x.len()), Vec::new());
    for block in x.chunks(32) {
        // By bits, NaN and infinity are the largest, and so become the scale.
        let largest = block.iter().map(|x| x.abs().to_bits()).max().map_or(0.0, f32::from_bits);
        let factor = if largest < 1e-30 { 0.0 } else { 127.0 / largest };
        codes.extend(block.iter().map(|x| (x * factor).round_ties_even() as i8));
        scales.push(largest / 127.0);
    }
    (codes, scales)
}

/// Converts the codes and scales of [`quantise`] back to numbers [rows, cols].
pub fn dequantise(codes: &[i8], scales: &[f32]) -> Vec<f32> {
    codes
        .chunks(32)
        .zip(scales)
        .flat_map(|(block, scale)| block.iter().map(move |code| f32::from(*code) * scale))
        .collect()
}

/// Computes the epilogue of projections to the residual stream: `y += (result + bias) scale` for y and result [rows, width], bias
/// [width].
pub fn residual(y: &mut [f32], result: &[f32], bias: &[f32], scale: f32) {
    for ((y, result), bias) in y.iter_mut().zip(result).zip(bias.iter().cycle()) {
        *y = (f64::from(*y) + (f64::from(*result) + f64::from(*bias)) * f64::from(scale)) as f32;
    }
}

/// Computes the epilogue of the LM head: `(result + bias) scale`, bounded by `cap`, for result [rows, vocab], bias [vocab].
pub fn head(result: &[f32], bias: &[f32], scale: f32, cap: Option<f32>) -> Vec<f32> {
    add(result, bias).map(|x| bounded(f64::from(x) * f64::from(scale), cap) as f32).collect()
}

/// Returns `cap tanh(x / cap)`, or `x` without a bound.
fn bounded(x: f64, cap: Option<f32>) -> f64 {
    cap.map(f64::from).map_or(x, |cap| cap * (x / cap).tanh())
}

/// Computes the epilogue of the gated MLP: `activation(gate + gate_bias) * (up + up_bias)` for gate and up [rows, width], biases
/// [width]: [rows, width].
pub fn gate(gate: &[f32], gate_bias: &[f32], up: &[f32], up_bias: &[f32], activation: Activation) -> Vec<f32> {
    let gates = add(gate, gate_bias).map(f64::from);
    let ups = add(up, up_bias).map(f64::from);
    let factor = |up: f64| match activation {
        Activation::ClampedSwiglu => 1.0 + up.clamp(-7.0, 7.0),
        _ => up,
    };
    gates.zip(ups).map(|(gate, up)| (apply(activation, gate) * factor(up)) as f32).collect()
}

/// Computes the epilogue of the plain MLP: `activation(result + bias)` for result [rows, width], bias [width]: [rows, width].
pub fn activate(result: &[f32], bias: &[f32], activation: Activation) -> Vec<f32> {
    add(result, bias).map(|v| apply(activation, f64::from(v)) as f32).collect()
}

fn apply(activation: Activation, v: f64) -> f64 {
    match activation {
        Activation::Silu => v / (1.0 + (-v).exp()),
        Activation::Gelu => v * normal_distribution(v),
        Activation::GeluTanh => {
            let u = (2.0 / std::f64::consts::PI).sqrt() * (v + 0.044_715 * v.powi(3));
            v * 0.5 * (1.0 + u.tanh())
        }
        Activation::Relu => v.max(0.0),
        Activation::ReluSquared => v.max(0.0).powi(2),
        Activation::ClampedSwiglu => v.min(7.0) / (1.0 + (-1.702 * v.min(7.0)).exp()),
    }
}

/// Returns the probability that a standard normal variable is less than `v`: by its Taylor series, or far from zero by Lentz's
/// continued fraction.
fn normal_distribution(v: f64) -> f64 {
    let density = (-v * v / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt();
    if v.abs() < 3.0 {
        let mut term = v;
        let mut sum = v;
        for n in 1..100 {
            term *= v * v / f64::from(2 * n + 1);
            sum += term;
        }
        return 0.5 + density * sum;
    }
    let tail = density / (1..100).rev().fold(v.abs(), |below, n| v.abs() + f64::from(n) / below);
    if v < 0.0 { tail } else { 1.0 - tail }
}

/// Computes the epilogue of the fused projection qkv [rows, heads + 2 kv_heads, head_dim]. Adds the bias, rotates q and k by table
/// [positions, rotary / 2, 2] of (cos, sin), appends k and v to the cache, and returns q [rows, heads, head_dim]. The rows' positions
/// follow the cached ones.
pub fn rotary(qkv: &[f32], bias: &[f32], table: &[f32], heads: &Heads, kv: &mut Kv) -> Vec<f32> {
    let mut q = Vec::new();
    let biased: Vec<f32> = add(qkv, bias).collect();
    for row in biased.chunks_exact(heads.q_width() + 2 * heads.kv_width()) {
        let position = kv.k.len() / heads.kv_width();
        let (row_q, row_kv) = row.split_at(heads.q_width());
        let (k, v) = row_kv.split_at(heads.kv_width());
        q.extend(rotate(row_q, &table[heads.q_table..], position, heads));
        kv.append(&rotate(k, table, position, heads), v);
    }
    q
}

/// Does the same as [`rotary`], but also normalises q and k, with gains of q, then of k: each head or the whole width, before or after
/// rotation. In some models v is normalised too.
pub fn qk_norm(
    qkv: &[f32],
    bias: &[f32],
    (norm, gains, eps): (QkNorm, &[f32], f64),
    table: &[f32],
    heads: &Heads,
    kv: &mut Kv,
) -> Vec<f32> {
    let q_width = if norm == QkNorm::Width { heads.q_width() } else { heads.head_dim };
    let (q_gain, k_gain) = gains.split_at(q_width.min(gains.len()));
    let mut normed: Vec<f32> = add(qkv, bias).collect();
    if norm == QkNorm::RotatedHeads {
        let before = kv.k.len();
        let mut rotated = Kv { dtype: KvDtype::F32, ..kv.clone() };
        let q = rotary(&normed, &vec![0.0; bias.len()], table, heads, &mut rotated);
        kv.append(&norm_rms(&rotated.k[before..], k_gain, eps), &rotated.v[before..]);
        return norm_rms(&q, q_gain, eps);
    }
    for row in normed.chunks_exact_mut(bias.len()) {
        let (q, row_kv) = row.split_at_mut(heads.q_width());
        let (k, v) = row_kv.split_at_mut(heads.kv_width());
        q.copy_from_slice(&norm_rms(q, q_gain, eps));
        k.copy_from_slice(&norm_rms(k, k_gain, eps));
        if norm == QkNorm::HeadsAndValues {
            v.copy_from_slice(&norm_rms(v, &vec![1.0; heads.head_dim], eps));
        }
    }
    rotary(&normed, &vec![0.0; bias.len()], table, heads, kv)
}

/// Computes softmax attention of q [rows, heads, head_dim], whose rows are the last cached positions: [rows, heads, head_dim]. `sinks`
/// [heads]: one more score of each head. Twin of attention with attention_merge.
pub fn attention(q: &[f32], kv: &Kv, heads: &Heads, sinks: &[f32]) -> Vec<f32> {
    let (head_dim, q_width, kv_width) = (heads.head_dim, heads.q_width(), heads.kv_width());
    let before = kv.k.len() / kv_width - q.len() / q_width;
    let mut out = Vec::with_capacity(q.len());
    for (row, q) in q.chunks_exact(q_width).enumerate() {
        let end = before + row + 1;
        let last = if heads.sees_pass { kv.k.len() / kv_width } else { end };
        let seen = end.saturating_sub(heads.window)..last;
        for (head, q) in q.chunks_exact(head_dim).enumerate() {
            let first = head / (heads.heads / heads.kv_heads) * head_dim;
            let at = |position: usize| position * kv_width + first..position * kv_width + first + head_dim;
            let score = |position| bounded(dot(q, &kv.k[at(position)]) * f64::from(heads.scale), heads.cap);
            let scores: Vec<f64> = seen.clone().map(score).collect();
            let top = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let mut sum = (f64::from(sinks[head]) - top).exp();
            let mut values = vec![0.0; head_dim];
            for (position, score) in seen.clone().zip(scores) {
                let p = (score - top).exp();
                sum += p;
                values.iter_mut().zip(&kv.v[at(position)]).for_each(|(value, v)| *value += p * f64::from(*v));
            }
            out.extend(values.into_iter().map(|value| (value / sum) as f32));
        }
    }
    out
}

/// Returns the sigmoid of the product of weights [hidden + rank] and a normalised hidden state with a Markov row, plus a bias.
pub fn confide(hidden: &[f32], markov: &[f32], weights: &[f32], bias: f32) -> f64 {
    let (of_hidden, of_markov) = weights.split_at(hidden.len());
    1.0 / (1.0 + (-dot(hidden, of_hidden) - dot(markov, of_markov) - f64::from(bias)).exp())
}

/// Copies row `from(i)` of x [rows, width] to row `to(i)` of y, for each of `rows` rows.
pub fn copy(
    x: &[f32],
    y: &mut [f32],
    rows: usize,
    width: usize,
    from: impl Fn(usize) -> usize,
    to: impl Fn(usize) -> usize,
) {
    (0..rows).for_each(|row| y[to(row) * width..][..width].copy_from_slice(&x[from(row) * width..][..width]));
}

/// Removes tokens from a row's logits [vocab] whose bit is not set in `allowed` [vocab / 32 in whole words].
pub fn mask(logits: &mut [f32], allowed: &[u32]) {
    sample::mask(logits, allowed);
}

/// Applies biases and penalties to a row's logits [vocab]. The row follows the tokens of `history`.
pub fn adjust(logits: &mut [f32], processors: &Processors, history: &[u32]) {
    processors.adjust(logits, history);
}

/// Applies temperature, top-k, top-p and min-p to a row's logits [vocab]. Removed logits become negative infinity.
pub fn filter(logits: &mut [f32], processors: &Processors) {
    processors.filter(logits);
}

/// Returns for each row of logits [rows, stride] the id with the largest logit + `noise(row, id)`: [rows]. Only the first `vocab` logits
/// count; the lowest id wins a tie. A row with a logit that is not finite gives `u32::MAX`.
pub fn sample(logits: &[f32], stride: usize, vocab: usize, noise: impl Fn(usize, usize) -> f32) -> Vec<u32> {
    let row = |(at, row): (usize, &[f32])| {
        let scores: Vec<f32> = (0..vocab).map(|id| row[id] + noise(at, id)).collect();
        let best = (0..vocab).reduce(|best, id| if scores[id] > scores[best] { id } else { best });
        best.filter(|_| row[..vocab].iter().all(|logit| logit.is_finite())).map_or(u32::MAX, |best| best as u32)
    };
    logits.chunks_exact(stride).enumerate().map(row).collect()
}

/// Chooses a row's token by rejection sampling. Accepts `draft`, a token and the distribution that it was drawn from, by a uniform
/// number. Otherwise draws a token by exponential noise [vocab]. Distributions are over [vocab].
pub fn reject(p: &[f32], draft: Option<(u32, &[f32])>, uniform: f32, noise: &[f32]) -> u32 {
    let from = match draft {
        Some((x, q)) if accepts(p[x as usize], q[x as usize], uniform) => return x,
        Some((_, q)) => &recovered(p, q),
        None => p,
    };
    let scores: Vec<f32> = from.iter().zip(noise).map(|(p, wait)| p / wait).collect();
    (0..scores.len()).reduce(|best, id| if scores[id] > scores[best] { id } else { best }).unwrap_or(0) as u32
}

/// Returns log-probabilities from a row of logits [vocab]: of the chosen token, of the draft token there (0 without one), and of the
/// `top` most likely tokens.
pub fn logprobs(logits: &[f32], chosen: u32, draft: Option<u32>, top: usize) -> (f32, f32, Vec<(u32, f32)>) {
    let all = log_sum_exp(logits);
    let of = |id: u32| logits[id as usize] - all;
    let top = most_likely(logits, top).into_iter().map(|id| (id, of(id))).collect();
    (of(chosen), draft.map_or(0.0, of), top)
}

/// Returns the text after a round: `text`, which ends with the pending token, the draft tokens [k] that agree with the target's ids
/// [k + 1], and the target's own token.
pub fn follow(text: &[u32], drafts: &[u32], ids: &[u32]) -> Vec<u32> {
    let accepted = drafts.iter().zip(ids).take_while(|(draft, id)| draft == id).count();
    [text, &ids[..=accepted]].concat()
}

/// Rotates heads [n, head_dim] at a position. Elements from `rotary` on stay unchanged.
fn rotate(values: &[f32], table: &[f32], position: usize, heads: &Heads) -> Vec<f32> {
    let half = heads.rotary / 2;
    let mut turned = values.to_vec();
    for head in turned.chunks_exact_mut(heads.head_dim) {
        for i in 0..half {
            let (a, b) = match heads.pairs {
                Pairs::Halves => (i, i + half),
                Pairs::Neighbours => (2 * i, 2 * i + 1),
            };
            let at = (position * half + i) * 2;
            let (cos, sin) = (f64::from(table[at]), f64::from(table[at + 1]));
            let (x, y) = (f64::from(head[a]), f64::from(head[b]));
            head[a] = (x * cos - y * sin) as f32;
            head[b] = (x * sin + y * cos) as f32;
        }
    }
    turned
}

fn dot(a: &[f32], b: &[f32]) -> f64 {
    a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum()
}

/// Adds a bias [width] to each row.
fn add<'a>(rows: &'a [f32], bias: &'a [f32]) -> impl Iterator<Item = f32> + 'a {
    rows.iter().zip(bias.iter().cycle()).map(|(x, bias)| x + bias)
}
