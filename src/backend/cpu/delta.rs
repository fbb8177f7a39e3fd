//! Gated delta nets and Mamba-2: states, and the recurrence.

use super::parts::for_each_part;
use super::pointwise::activation;
use super::rows::Rows;
use super::simd::{arch, mul_add};
use crate::model::{Activation, DeltaHistory, DeltaSpec};
use crate::target::StatePass;
use pulp::{Simd, WithSimd};
use std::collections::TryReserveError;

const COLUMNS: usize = DeltaHistory::COLUMNS;

/// States of a gated delta net or a Mamba-2, and the latest inputs.
#[derive(Clone)]
pub struct DeltaStates {
    layout: DeltaHistory,
    /// `true`: heads of v that share a head of k are `key_heads` apart.
    tiled: bool,
    numbers: Vec<f32>,
    /// Length of a text whose copy `numbers` is, without the rest; `None`: they are whole.
    copied: Option<usize>,
}

/// Vectors of a gated delta net or a Mamba-2.
pub struct DeltaWeights<'a> {
    /// Convolution [conv_width, taps].
    pub taps: &'a [f32],
    /// Bias of the convolution [conv_width]; empty: zeros.
    pub conv_bias: &'a [f32],
    /// Speed of the decay [value_heads].
    pub rates: &'a [f32],
    /// Bias of the decay [value_heads].
    pub bias: &'a [f32],
    /// Factor of v in the output [value_heads]; empty: zeros.
    pub skip: &'a [f32],
}

/// Results of a part of a head's state.
#[derive(Clone, Default)]
struct StatePart {
    /// Output of each row [rows, COLUMNS].
    mixed: Vec<f32>,
    /// The part to save; empty: none is.
    saved: Vec<f32>,
}

impl DeltaStates {
    pub fn new(spec: DeltaSpec, tiled: bool) -> Self {
        let layout = DeltaHistory { spec };
        Self { layout, tiled, numbers: vec![0.0; layout.numbers()], copied: None }
    }

    /// Makes room for all slots and inputs, after a copy was restored.
    pub fn reserve(&mut self) -> Result<(), TryReserveError> {
        let Some(len) = self.copied else { return Ok(()) };
        let mut all = Vec::new();
        all.try_reserve(self.layout.numbers())?;
        all.resize(self.layout.numbers(), 0.0);
        let mut rest = &self.numbers[..];
        for part in self.layout.copied(len) {
            let (copied, more) = rest.split_at(part.len());
            all[part].copy_from_slice(copied);
            rest = more;
        }
        (self.numbers, self.copied) = (all, None);
        Ok(())
    }

    /// Returns the numbers that a copy of a text of `len` tokens needs.
    fn needed(&self, len: usize) -> Vec<f32> {
        match self.copied {
            Some(_) => self.numbers.clone(),
            None => self.layout.copied(len).into_iter().flat_map(|part| &self.numbers[part]).copied().collect(),
        }
    }

    /// Copies what a text of `len` tokens needs.
    pub fn copy(&self, len: usize) -> Self {
        Self { numbers: self.needed(len), copied: Some(len), ..*self }
    }

    /// Returns what a text of `len` tokens needs.
    pub fn to_bytes(&self, len: usize) -> Vec<u8> {
        bytemuck::cast_slice(&self.needed(len)).to_vec()
    }

    /// Restores [`DeltaStates::to_bytes`]. Returns false if the size does not match.
    pub fn set_bytes(&mut self, len: usize, bytes: &[u8]) -> bool {
        let need: usize = self.layout.copied(len).iter().map(ExactSizeIterator::len).sum();
        let fits = bytes.len() == 4 * need;
        if fits {
            (self.numbers, self.copied) = (bytemuck::pod_collect_to_vec(bytes), Some(len));
        }
        fits
    }

