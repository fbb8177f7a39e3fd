//! Rows of activations in the CPU's memory.

use super::simd::{LANES, add_scaled, arch};
use pulp::{Simd, WithSimd};
use std::borrow::Cow;
use std::ops::Range;

/// Returns the numbers of a padded row: whole groups of lanes, zero past `width`.
pub(super) fn stride(width: usize) -> usize {
    width.next_multiple_of(LANES)
}

/// Activations [rows, width].
#[derive(Debug, Clone, Default)]
pub struct Rows {
    /// Numbers per row.
    pub width: usize,
    stride: usize,
    data: Vec<f32>,
}

impl Rows {
    /// Creates zeros [rows, width].
    pub fn new(rows: usize, width: usize) -> Self {
        Self { width, stride: stride(width), data: vec![0.0; rows * stride(width)] }
    }

    /// Copies values [rows, width] without padding.
    pub fn from_flat(values: &[f32], width: usize) -> Self {
        let mut rows = Self::new(values.len() / width.max(1), width);
        for (row, values) in values.chunks_exact(width).enumerate() {
            rows.row_mut(row).copy_from_slice(values);
        }
        rows
    }

    /// Returns the number of rows.
    pub fn len(&self) -> usize {
        self.data.len() / self.stride.max(1)
    }

    /// Returns true if there are no rows.
    pub fn is_empty(&self) -> bool {
        self.data.is_empty()
    }

    /// Returns all padded rows.
    pub fn data(&self) -> &[f32] {
        &self.data
    }

    /// Returns all padded rows, mutable.
    pub fn data_mut(&mut self) -> &mut [f32] {
        &mut self.data
    }

    /// Returns the numbers of a padded row.
    pub(super) fn padded_width(&self) -> usize {
        self.stride
    }

    /// Returns a padded row.
    pub(super) fn padded(&self, row: usize) -> &[f32] {
        &self.data[row * self.stride..][..self.stride]
    }

    /// Returns a row [width].
    pub fn row(&self, row: usize) -> &[f32] {
        &self.data[row * self.stride..][..self.width]
    }

    /// Returns a row [width], mutable.
    pub fn row_mut(&mut self, row: usize) -> &mut [f32] {
        &mut self.data[row * self.stride..][..self.width]
    }

    /// Returns each row with that of `other` after it.
    pub(super) fn joined(&self, other: &Self) -> Self {
        let mut rows = Self::new(self.len(), self.width + other.width);
        for row in 0..self.len() {
            let (first, second) = rows.row_mut(row).split_at_mut(self.width);
            first.copy_from_slice(self.row(row));
            second.copy_from_slice(other.row(row));
        }
        rows
    }

    /// Copies some rows.
    pub(super) fn part(&self, rows: Range<usize>) -> Self {
        Self { data: self.data[rows.start * self.stride..rows.end * self.stride].to_vec(), ..*self }
    }

    /// Copies some numbers of each row.
    pub(super) fn columns(&self, first: usize, width: usize) -> Self {
        let mut part = Self::new(self.len(), width);
        (0..self.len()).for_each(|row| part.row_mut(row).copy_from_slice(&self.row(row)[first..][..width]));
        part
    }

    /// Adds each row of `other`, times a factor, to the same row.
    pub(super) fn add(&mut self, other: &Self, factor: f32) {
        arch().dispatch(Add { to: &mut self.data, more: &other.data, factor });
    }

    /// Multiplies each row by the numbers of the same row of `other` from `first` on.
    pub(super) fn multiply_each(&mut self, other: &Self, first: usize) {
        for row in 0..self.len() {
            self.row_mut(row).iter_mut().zip(&other.row(row)[first..]).for_each(|(value, factor)| *value *= factor);
        }
    }

    /// Multiplies the first numbers of each row by a vector.
    pub(super) fn scale_each(&mut self, vector: &[f32]) {
        for row in 0..self.len() {
            self.row_mut(row).iter_mut().zip(vector).for_each(|(value, factor)| *value *= factor);
        }
    }

    /// Adds a vector [width] to each row; an empty vector is zeros.
    pub(super) fn add_to_each(&mut self, vector: &[f32]) {
        if !vector.is_empty() {
            for row in 0..self.len() {
                arch().dispatch(Add { to: self.row_mut(row), more: vector, factor: 1.0 });
            }
        }
    }
}

struct Add<'a> {
    to: &'a mut [f32],
    more: &'a [f32],
    factor: f32,
}

impl WithSimd for Add<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        add_scaled(simd, self.to, self.factor, self.more);
    }
}

/// Activations with interleaved rows: vectors of four rows while there are four, then of two, then of one.
pub(super) struct Panels<'a> {
    rows: usize,
    stride: usize,
    data: Cow<'a, [f32]>,
}

impl<'a> Panels<'a> {
    pub fn new(x: &'a Rows) -> Self {
        let data = if x.len() == 1 { Cow::Borrowed(&x.data[..]) } else { Cow::Owned(arch().dispatch(TakeTurns(x))) };
        Self { rows: x.len(), stride: x.stride, data }
    }

    pub fn len(&self) -> usize {
        self.rows
    }

    /// Returns the numbers of a padded row.
    pub fn padded_width(&self) -> usize {
        self.stride
    }

    /// Returns N interleaved rows from `first` on [vectors, N].
    #[inline(always)]
    pub fn panel<S: Simd, const N: usize>(&self, first: usize) -> &[[S::f32s; N]] {
        S::as_simd_f32s(&self.data[first * self.stride..(first + N) * self.stride]).0.as_chunks().0
    }
}

struct TakeTurns<'a>(&'a Rows);

impl WithSimd for TakeTurns<'_> {
    type Output = Vec<f32>;

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) -> Vec<f32> {
        let Self(x) = self;
        let (mut all, mut first) = (vec![0.0; x.data.len()], 0);
        for width in [4, 2, 1] {
            while first + width <= x.len() {
                let panel = S::as_mut_simd_f32s(&mut all[first * x.stride..(first + width) * x.stride]).0;
                for row in 0..width {
                    let vectors = S::as_simd_f32s(x.padded(first + row)).0;
                    let places = panel.iter_mut().skip(row).step_by(width);
                    places.zip(vectors).for_each(|(place, vector)| *place = *vector);
                }
                first += width;
            }
        }
        all
    }
}
