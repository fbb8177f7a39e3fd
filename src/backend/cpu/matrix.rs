//! Matrices in the CPU's memory, and their products with rows of activations.

use super::floats::{Floats, multiply_four};
use super::instructions::BLOCK;
use super::integers::{self, Coded, FourRows};
use super::parts::for_each_part;
use super::rows::{Panels, Rows, stride};
use super::simd::{LANES, arch, widen_codes};
use crate::options::Arithmetic;
use crate::weights::{self, Dtype, Float, Format, coded, widen};
use pulp::{Simd, WithSimd};
use std::collections::TryReserveError;
use std::iter::repeat_n;
use std::ops::Range;

/// Highest bit of each of eight bytes.
const SIGNS: u64 = u64::from_ne_bytes([128; 8]);
/// Four lower bits of each of eight bytes.
const LOWER: u64 = u64::from_ne_bytes([15; 8]);

/// Multiplications that are worth a thread.
const PORTION: usize = 1 << 16;

/// Matrix [rows, cols].
pub struct Matrix {
    /// Inputs.
    cols: usize,
    /// Outputs.
    rows: usize,
    pieces: Vec<RowGroup>,
}

/// Rows of a matrix stored in the same type.
struct RowGroup {
    rows: Range<usize>,
    dtype: Dtype,
    stored: StoredRows,
}

enum StoredRows {
    Floats(Floats),
    Quantised(Quantised),
}

/// Codes and scales: weight i of a row is `scale * (code - center) + offset`.
#[derive(Default)]
struct Quantised {
    /// `Nibbles` or `ByteWords` of `instructions` [rows / 4, blocks of a row, 2 or 4, 4].
    codes: Vec<u64>,
    has_nibbles: bool,
    /// Mask that makes 8-bit codes signed; 0: none.
    signs: u64,
    center: u8,
    /// Weights that share a scale and an offset: a block or half a block.
    group: usize,
    /// Blocks that share a scale and an offset in the stored format.
    repeats: usize,
    /// Scales, four rows interleaved [rows / 4, groups of a row, 4].
    scales: Vec<[f32; 4]>,
    /// Offsets, as many as scales; `None`: all zero.
    offsets: Option<Vec<[f32; 4]>>,
}

impl Matrix {
    /// Creates a matrix without rows.
    pub fn new(cols: usize) -> Self {
        Self { cols, rows: 0, pieces: Vec::new() }
    }

    /// Returns the number of columns.
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// Makes room for exactly `rows` more rows of a type.
    pub fn reserve(&mut self, dtype: Dtype, rows: usize) -> Result<(), TryReserveError> {
        let width = stride(self.cols);
        let fours = rows.div_ceil(4);
        let last = self.pieces.len().saturating_sub(1);
        match &mut self.piece(last, dtype).stored {
            StoredRows::Floats(floats) => floats.reserve(rows.saturating_mul(width)),
            StoredRows::Quantised(Quantised { codes, has_nibbles, scales, group, .. }) => {
                codes.try_reserve_exact(fours.saturating_mul(if *has_nibbles { width / 4 } else { width / 2 }))?;
                scales.try_reserve_exact(fours * (width / *group))
            }
        }
    }

    /// Appends rows, given as bytes of `dtype`.
    pub fn push(&mut self, dtype: Dtype, bytes: &[u8]) -> Result<(), TryReserveError> {
        let (cols, row_bytes) = (self.cols, dtype.bytes(self.cols as u64));
        let rows = bytes.len() / row_bytes.map_or(usize::MAX, |bytes| bytes.max(1) as usize);
        let begun = self.pieces.iter().rposition(|piece| !piece.rows.is_empty()).unwrap_or(0);
        let total = self.rows;
        let piece = self.piece(begun, dtype);
        if piece.rows.is_empty() {
            piece.rows = total..total;
        }
        match &mut piece.stored {
            StoredRows::Floats(floats) => widen(dtype, bytes).chunks_exact(cols).for_each(|row| floats.push(row)),
            StoredRows::Quantised(quantised) => quantised.push(coded(dtype, bytes), piece.rows.len(), cols)?,
        }
        piece.rows.end += rows;
        self.rows += rows;
        Ok(())
    }

    /// Returns the next piece of this type from `first` on, or a new one without rows.
    fn piece(&mut self, first: usize, dtype: Dtype) -> &mut RowGroup {
        let mut pieces = first..self.pieces.len();
        let at = pieces.find(|at| self.pieces[*at].dtype == dtype).unwrap_or_else(|| {
            self.pieces.push(RowGroup { rows: 0..0, dtype, stored: StoredRows::new(dtype) });
            self.pieces.len() - 1
        });
        &mut self.pieces[at]
    }