    /// Continues the recurrence with the rows from `position` on, whose projections begin with their inputs [rows, width]. Returns its
    /// output for each [rows, value_width].
    pub fn advance(
        &mut self,
        projected: &Rows,
        weights: &DeltaWeights<'_>,
        position: usize,
        states: StatePass,
    ) -> Rows {
        let DeltaSpec { value_heads, value_dim, .. } = self.layout.spec;
        let (blocks, slot_len, part_len) = (self.layout.blocks(), self.layout.slot_len(), self.layout.part_len());
        let mut parts = vec![StatePart::default(); value_heads * blocks];
        for_each_part(&mut parts, 1, |index, part| {
            part.fill(self.part(index, projected, weights, position, states));
        });
        let mut mixed = Rows::new(projected.len(), value_heads * value_dim);
        for (index, part) in parts.iter().enumerate() {
            let (head, first) = (index / blocks, index % blocks * COLUMNS);
            let width = COLUMNS.min(value_dim - first);
            for (row, values) in part.mixed.chunks_exact(COLUMNS).enumerate() {
                mixed.row_mut(row)[head * value_dim + first..][..width].copy_from_slice(&values[..width]);
            }
            let slot = &mut self.numbers[states.save_slot * slot_len + index * part_len..];
            slot[..part.saved.len()].copy_from_slice(&part.saved);
        }
        // What a saved state contains is not repeated.
        let width = self.layout.spec.input_width();
        for row in states.save_at.unwrap_or(0).saturating_sub(position)..projected.len() {
            let inputs = self.layout.in_ring(position + row);
            self.numbers[inputs..][..width].copy_from_slice(&projected.row(row)[..width]);
        }
        mixed
    }

    fn part(
        &self,
        index: usize,
        projected: &Rows,
        weights: &DeltaWeights<'_>,
        position: usize,
        states: StatePass,
    ) -> StatePart {
        let StatePass { slot, base, save_at, .. } = states;
        let DeltaSpec { key_heads, value_heads, key_dim, value_dim, taps, replaces } = self.layout.spec;
        let (channels, part_len) = (self.layout.channels(), self.layout.part_len());
        let (head, first) = (index / self.layout.blocks(), index % self.layout.blocks() * COLUMNS);
        let key_head = if self.tiled { head % key_heads } else { head / (value_heads / key_heads) };
        // First input and number of inputs of q, k and v.
        let (keys, values) = (key_heads * key_dim, head * value_dim + first);
        let width = COLUMNS.min(value_dim - first);
        let runs = [(key_head * key_dim, key_dim), (keys + key_head * key_dim, key_dim), (2 * keys + values, width)];
        let end = position + projected.len();
        let count = end - base;
        let inputs = |at: usize| match at.checked_sub(position) {
            Some(row) => projected.row(row),
            None => &self.numbers[self.layout.in_ring(at)..],
        };

        let old = &self.numbers[slot * self.layout.slot_len() + index * part_len..][..part_len];
        let (tail, state) = old.split_at((taps - 1) * channels);
        // Inputs from the first one that the convolution reads on [taps - 1 + count, channels].
        let mut window = vec![0.0; (taps - 1 + count) * channels];
        let mut state = if base == 0 { vec![0.0; state.len()] } else { state.to_vec() };
        if base > 0 {
            window[..tail.len()].copy_from_slice(tail);
        }
        for (at, row) in (base..end).zip(window[tail.len()..].chunks_exact_mut(channels)) {
            let mut to = 0;
            for (from, len) in runs {
                row[to..][..len].copy_from_slice(&inputs(at)[from..][..len]);
                to += len;
            }
        }
        let mut factors = vec![0.0; taps * channels];
        let mut bias = vec![0.0; channels];
        for (to, channel) in runs.into_iter().flat_map(|(from, len)| from..from + len).enumerate() {
            for tap in 0..taps {
                factors[tap * channels + to] = weights.taps[channel * taps + tap];
            }
            bias[to] = weights.conv_bias.get(channel).copied().unwrap_or(0.0);
        }
        let mut rows = Rows::new(count, channels);
        for row in 0..count {
            let sums = rows.row_mut(row);
            sums.copy_from_slice(&bias);
            for (inputs, factors) in window[row * channels..].chunks_exact(channels).zip(factors.chunks_exact(channels))
            {
                sums.iter_mut().zip(inputs).zip(factors).for_each(|((sum, input), factor)| *sum += input * factor);
            }
        }
        activation(Activation::Silu, &mut rows);

        let conv_width = self.layout.spec.conv_width();
        let mut part = StatePart { mixed: vec![0.0; projected.len() * COLUMNS], saved: Vec::new() };
        for at in base..=end {
            let row = at - base;
            if save_at == Some(at) {
                part.saved = [&window[row * channels..][..tail.len()], &state].concat();
            }
            if at == end {
                break;
            }
            let strengths = &inputs(at)[conv_width..];
            let x = strengths[value_heads + head] + weights.bias[head];
            let speed = x.max(0.0) + (-x.abs()).exp().ln_1p();
            let decay = (-weights.rates[head] * speed).exp();
            let strength = if replaces { 1.0 / (1.0 + (-strengths[head]).exp()) } else { speed };
            let mut unused = [0.0; COLUMNS];
            let mixed = match at.checked_sub(position) {
                Some(row) => &mut part.mixed[row * COLUMNS..][..COLUMNS],
                None => &mut unused,
            };
            let row = rows.row(row);
            arch().dispatch(Advance { row, key_dim, replaces, strength, decay, state: &mut state, mixed });
            let skip = weights.skip.get(head).copied().unwrap_or(0.0);
            mixed.iter_mut().zip(&row[2 * key_dim..]).for_each(|(sum, v)| *sum = mul_add(skip, *v, *sum));
        }
        part
    }
}

