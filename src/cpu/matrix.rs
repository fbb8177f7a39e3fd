//! Matrices in the CPU's memory, and their products with rows of activations.

use super::floats::{Floats, multiply_four};
use super::instructions::BLOCK;
use super::integers::{self, Coded, Codes};
use super::parts::for_each_part;
use super::rows::{Panels, Rows, stride};
use super::simd::{LANES, arch, widen_codes};
use crate::options::Arithmetic;
use crate::weights::{self, Dtype, Float, Format, coded, widen};
use pulp::{Simd, WithSimd};
use std::collections::TryReserveError;
use std::iter::repeat_n;
use std::ops::Range;

/// Multiplications that are worth a thread.
const PORTION: usize = 1 << 16;

/// A matrix [rows, cols].
pub struct Matrix {
    /// Inputs.
    cols: usize,
    /// Outputs.
    rows: usize,
    pieces: Vec<Piece>,
}

/// Rows of a matrix that are stored alike.
struct Piece {
    rows: Range<usize>,
    dtype: Dtype,
    stored: Stored,
}

enum Stored {
    Floats(Floats),
    Quantised(Quantised),
}

/// Codes and their scales: weight i of a row is `scale * (code - center) + offset`.
#[derive(Default)]
struct Quantised {
    /// Where two share a byte, the lower bits are of code i, the upper ones of code i + 16 of a block.
    codes: Vec<u8>,
    has_nibbles: bool,
    center: u8,
    /// Weights that share a scale and an offset: a block, or half of one.
    group: usize,
    /// Blocks that share them where they are stored.
    repeats: usize,
    /// Of four rows in turn [rows / 4, groups of a row, 4].
    scales: Vec<[f32; 4]>,
    /// As many; none where no weight has one.
    offsets: Option<Vec<[f32; 4]>>,
}

impl Matrix {
    /// One of no rows yet.
    pub fn new(cols: usize) -> Self {
        Self { cols, rows: 0, pieces: Vec::new() }
    }

    /// Makes room for rows of a type behind those that have some, so that no more is taken than they need.
    ///
    /// # Errors
    /// Where there is not so much memory.
    pub fn reserve(&mut self, dtype: Dtype, rows: usize) -> Result<(), TryReserveError> {
        let width = stride(self.cols);
        let weights = rows.saturating_mul(width);
        let last = self.pieces.len().saturating_sub(1);
        match &mut self.piece(last, dtype).stored {
            Stored::Floats(floats) => floats.reserve(weights),
            Stored::Quantised(Quantised { codes, has_nibbles, scales, group, .. }) => {
                codes.try_reserve_exact(if *has_nibbles { weights / 2 } else { weights })?;
                scales.try_reserve_exact(rows.div_ceil(4) * (width / *group))
            }
        }
    }

    /// Appends rows, given as the bytes of a type.
    ///
    /// # Errors
    /// Where there is not so much memory.
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
            Stored::Floats(floats) => widen(dtype, bytes).chunks_exact(cols).for_each(|row| floats.push(row)),
            Stored::Quantised(quantised) => quantised.push(coded(dtype, bytes), piece.rows.len(), cols)?,
        }
        piece.rows.end += rows;
        self.rows += rows;
        Ok(())
    }

    /// The next piece of this type from `first` on, or a new one of no rows.
    fn piece(&mut self, first: usize, dtype: Dtype) -> &mut Piece {
        let mut pieces = first..self.pieces.len();
        let at = pieces.find(|at| self.pieces[*at].dtype == dtype).unwrap_or_else(|| {
            self.pieces.push(Piece { rows: 0..0, dtype, stored: Stored::new(dtype) });
            self.pieces.len() - 1
        });
        &mut self.pieces[at]
    }

    /// Bytes in memory.
    pub fn bytes(&self) -> u64 {
        let of = |piece: &Piece| match &piece.stored {
            Stored::Floats(floats) => floats.bytes(),
            Stored::Quantised(Quantised { codes, scales, offsets, .. }) => {
                codes.len() + 16 * (scales.len() + offsets.as_ref().map_or(0, Vec::len))
            }
        };
        self.pieces.iter().map(of).sum::<usize>() as u64
    }

    /// A row, as f32.
    pub fn row(&self, row: usize) -> Vec<f32> {
        let Some(piece) = self.pieces.iter().find(|piece| piece.rows.contains(&row)) else { return Vec::new() };
        let mut values = vec![0.0; stride(self.cols)];
        piece.stored.widen(row - piece.rows.start, self.cols, &mut values);
        values.truncate(self.cols);
        values
    }

    /// `x W^T`, for x [rows, cols]: [rows, outs]. A product depends on its two rows alone.
    pub fn times(&self, x: &Rows, arithmetic: Arithmetic) -> Rows {
        let count = x.len();
        let fours = (PORTION / (4 * self.cols * count).max(1)).clamp(1, 64);
        let (mut panels, mut coded) = (None, None);
        let mut y = Rows::new(count, self.rows);
        for Piece { rows, stored, .. } in &self.pieces {
            // Four outputs of each row, so that threads write apart from each other.
            let mut products = vec![[0f32; 4]; rows.len().div_ceil(4) * count];
            match stored {
                Stored::Quantised(quantised) if arithmetic == Arithmetic::Int8 => {
                    let coded = coded.get_or_insert_with(|| Coded::new(x));
                    for_each_part(&mut products, fours * count, |part, products| {
                        integers::products(|four| quantised.four(part * fours + four, self.cols), coded, products);
                    });
                }
                Stored::Quantised(weights) => {
                    let x = panels.get_or_insert_with(|| Panels::new(x));
                    for_each_part(&mut products, fours * count, |part, products| {
                        let first = 4 * fours * part;
                        arch().dispatch(Widened { weights, cols: self.cols, first, rows: rows.len(), x, products });
                    });
                }
                // The reader has looked at all of them.
                Stored::Floats(floats) => {
                    let x = panels.get_or_insert_with(|| Panels::new(x));
                    for_each_part(&mut products, fours * count, |part, products| {
                        floats.multiply(4 * fours * part, x, products, false);
                    });
                }
            }
            for row in 0..count {
                let fours = products.iter().skip(row).step_by(count);
                for (y, four) in y.row_mut(row)[rows.clone()].chunks_mut(4).zip(fours) {
                    match y.as_chunks_mut() {
                        ([y], _) => *y = *four,
                        (_, y) => y.copy_from_slice(&four[..y.len()]),
                    }
                }
            }
        }
        y
    }
}