    /// Returns the bytes in memory.
    pub fn bytes(&self) -> u64 {
        let of = |piece: &RowGroup| match &piece.stored {
            StoredRows::Floats(floats) => floats.bytes(),
            StoredRows::Quantised(Quantised { codes, scales, offsets, .. }) => {
                8 * codes.len() + 16 * (scales.len() + offsets.as_ref().map_or(0, Vec::len))
            }
        };
        self.pieces.iter().map(of).sum::<usize>() as u64
    }

    /// Returns a row as f32.
    pub fn row(&self, row: usize) -> Vec<f32> {
        let Some(piece) = self.pieces.iter().find(|piece| piece.rows.contains(&row)) else { return Vec::new() };
        let mut values = vec![0.0; stride(self.cols)];
        piece.stored.widen(row - piece.rows.start, self.cols, &mut values);
        values.truncate(self.cols);
        values
    }

    /// Returns `x W^T` for x [rows, cols]: [rows, outs]. A product depends on its two rows alone.
    pub fn times(&self, x: &Rows, arithmetic: Arithmetic) -> Rows {
        let count = x.len();
        let fours = (PORTION / (4 * self.cols * count).max(1)).clamp(1, 64);
        let (mut panels, mut coded) = (None, None);
        let mut y = Rows::new(count, self.rows);
        for RowGroup { rows, stored, .. } in &self.pieces {
            // Four outputs of each row, so that threads write to separate memory.
            let mut products = vec![[0f32; 4]; rows.len().div_ceil(4) * count];
            match stored {
                StoredRows::Quantised(quantised) if arithmetic == Arithmetic::Int8 => {
                    let coded = coded.get_or_insert_with(|| Coded::new(x));
                    for_each_part(&mut products, fours * count, |part, products| {
                        integers::products(|four| quantised.four(part * fours + four, self.cols), coded, products);
                    });
                }
                StoredRows::Quantised(weights) => {
                    let x = panels.get_or_insert_with(|| Panels::new(x));
                    for_each_part(&mut products, fours * count, |part, products| {
                        let first = 4 * fours * part;
                        arch().dispatch(Widened { weights, cols: self.cols, first, rows: rows.len(), x, products });
                    });
                }
                // The reader checked that all are finite.
                StoredRows::Floats(floats) => {
                    let x = panels.get_or_insert_with(|| Panels::new(x));
                    for_each_part(&mut products, fours * count, |part, products| {
                        floats.multiply(4 * fours * part, x, products, false);
                    });
                }
            }
            let products = &products[..];
            for row in 0..count {
                let (fours, rest) = y.row_mut(row)[rows.clone()].as_chunks_mut();
                // Indexed: size-optimised code does not inline iterators that skip.
                for (i, y) in fours.iter_mut().enumerate() {
                    *y = products[i * count + row];
                }
                if !rest.is_empty() {
                    rest.copy_from_slice(&products[fours.len() * count + row][..rest.len()]);
                }
            }
        }
        y
    }
}

/// Products of some rows of weights with all rows of x [outs / 4, rows, 4], in f32.
struct Widened<'a> {
    weights: &'a Quantised,
    cols: usize,
    first: usize,
    rows: usize,
    x: &'a Panels<'a>,
    products: &'a mut [[f32; 4]],
}

impl WithSimd for Widened<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { weights, cols, first, rows, x, products } = self;
        let width = stride(cols);
        let mut four = vec![0.0; 4 * width];
        for (at, products) in products.chunks_exact_mut(x.len()).enumerate() {
            for (i, to) in four.chunks_exact_mut(width).enumerate() {
                weights.widen((first + 4 * at + i).min(rows - 1), &mut to[..cols]);
            }
            multiply_four(simd, &four, x, products);
        }
    }
}

impl StoredRows {
    fn new(dtype: Dtype) -> Self {
        let float = match dtype {
            Dtype::F32 => Float::F32,
            Dtype::F16 => Float::F16,
            Dtype::Bf16 => Float::Bf16,
            _ => return Self::Quantised(Quantised::new(dtype)),
        };
        Self::Floats(Floats::new(float))
    }

    /// Widens a row and its padding to f32.
    #[inline(always)]
    fn widen(&self, row: usize, cols: usize, to: &mut [f32]) {
        match self {
            // The reader checked that all are finite.
            Self::Floats(floats) => floats.widen(row, to, false),
            Self::Quantised(quantised) => quantised.widen(row, &mut to[..cols]),
        }
    }
}

