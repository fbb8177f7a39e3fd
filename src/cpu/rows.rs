//! Rows of numbers in the CPU's memory: activations, and what is stored as floats of any type.

use super::simd::{LANES, arch, widen_bf16, widen_f16};
use crate::weights::Float;
use half::{bf16, f16};
use pulp::{Simd, WithSimd};
use std::borrow::Cow;
use std::collections::TryReserveError;
use std::ops::Range;

/// Numbers from row to row: whole groups of lanes, zero past the width.
pub(super) fn stride(width: usize) -> usize {
    width.next_multiple_of(LANES)
}

/// Activations [rows, width].
#[derive(Debug, Clone, Default)]
pub struct Rows {
    /// Numbers of a row.
    pub width: usize,
    stride: usize,
    data: Vec<f32>,
}

impl Rows {
    /// Zeros [rows, width].
    pub fn new(rows: usize, width: usize) -> Self {
        Self { width, stride: stride(width), data: vec![0.0; rows * stride(width)] }
    }

    /// From [rows, width] without gaps.
    pub fn from_flat(values: &[f32], width: usize) -> Self {
        let mut rows = Self::new(values.len() / width.max(1), width);
        for (row, values) in values.chunks_exact(width).enumerate() {
            rows.row_mut(row).copy_from_slice(values);
        }
        rows
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.data.len() / self.stride.max(1)
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.data.is_empty()
    }

    /// Numbers of a row with the zeros behind it.
    pub(super) fn padded_width(&self) -> usize {
        self.stride
    }

    /// One with the zeros behind it.
    pub(super) fn padded(&self, row: usize) -> &[f32] {
        &self.data[row * self.stride..][..self.stride]
    }

    /// One [width].
    pub fn row(&self, row: usize) -> &[f32] {
        &self.data[row * self.stride..][..self.width]
    }

    /// One [width], to write.
    pub fn row_mut(&mut self, row: usize) -> &mut [f32] {
        &mut self.data[row * self.stride..][..self.width]
    }

    /// Some of the rows.
    pub(super) fn part(&self, rows: Range<usize>) -> Self {
        Self { data: self.data[rows.start * self.stride..rows.end * self.stride].to_vec(), ..*self }
    }

    /// Adds other rows to them, one to each.
    pub(super) fn add(&mut self, other: &Self) {
        self.data.iter_mut().zip(&other.data).for_each(|(x, other)| *x += other);
    }

    /// Adds a vector [width] to each of them.
    pub(super) fn add_to_each(&mut self, vector: &[f32]) {
        for row in 0..self.len() {
            self.row_mut(row).iter_mut().zip(vector).for_each(|(x, more)| *x += more);
        }
    }
}

/// Activations of which vectors of four rows take turns, as long as there are four; then of two.
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

    /// How many rows.
    pub fn len(&self) -> usize {
        self.rows
    }

    /// N rows from one on, which take turns [vectors, N].
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

/// Floats as they are stored, row behind row; what is behind a row's width is zero.
#[derive(Debug, Clone)]
pub(super) enum Floats {
    F32(Vec<f32>),
    F16(Vec<f16>),
    Bf16(Vec<bf16>),
}

impl Floats {
    pub fn new(float: Float) -> Self {
        match float {
            Float::F32 => Self::F32(Vec::new()),
            Float::F16 => Self::F16(Vec::new()),
            Float::Bf16 => Self::Bf16(Vec::new()),
        }
    }

    /// Bytes in memory.
    pub fn bytes(&self) -> usize {
        match self {
            Self::F32(all) => 4 * all.len(),
            Self::F16(all) => 2 * all.len(),
            Self::Bf16(all) => 2 * all.len(),
        }
    }

    /// Makes room for so many numbers more.
    pub fn reserve(&mut self, numbers: usize) -> Result<(), TryReserveError> {
        match self {
            Self::F32(all) => all.try_reserve_exact(numbers),
            Self::F16(all) => all.try_reserve_exact(numbers),
            Self::Bf16(all) => all.try_reserve_exact(numbers),
        }
    }

    /// Appends a row, rounded, and zeros up to its stride.
    pub fn push(&mut self, row: &[f32]) {
        let padded = row.iter().copied().chain(std::iter::repeat_n(0.0, stride(row.len()) - row.len()));
        match self {
            Self::F32(all) => all.extend(padded),
            Self::F16(all) => all.extend(padded.map(f16::from_f32)),
            Self::Bf16(all) => all.extend(padded.map(bf16::from_f32)),
        }
    }

    /// Keeps so many rows of so many numbers each.
    pub fn truncate(&mut self, rows: usize, width: usize) {
        let len = rows * stride(width);
        match self {
            Self::F32(all) => all.truncate(len),
            Self::F16(all) => all.truncate(len),
            Self::Bf16(all) => all.truncate(len),
        }
    }

    /// A row of `width` with the zeros behind it, as f32: in `buffer`, unless it is stored so. Without `all`, numbers are finite.
    #[inline(always)]
    pub fn padded<'a>(&'a self, row: usize, width: usize, buffer: &'a mut Vec<f32>, all: bool) -> &'a [f32] {
        let stride = stride(width);
        let range = row * stride..(row + 1) * stride;
        if !matches!(self, Self::F32(_)) {
            buffer.resize(stride, 0.0);
        }
        match self {
            Self::F32(numbers) => return &numbers[range],
            Self::F16(numbers) => widen_f16(&numbers[range], buffer, all),
            Self::Bf16(numbers) => widen_bf16(&numbers[range], buffer),
        }
        buffer
    }
}