/// The products of some rows of weights with all rows of x [outs / 4, rows, 4], in f32.
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

impl Stored {
    fn new(dtype: Dtype) -> Self {
        let float = match dtype {
            Dtype::F32 => Float::F32,
            Dtype::F16 => Float::F16,
            Dtype::Bf16 => Float::Bf16,
            _ => return Self::Quantised(Quantised::new(dtype)),
        };
        Self::Floats(Floats::new(float))
    }

    /// A row, as f32, with the zeros behind it.
    #[inline(always)]
    fn widen(&self, row: usize, cols: usize, to: &mut [f32]) {
        match self {
            // The reader has looked at all of them.
            Self::Floats(floats) => floats.widen(row, to, false),
            Self::Quantised(quantised) => quantised.widen(row, &mut to[..cols]),
        }
    }
}

impl Quantised {
    fn new(dtype: Dtype) -> Self {
        let has_nibbles = matches!(Format::of(dtype), Format::Quantised { codes: weights::Codes::Four, .. });
        let group = dtype.group().min(BLOCK);
        Self { has_nibbles, center: dtype.center(), group, repeats: dtype.group() / group, ..Self::default() }
    }

    /// Appends rows behind so many.
    ///
    /// # Errors
    /// Where there is not so much memory.
    fn push(&mut self, coded: weights::Coded, rows: usize, cols: usize) -> Result<(), TryReserveError> {
        let weights::Coded { codes, scales, offsets } = coded;
        let (groups, fours) = (cols / self.group, (rows + codes.len() / cols).div_ceil(4));
        if self.has_nibbles {
            for block in codes.as_chunks::<BLOCK>().0 {
                let (low, high) = block.split_at(BLOCK / 2);
                self.codes.extend(low.iter().zip(high).map(|(low, high)| low | high << 4));
            }
        } else {
            self.codes.extend(codes);
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

    /// Four rows of blocks; the last one again where there are fewer.
    #[inline(always)]
    fn four(&self, four: usize, cols: usize) -> integers::Weights<'_> {
        let bytes = if self.has_nibbles { cols / 2 } else { cols };
        let last = self.codes.len() / bytes - 1;
        let row = |i: usize| &self.codes[(4 * four + i).min(last) * bytes..][..bytes];
        let [a, b, c, d] = [row(0), row(1), row(2), row(3)];
        let codes = match self.has_nibbles {
            true => Codes::Nibbles([a.as_chunks().0, b.as_chunks().0, c.as_chunks().0, d.as_chunks().0]),
            false => Codes::Bytes([a.as_chunks().0, b.as_chunks().0, c.as_chunks().0, d.as_chunks().0]),
        };
        let groups = cols / self.group;
        let groups = four * groups..(four + 1) * groups;
        integers::Weights {
            codes,
            center: self.center,
            scales: &self.scales[groups.clone()],
            offsets: self.offsets.as_ref().map(|offsets| &offsets[groups]),
        }
    }

    /// A row, as f32.
    #[inline(always)]
    fn widen(&self, row: usize, to: &mut [f32]) {
        let groups = to.len() / self.group;
        let scales = &self.scales[row / 4 * groups..][..groups];
        let offsets = self.offsets.as_ref().map(|offsets| &offsets[row / 4 * groups..][..groups]);
        let of = |i: usize| {
            let group = 16 * i / self.group;
            (scales[group][row % 4], offsets.map_or(-0.0, |offsets| offsets[group][row % 4]))
        };
        let center = self.center.into();
        let put = |i: usize, codes: &[u8; 16], to: &mut [f32]| {
            let (scale, offset) = of(i);
            widen_codes(codes, center, scale, offset, to);
        };
        let bytes = if self.has_nibbles { to.len() / 2 } else { to.len() };
        let (codes, _) = self.codes[row * bytes..][..bytes].as_chunks::<16>();
        if !self.has_nibbles {
            codes.iter().zip(to.chunks_exact_mut(16)).enumerate().for_each(|(i, (codes, to))| put(i, codes, to));
            return;
        }
        for (i, (codes, to)) in codes.iter().zip(to.chunks_exact_mut(BLOCK)).enumerate() {
            let (low, high) = to.split_at_mut(BLOCK / 2);
            put(2 * i, &codes.map(|code| code & 15), low);
            put(2 * i + 1, &codes.map(|code| code >> 4), high);
        }
    }
}

/// Rows are whole groups of lanes, which are whole blocks.
const _: () = assert!(LANES == BLOCK);