impl Quantised {
    fn new(dtype: Dtype) -> Self {
        let (group, center) = (dtype.group().min(BLOCK), dtype.center());
        let (has_nibbles, signs) = match Format::of_dtype(dtype) {
            Format::Quantised { codes: weights::Codes::One | weights::Codes::Two | weights::Codes::Four, .. } => {
                (true, 0)
            }
            Format::Quantised {
                codes: weights::Codes::Eight | weights::Codes::Levels | weights::Codes::Floats,
                ..
            } => (false, SIGNS),
            _ => (false, 0),
        };
        Self { has_nibbles, signs, center, group, repeats: dtype.group() / group, ..Self::default() }
    }

    /// Returns the number of 8-byte words of a row in a block.
    fn eights(&self) -> usize {
        if self.has_nibbles { BLOCK / 16 } else { BLOCK / 8 }
    }

    /// Appends rows to the `rows` existing ones.
    fn push(&mut self, coded: weights::CodedBlock, rows: usize, cols: usize) -> Result<(), TryReserveError> {
        let weights::CodedBlock { codes, scales, offsets } = coded;
        let (blocks, groups) = (cols / BLOCK, cols / self.group);
        let (eights, fours) = (self.eights(), (rows + codes.len() / cols).div_ceil(4));
        self.codes.resize(fours * blocks * eights * 4, 0);
        for (i, codes) in codes.as_chunks::<BLOCK>().0.iter().enumerate() {
            let row = rows + i / blocks;
            let block = &mut self.codes[(row / 4 * blocks + i % blocks) * eights * 4 + row % 4..];
            for (at, codes) in codes.as_chunks::<8>().0.iter().enumerate() {
                let codes = u64::from_le_bytes(*codes);
                if self.has_nibbles {
                    block[at / 2 * 4] |= codes << (at % 2 * 4);
                } else {
                    block[at * 4] = codes ^ self.signs;
                }
            }
        }
        let put = |all: &mut [[f32; 4]], numbers: Vec<f32>| {
            for (i, number) in numbers.into_iter().flat_map(|number| repeat_n(number, self.repeats)).enumerate() {
                let row = rows + i / groups;
                all[row / 4 * groups + i % groups][row % 4] = number;
            }
        };
        self.scales.resize(fours * groups, [0.0; 4]);
        put(&mut self.scales, scales);
        if self.offsets.is_some() || offsets.iter().any(|offset| *offset != 0.0) {
            let all = self.offsets.get_or_insert_default();
            all.try_reserve_exact(self.scales.capacity() - all.len())?;
            all.resize(fours * groups, [-0.0; 4]);
            put(all, offsets);
        }
        Ok(())
    }

    /// Returns four rows, in blocks. Missing rows have scale zero.
    #[inline(always)]
    fn four(&self, four: usize, cols: usize) -> integers::IntegerWeights<'_> {
        let (eights, groups) = (cols / BLOCK * self.eights() * 4, cols / self.group);
        let codes = &self.codes[four * eights..][..eights];
        let groups = four * groups..(four + 1) * groups;
        integers::IntegerWeights {
            codes: match self.has_nibbles {
                true => FourRows::Nibbles(codes.as_chunks().0),
                false => FourRows::Bytes(codes.as_chunks().0),
            },
            center: f32::from(self.center) - if self.signs == 0 { 0.0 } else { 128.0 },
            scales: &self.scales[groups.clone()],
            offsets: self.offsets.as_ref().map(|offsets| &offsets[groups]),
        }
    }

    /// Widens a row to f32.
    #[inline(always)]
    fn widen(&self, row: usize, to: &mut [f32]) {
        let (groups, eights) = (to.len() / self.group, to.len() / BLOCK * self.eights() * 4);
        let scales = &self.scales[row / 4 * groups..][..groups];
        let offsets = self.offsets.as_ref().map(|offsets| &offsets[row / 4 * groups..][..groups]);
        let codes = &self.codes[row / 4 * eights..][..eights];
        let center = self.center.into();
        for (i, to) in to.as_chunks_mut::<16>().0.iter_mut().enumerate() {
            let eight = |at: usize| codes[at * 4 + row % 4];
            let sixteen = match self.has_nibbles {
                true => [eight(i) & LOWER, eight(i) >> 4 & LOWER],
                false => [eight(2 * i) ^ self.signs, eight(2 * i + 1) ^ self.signs],
            };
            let group = 16 * i / self.group;
            let offset = offsets.map_or(-0.0, |offsets| offsets[group][row % 4]);
            widen_codes(&bytemuck::cast(sixteen.map(u64::to_le)), center, scales[group][row % 4], offset, to);
        }
    }
}

/// Padded rows are whole blocks.
const _: () = assert!(LANES == BLOCK);
