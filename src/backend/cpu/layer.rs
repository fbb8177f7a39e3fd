//! State that a layer keeps of the text: keys and values, recurrent state, or nothing.

use super::attention::{Cache, LayerHeads};
use super::delta::DeltaStates;
use super::pointwise::norm_parts;
use super::rows::Rows;
use crate::model::{AttentionSpec, ConvHistory, ModelSpec, QkNorm};
use std::collections::TryReserveError;

/// State of a layer.
#[derive(Clone)]
pub enum LayerState {
    /// Keys and values.
    Kv(Cache),
    /// Inputs of a short convolution.
    History(History),
    /// States of a gated delta net.
    Delta(DeltaStates),
    /// Nothing: the layer reads the keys and values of another.
    Shared,
}

impl LayerState {
    /// Keeps the first `positions` positions. A history overwrites later ones when it reaches them again.
    pub fn truncate(&mut self, positions: usize) {
        if let Self::Kv(cache) = self {
            cache.truncate(positions);
        }
    }

    /// Makes room for `positions` positions.
    pub fn reserve(&mut self, positions: usize) -> Result<(), TryReserveError> {
        match self {
            Self::Kv(cache) => cache.reserve(positions),
            Self::History(history) => history.reserve(positions),
            Self::Delta(states) => states.reserve(),
            Self::Shared => Ok(()),
        }
    }

    /// Copies what is kept of the first `positions` positions.
    pub fn copy(&self, positions: usize) -> Self {
        match self {
            Self::Kv(cache) => Self::Kv(cache.copy(positions)),
            Self::History(history) => Self::History(history.copy(positions)),
            Self::Delta(states) => Self::Delta(states.copy(positions)),
            Self::Shared => Self::Shared,
        }
    }

    /// Returns what is kept of the first `positions` positions, as stored.
    pub fn bytes(&mut self, positions: usize) -> Vec<u8> {
        match self {
            Self::Kv(cache) => {
                cache.truncate(positions);
                cache.to_bytes()
            }
            Self::History(history) => bytemuck::cast_slice(&history.copy(positions).numbers).to_vec(),
            Self::Delta(states) => states.to_bytes(positions),
            Self::Shared => Vec::new(),
        }
    }

    /// Restores [`LayerState::bytes`]. Returns false if the size does not match.
    pub fn set_bytes(&mut self, positions: usize, bytes: &[u8]) -> bool {
        match self {
            Self::Kv(cache) => cache.set_bytes(positions, bytes),
            Self::History(history) => history.set_bytes(positions, bytes),
            Self::Delta(states) => states.set_bytes(positions, bytes),
            Self::Shared => bytes.is_empty(),
        }
    }
}

/// Inputs of a short convolution.
#[derive(Clone)]
pub struct History {
    layout: ConvHistory,
    numbers: Vec<f32>,
}

impl History {
    pub fn new(layout: ConvHistory) -> Self {
        Self { layout, numbers: Vec::new() }
    }

    fn reserve(&mut self, positions: usize) -> Result<(), TryReserveError> {
        let more = self.layout.len(positions).saturating_sub(self.numbers.len());
        self.numbers.try_reserve(more)?;
        self.numbers.resize(self.numbers.len() + more, 0.0);
        Ok(())
    }

    fn copy(&self, positions: usize) -> Self {
        let kept = self.layout.len(positions).min(self.numbers.len());
        Self { numbers: self.numbers[..kept].to_vec(), ..*self }
    }

    fn set_bytes(&mut self, positions: usize, bytes: &[u8]) -> bool {
        self.numbers = bytemuck::pod_collect_to_vec(bytes);
        bytes.len() == 4 * self.layout.len(positions)
    }

    /// Takes b, c and x of the rows from `position` on [rows, 3, width], and the weights [width, taps]. Returns c times the convolution of
    /// b x [rows, width].
    pub fn convolve(&mut self, projected: &Rows, weights: &[f32], position: usize) -> Rows {
        let ConvHistory { width, taps, .. } = self.layout;
        let mut mixed = Rows::new(projected.len(), width);
        for row in 0..projected.len() {
            let (b, rest) = projected.row(row).split_at(width);
            let (c, x) = rest.split_at(width);
            let here = position + row;
            for to in [Some(self.layout.in_ring(here)), self.layout.in_checkpoint(here)].into_iter().flatten() {
                let inputs = &mut self.numbers[to..][..width];
                inputs.iter_mut().zip(b).zip(x).for_each(|((input, b), x)| *input = b * x);
            }
            let sums = mixed.row_mut(row);
            for tap in 0..taps {
                let Some(before) = (here + tap + 1).checked_sub(taps) else { continue };
                let from = self.layout.in_checkpoint(before).unwrap_or(self.layout.in_ring(before));
                let weights = weights[tap..].iter().step_by(taps);
                let inputs = self.numbers[from..][..width].iter().zip(weights);
                sums.iter_mut().zip(inputs).for_each(|(sum, (input, weight))| *sum += input * weight);
            }
            sums.iter_mut().zip(c).for_each(|(sum, c)| *sum *= c);
        }
        mixed
    }
}

/// Normalises the heads of q and k, and of v in some models.
pub(super) fn norm_heads(qkv: &mut Rows, attention: &AttentionSpec, spec: &ModelSpec) {
    let widths = [attention.q_width(), attention.kv_width(), attention.kv_width()];
    let parts = if spec.qk_norm == Some(QkNorm::HeadsAndValues) { 3 } else { 2 };
    let mut first = 0;
    for width in widths.into_iter().take(parts).filter(|width| *width > 0) {
        let together = if spec.qk_norm == Some(QkNorm::Width) { width } else { attention.head_dim };
        norm_parts(qkv, first..first + width, &vec![1.0; together], spec.norm_eps as f32);
        first += width;
    }
}

/// Takes the projections of a layer: returns rotated q, and appends k and v to those of layer `source`, if they are its own.
pub(super) fn take_heads(
    layers: &mut [LayerState],
    heads: &LayerHeads,
    source: usize,
    rows: Rows,
    table: &[f32],
    gains: &[f32],
) -> Rows {
    match &mut layers[source] {
        LayerState::Kv(cache) if heads.has_own_kv => cache.append(heads, rows, table, gains),
        LayerState::Kv(cache) => cache.rotate_queries(heads, rows, table, gains),
        _ => rows,
    }
}
