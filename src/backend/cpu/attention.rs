//! The KV cache of a layer, and attention over it.

use super::floats::Floats;
use super::parts::for_each_part;
use super::rows::{Panels, Rows, stride};
use super::simd::{add_scaled, add_weighted, arch, exp, unroll};
use crate::options::KvDtype;
use crate::weights::Float;
use pulp::{Simd, WithSimd};
use std::collections::TryReserveError;
use std::ops::Range;

/// Rows that share a pass over keys and values.
pub const TOGETHER: usize = 8;
const AT_A_TIME: usize = 64;

/// Dimensions and rules of a layer.
#[derive(Debug, Clone, Copy, Default)]
pub struct LayerHeads {
    /// Query heads.
    pub heads: usize,
    /// Key and value heads; consecutive query heads share one.
    pub kv_heads: usize,
    /// Elements per head.
    pub head_dim: usize,
    /// Leading elements of a head that rotate, as neighbouring pairs.
    pub rotary: usize,
    /// Positions that a row attends to, itself included.
    pub window: usize,
    /// `true`: it has keys and values of its own.
    pub has_own_kv: bool,
    /// Positions between a row and the one by which it rotates.
    pub ahead: usize,
    /// `true`: a row also attends to all rows of its pass.
    pub sees_pass: bool,
    /// Factor for the scores.
    pub scale: f32,
    /// Bound of the scores; `None`: no bound.
    pub cap: Option<f32>,
    /// Numbers of the rotary table before those for q; 0: q and k have the same table.
    pub q_table: usize,
}

impl LayerHeads {
    /// Rotates and scales the heads of q, and of k if they follow. The first row is at a position.
    fn rotate(&self, rows: &mut Rows, position: usize, table: &[f32], gains: &[f32]) {
        let LayerHeads { heads, kv_heads, head_dim, rotary, q_table, .. } = *self;
        for row in 0..rows.len() {
            let values = rows.row_mut(row);
            let angles = |first| {
                table.get(first + (position + row + self.ahead) * rotary..).unwrap_or_default().as_chunks::<2>().0
            };
            let (k_angles, q_angles) = (angles(0), angles(q_table));
            for (index, head) in values.chunks_exact_mut(head_dim).take(heads + kv_heads).enumerate() {
                let angles = if index < heads { q_angles } else { k_angles };
                let pairs = head[..rotary].as_chunks_mut::<2>().0.iter_mut().zip(angles);
                pairs.for_each(|(pair, [cos, sin])| {
                    *pair = [pair[0] * cos - pair[1] * sin, pair[0] * sin + pair[1] * cos];
                });
            }
            values.iter_mut().zip(gains).for_each(|(value, gain)| *value *= gain);
        }
    }
}

/// Keys and values of a layer [positions, head_dim] for each KV head.
#[derive(Clone)]
pub struct Cache {
    head_dim: usize,
    k: Vec<Floats>,
    v: Vec<Floats>,
    positions: usize,
    /// Positions that fit the allocated memory.
    room: usize,
}

impl Cache {
    pub fn new(kv_heads: usize, head_dim: usize, dtype: KvDtype) -> Self {
        let float = match dtype {
            KvDtype::F32 => Float::F32,
            KvDtype::F16 => Float::F16,
        };
        let empty = vec![Floats::new(float); kv_heads];
        Self { head_dim, k: empty.clone(), v: empty, positions: 0, room: 0 }
    }

    /// Keeps the first `positions` positions.
    pub fn truncate(&mut self, positions: usize) {
        let head_dim = self.head_dim;
        self.k.iter_mut().chain(&mut self.v).for_each(|head| head.truncate(positions, head_dim));
        self.positions = self.positions.min(positions);
    }

    /// Copies the first `positions` positions.
    pub fn copy(&self, positions: usize) -> Self {
        let mut copy = Self { room: positions, ..self.clone() };
        copy.truncate(positions);
        copy
    }