/// One position of the recurrence, for some columns of a state.
struct Advance<'a> {
    /// q and k [key_dim] before their norms, v [COLUMNS].
    row: &'a [f32],
    key_dim: usize,
    replaces: bool,
    strength: f32,
    decay: f32,
    /// [key_dim, COLUMNS].
    state: &'a mut [f32],
    /// [COLUMNS].
    mixed: &'a mut [f32],
}

impl WithSimd for Advance<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let Self { row, key_dim, replaces, strength, decay, state, mixed } = self;
        let (q, rest) = row.split_at(key_dim);
        let (k, v) = rest.split_at(key_dim);
        let (q_scale, k_scale) = match replaces {
            true => (length(q).recip() / (key_dim as f32).sqrt(), length(k).recip()),
            false => (1.0, 1.0),
        };
        let state = state.as_chunks_mut::<COLUMNS>().0;
        let mut known = [0.0_f32; COLUMNS];
        for (column, k) in state.iter_mut().zip(k) {
            let k = k * k_scale;
            for i in 0..COLUMNS {
                column[i] *= decay;
                known[i] = mul_add(column[i], k, known[i]);
            }
        }
        let mut new = [0.0_f32; COLUMNS];
        for i in 0..COLUMNS {
            new[i] = (v[i] - if replaces { known[i] } else { 0.0 }) * strength;
        }
        let mut sums = [0.0_f32; COLUMNS];
        for ((column, k), q) in state.iter_mut().zip(k).zip(q) {
            let (k, q) = (k * k_scale, q * q_scale);
            for i in 0..COLUMNS {
                column[i] = mul_add(new[i], k, column[i]);
                sums[i] = mul_add(column[i], q, sums[i]);
            }
        }
        mixed.copy_from_slice(&sums);
    }
}

/// Returns the length of a vector of 4 n elements, which is never 0.
#[inline(always)]
fn length(x: &[f32]) -> f32 {
    let mut sums = [1e-6, 0.0, 0.0, 0.0];
    for x in x.as_chunks::<4>().0 {
        for i in 0..4 {
            sums[i] = mul_add(x[i], x[i], sums[i]);
        }
    }
    ((sums[0] + sums[1]) + (sums[2] + sums[3])).sqrt()
}
