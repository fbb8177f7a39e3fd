//! The KV cache of a layer, and attention over it.

use super::parts::for_each_part;
use super::rows::{Floats, Rows};
use super::simd::{add_scaled, arch, dot};
use crate::options::KvDtype;
use crate::weights::Float;
use pulp::{Simd, WithSimd};
use std::ops::Range;

/// Sizes and rules of a layer.
#[derive(Debug, Clone, Copy)]
pub struct Heads {
    /// Query heads.
    pub heads: usize,
    /// Key and value heads; query heads that follow each other share one.
    pub kv_heads: usize,
    /// Elements per head.
    pub head_dim: usize,
    /// Leading elements of a head that rotate, in pairs of neighbours.
    pub rotary: usize,
    /// Positions that a row sees, itself included.
    pub window: usize,
    /// Factor for the scores.
    pub scale: f32,
}

/// Keys and values of a layer, for each KV head [positions, head_dim].
pub struct Cache {
    heads: Heads,
    k: Vec<Floats>,
    v: Vec<Floats>,
    positions: usize,
}

impl Cache {
    pub fn new(heads: Heads, dtype: KvDtype) -> Self {
        let float = match dtype {
            KvDtype::F32 => Float::F32,
            KvDtype::F16 => Float::F16,
        };
        let empty = vec![Floats::new(float); heads.kv_heads];
        Self { heads, k: empty.clone(), v: empty, positions: 0 }
    }

    /// Keeps so many positions.
    pub fn truncate(&mut self, positions: usize) {
        let head_dim = self.heads.head_dim;
        self.k.iter_mut().chain(&mut self.v).for_each(|head| head.truncate(positions, head_dim));
        self.positions = self.positions.min(positions);
    }

    /// Takes what a projection gave for the next positions [rows, heads + 2 kv_heads, head_dim], rotates q and k by `table`
    /// [positions, rotary / 2, 2] of (cos, sin), appends k and v, and returns q [rows, heads, head_dim].
    pub fn append(&mut self, mut qkv: Rows, table: &[f32]) -> Rows {
        let Heads { heads, kv_heads, head_dim, rotary, .. } = self.heads;
        let mut q = Rows::new(qkv.len(), heads * head_dim);
        for row in 0..qkv.len() {
            let values = qkv.row_mut(row);
            let angles = table.get(self.positions * rotary..).unwrap_or_default().as_chunks::<2>().0;
            for head in values.chunks_exact_mut(head_dim).take(heads + kv_heads) {
                let pairs = head[..rotary].as_chunks_mut::<2>().0.iter_mut().zip(angles);
                pairs.for_each(|(pair, [cos, sin])| {
                    *pair = [pair[0] * cos - pair[1] * sin, pair[0] * sin + pair[1] * cos];
                });
            }
            let (queries, rest) = values.split_at(heads * head_dim);
            let (keys, values) = rest.split_at(kv_heads * head_dim);
            q.row_mut(row).copy_from_slice(queries);
            self.k.iter_mut().zip(keys.chunks_exact(head_dim)).for_each(|(k, head)| k.push(head));
            self.v.iter_mut().zip(values.chunks_exact(head_dim)).for_each(|(v, head)| v.push(head));
            self.positions += 1;
        }
        q
    }

    /// Softmax attention of q [rows, heads, head_dim], whose rows are the last positions: [rows, heads, head_dim].
    pub fn attend(&self, q: &Rows) -> Rows {
        let Heads { heads, kv_heads, head_dim, window, .. } = self.heads;
        let group = heads / kv_heads * head_dim;
        let before = self.positions - q.len();
        let mut attended = vec![0f32; q.len() * q.width];
        for_each_part(&mut attended, group, |part, out| {
            let (row, kv_head) = (part / kv_heads, part % kv_heads);
            let end = before + row + 1;
            let seen = end.saturating_sub(window)..end;
            let q = &q.row(row)[kv_head * group..][..group];
            let (k, v) = (&self.k[kv_head], &self.v[kv_head]);
            arch().dispatch(Group { q, k, v, head_dim, scale: self.heads.scale, seen, out });
        });
        Rows::from_flat(&attended, q.width)
    }
}

/// The query heads of a row that share a KV head.
struct Group<'a> {
    /// [heads, head_dim].
    q: &'a [f32],
    k: &'a Floats,
    v: &'a Floats,
    head_dim: usize,
    scale: f32,
    seen: Range<usize>,
    /// [heads, head_dim].
    out: &'a mut [f32],
}

impl WithSimd for Group<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { q, k, v, head_dim, scale, seen, out } = self;
        let heads = Rows::from_flat(q, head_dim);
        let mut buffer = Vec::new();
        let mut scores = Rows::new(heads.len(), seen.len());
        for (i, position) in seen.clone().enumerate() {
            let k = k.padded(position, head_dim, &mut buffer, true);
            for head in 0..heads.len() {
                scores.row_mut(head)[i] = dot(simd, k, heads.padded(head)) * scale;
            }
        }
        let sums: Vec<f32> = (0..heads.len()).map(|head| softmax(scores.row_mut(head))).collect();
        for (i, position) in seen.enumerate() {
            let v = v.padded(position, head_dim, &mut buffer, true);
            for (head, out) in out.chunks_exact_mut(head_dim).enumerate() {
                add_scaled(simd, out, scores.row(head)[i], v);
            }
        }
        for (out, sum) in out.chunks_exact_mut(head_dim).zip(sums) {
            out.iter_mut().for_each(|value| *value /= sum);
        }
    }
}

/// Scores -> exp(score - top); returns their sum.
fn softmax(scores: &mut [f32]) -> f32 {
    let top = scores.iter().fold(f32::NEG_INFINITY, |top, score| top.max(*score));
    let mut sum = 0f64;
    for score in scores {
        *score = (*score - top).exp();
        sum += f64::from(*score);
    }
    sum as f32
}