    /// Returns the keys of each KV head, then the values of each, as stored.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.k.iter().chain(&self.v).flat_map(|head| head.as_bytes()).copied().collect()
    }

    /// Restores [`Cache::to_bytes`] of `positions` positions. Returns false if the size does not match.
    pub fn set_bytes(&mut self, positions: usize, bytes: &[u8]) -> bool {
        let heads = self.k.len() + self.v.len();
        let each = bytes.len() / heads.max(1);
        let mut parts = bytes.chunks_exact(each.max(1));
        let head_dim = self.head_dim;
        (self.positions, self.room) = (positions, positions);
        bytes.len() == each * heads
            && self
                .k
                .iter_mut()
                .chain(&mut self.v)
                .all(|head| parts.next().is_some_and(|part| head.set_bytes(part) && head.is_of(positions, head_dim)))
    }

    /// Makes room for `positions` positions. Room at least doubles, so that little is moved.
    pub fn reserve(&mut self, positions: usize) -> Result<(), TryReserveError> {
        if positions > self.room {
            let room = positions.max(2 * self.room);
            let numbers = (room - self.positions) * stride(self.head_dim);
            self.k.iter_mut().chain(&mut self.v).try_for_each(|head| head.reserve(numbers))?;
            self.room = room;
        }
        Ok(())
    }

    /// Takes projections of the next positions [rows, heads + 2 kv_heads, head_dim] of a layer. Rotates q and k by `table`
    /// [positions, rotary / 2, 2] of (cos, sin), scales both by `gains` [heads + kv_heads, head_dim] unless empty, appends k and v,
    /// and returns q [rows, heads, head_dim].
    pub fn append(&mut self, layer: &LayerHeads, mut qkv: Rows, table: &[f32], gains: &[f32]) -> Rows {
        let LayerHeads { heads, kv_heads, head_dim, .. } = *layer;
        layer.rotate(&mut qkv, self.positions, table, gains);
        let mut q = Rows::new(qkv.len(), heads * head_dim);
        for row in 0..qkv.len() {
            let (queries, rest) = qkv.row(row).split_at(heads * head_dim);
            let (keys, values) = rest.split_at(kv_heads * head_dim);
            q.row_mut(row).copy_from_slice(queries);
            self.k.iter_mut().zip(keys.chunks_exact(head_dim)).for_each(|(k, head)| k.push(head));
            self.v.iter_mut().zip(values.chunks_exact(head_dim)).for_each(|(v, head)| v.push(head));
            self.positions += 1;
        }
        q
    }

    /// Does the same with q alone [rows, heads, head_dim], for the latest positions, whose keys and values are there.
    pub fn rotate_queries(&self, layer: &LayerHeads, mut q: Rows, table: &[f32], gains: &[f32]) -> Rows {
        let position = self.positions - q.len();
        layer.rotate(&mut q, position, table, gains);
        q
    }

    /// Computes softmax attention of q [rows, heads, head_dim] at the last positions: [rows, heads, head_dim]. `sinks` [heads]: one more
    /// score of each head.
    pub fn attend(&self, layer: &LayerHeads, q: &Rows, sinks: &[f32]) -> Rows {
        let LayerHeads { heads, kv_heads, head_dim, .. } = *layer;
        let group = heads / kv_heads * head_dim;
        let before = self.positions - q.len();
        let mut attended = vec![0f32; q.len() * q.width];
        // For each chunk of rows: [kv_heads, rows, heads / kv_heads, head_dim].
        for (chunk, out) in attended.chunks_mut(TOGETHER * q.width).enumerate() {
            let first = TOGETHER * chunk;
            let rows = out.len() / q.width;
            for_each_part(out, rows * group, |kv_head, out| {
                let mut queries = Rows::new(rows * group / head_dim, head_dim);
                for row in 0..rows {
                    let heads = q.row(first + row)[kv_head * group..][..group].chunks_exact(head_dim);
                    for (i, head) in heads.enumerate() {
                        queries.row_mut(row * group / head_dim + i).copy_from_slice(head);
                    }
                }
                let mut together = Together {
                    heads: layer,
                    v: &self.v[kv_head],
                    sinks: &sinks[kv_head * group / head_dim..][..group / head_dim],
                    position: before + first,
                    rows,
                    after: if layer.sees_pass { self.positions } else { 0 },
                    products: Vec::new(),
                    out,
                };
                let seen = together.seen(0).start..together.seen(rows - 1).end;
                together.products = vec![[0f32; 4]; seen.len().div_ceil(4) * queries.len()];
                self.k[kv_head].multiply(seen.start, &Panels::new(&queries), &mut together.products, true);
                arch().dispatch(together);
            });
        }
        let mut y = Rows::new(q.len(), q.width);
        for row in 0..q.len() {
            let rows = TOGETHER.min(q.len() - row / TOGETHER * TOGETHER);
            let chunk = &attended[row / TOGETHER * TOGETHER * q.width..][..rows * q.width];
            for (kv_head, y) in y.row_mut(row).chunks_exact_mut(group).enumerate() {
                y.copy_from_slice(&chunk[(kv_head * rows + row % TOGETHER) * group..][..group]);
            }
        }
        y
    }
}

/// Rows from a position on that share a pass over one KV head.
struct Together<'a> {
    heads: &'a LayerHeads,
    v: &'a Floats,
    /// One for each query head of the KV head.
    sinks: &'a [f32],
    position: usize,
    rows: usize,
    /// Positions that each row sees at least.
    after: usize,
    /// Products of keys, from the first visible one on, and queries [positions / 4, rows, heads, 4].
    products: Vec<[f32; 4]>,
    /// [rows, heads, head_dim].
    out: &'a mut [f32],
}

impl Together<'_> {
    fn seen(&self, row: usize) -> Range<usize> {
        let end = self.position + row + 1;
        end.saturating_sub(self.heads.window)..end.max(self.after)
    }
}

impl WithSimd for Together<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let LayerHeads { head_dim, scale, cap, .. } = *self.heads;
        let (width, queries) = (stride(head_dim), self.out.len() / head_dim);
        // Positions are padded to a multiple of four.
        let (start, count) = (self.seen(0).start, self.products.len() / queries * 4);
        // Queries are processed in fours.
        let fours = queries.div_ceil(4);
        let (mut weights, mut sums) = (vec![0f32; 4 * fours * count], vec![0f32; 4 * fours * width]);
        let mut totals = vec![0f32; queries];
        for query in 0..queries {
            let seen = self.seen(query / (queries / self.rows));
            let weights = &mut weights[query * count..][..count];
            let products = self.products.iter().skip(query).step_by(queries);
            for (weights, products) in weights.as_chunks_mut::<4>().0.iter_mut().zip(products) {
                unroll!(i in 4 => { weights[i] = products[i] * scale; });
            }
            if let Some(cap) = cap {
                weights.iter_mut().for_each(|score| *score = bounded(*score, cap));
            }
            weights[..seen.start - start].fill(0.0);
            weights[seen.end - start..].fill(0.0);
            let (top, sum) = softmax(simd, &mut weights[seen.start - start..seen.end - start]);
            totals[query] = sum + libm::expf(self.sinks[query % self.sinks.len()] - top);
        }
        let common = self.seen(self.rows - 1).start - start..self.seen(0).end - start;
        let mut values = vec![0f32; AT_A_TIME * width];
        let mut at = 0;
        let end = self.seen(self.rows - 1).end - start;
        while at < end {
            let block = if common.contains(&at) { (common.end - at).min(AT_A_TIME) } else { 1 };
            let values = &mut values[..block * width];
            for (i, values) in values.chunks_exact_mut(width).enumerate() {
                self.v.widen(start + at + i, values, true);
            }
            if common.contains(&at) {
                for (weights, sums) in weights.chunks_exact(4 * count).zip(sums.chunks_exact_mut(4 * width)) {
                    let (a, b) = (&weights[at..], &weights[count + at..]);
                    let (c, d) = (&weights[2 * count + at..], &weights[3 * count + at..]);
                    add_weighted(simd, sums, [&a[..block], &b[..block], &c[..block], &d[..block]], values);
                }
            } else {
                for (weights, sums) in weights.chunks_exact(count).zip(sums.chunks_exact_mut(width)) {
                    // Positions that a row does not attend to have weight zero; values there may not be finite.
                    if weights[at] != 0.0 {
                        add_scaled(simd, sums, weights[at], values);
                    }
                }
            }
            at += block;
        }
        for ((out, sums), total) in self.out.chunks_exact_mut(head_dim).zip(sums.chunks_exact(width)).zip(totals) {
            for (out, sum) in out.iter_mut().zip(sums) {
                *out = sum / total;
            }
        }
    }
}

/// Returns `cap tanh(x / cap)`. A number that is not finite stays as it is.
pub fn bounded(x: f32, cap: f32) -> f32 {
    if x.is_finite() { cap * libm::tanhf(x / cap) } else { x }
}

/// Replaces scores by exp(score - top). Returns the top and their sum, which is NaN if a score is not finite.
#[inline(always)]
fn softmax<S: Simd>(simd: S, scores: &mut [f32]) -> (f32, f32) {
    let (vectors, rest) = S::as_mut_simd_f32s(scores);
    let mut tops = simd.splat_f32s(f32::NEG_INFINITY);
    // Zero, or NaN if a score is not finite: an overflow in the cache must not change a text silently.
    let (zero, mut zeros) = (simd.splat_f32s(0.0), simd.splat_f32s(0.0));
    for vector in &*vectors {
        zeros = simd.add_f32s(zeros, simd.mul_f32s(*vector, zero));
        // A comparison, because WebAssembly's maximum takes many instructions to handle NaN.
        tops = simd.select_f32s(simd.greater_than_f32s(*vector, tops), *vector, tops);
    }
    let mut top = simd.reduce_max_f32s(tops);
    for score in &*rest {
        top = if *score > top { *score } else { top };
    }
    let zero = rest.iter().fold(simd.reduce_sum_f32s(zeros), |zero, score| zero + score * 0.0);
    let (tops, mut sums) = (simd.splat_f32s(top), simd.splat_f32s(0.0));
    for vector in vectors {
        *vector = exp(simd, simd.sub_f32s(*vector, tops));
        sums = simd.add_f32s(sums, *vector);
    }
    let last = exp(simd, simd.sub_f32s(simd.partial_load_f32s(rest), tops));
    simd.partial_store_f32s(rest, last);
    (top, rest.iter().fold(simd.reduce_sum_f32s(sums), |sum, score| sum + score) + zero)
}

#[cfg(test)]
mod tests;
