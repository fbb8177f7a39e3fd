//! Matrices in the CPU's memory, and their products with rows of activations.

use super::codes::{CacheLine, CodeLayout};
use super::floats::{Floats, multiply_four};
use super::instructions::{BLOCK, Integers, PLAIN};
use super::integers::{self, Coded, IntegerRows, IntegerWeights};
use super::parts::{for_each_part, threads};
use super::rows::{Panels, Rows, stride};
use super::scales::StoredScales;
use super::simd::{LANES, arch, widen_codes};
use crate::options::Arithmetic;
use crate::weights::{self, Dtype, Float, Format, coded, widen};
use pulp::{Simd, WithSimd};
use std::collections::TryReserveError;
use std::ops::Range;

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
struct Quantised {
    /// [rows / 4, blocks of a row, words of the layout]
    codes: Vec<CacheLine>,
    layout: CodeLayout,
    center: u8,
    /// Weights that share a scale and an offset: a block or half a block.
    group: usize,
    scales: StoredScales,
    /// Offsets, as many as scales; `None`: all zero.
    offsets: Option<StoredScales>,
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
            StoredRows::Quantised(Quantised { codes, layout, scales, offsets, group, .. }) => {
                codes.try_reserve_exact(fours.saturating_mul(width / BLOCK * layout.words()).div_ceil(8))?;
                scales.reserve(fours, width / *group)?;
                offsets.iter_mut().try_for_each(|offsets| offsets.reserve(fours, width / *group))
            }
        }
    }

    /// Appends rows, given as bytes of `dtype`.
    pub fn push(&mut self, dtype: Dtype, bytes: &[u8]) {
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
            StoredRows::Quantised(quantised) => quantised.push(&coded(dtype, bytes), piece.rows.len(), cols),
        }
        piece.rows.end += rows;
        self.rows += rows;
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
                size_of_val(&codes[..]) + scales.bytes() + offsets.iter().map(StoredScales::bytes).sum::<usize>()
            }
        };
        self.pieces.iter().map(of).sum::<usize>() as u64
    }

    /// Returns a row as f32.
    pub fn row(&self, row: usize) -> Vec<f32> {
        let Some(piece) = self.pieces.iter().find(|piece| piece.rows.contains(&row)) else { return Vec::new() };
        let (width, row) = (stride(self.cols), row - piece.rows.start);
        let mut values = match &piece.stored {
            StoredRows::Floats(floats) => {
                let mut values = vec![0.0; width];
                // The reader checked that all are finite.
                floats.widen(row, &mut values, false);
                values
            }
            StoredRows::Quantised(quantised) => {
                let mut four = vec![0.0; 4 * width];
                quantised.widen(row / 4, &mut four, self.cols, &mut Default::default());
                four[row % 4 * width..][..width].to_vec()
            }
        };
        values.truncate(self.cols);
        values
    }

    /// Returns `x W^T` for x [rows, cols]: [rows, outs]. A product depends on its two rows alone.
    pub fn times(&self, x: &Rows, arithmetic: Arithmetic) -> Rows {
        let count = x.len();
        // Eight parts for each thread are enough: each allocates.
        let fours = (PORTION / (4 * self.cols * count).max(1)).max(self.rows / 32 / threads()).clamp(1, 64);
        let (mut panels, mut coded) = (None, None);
        let mut y = Rows::new(count, self.rows);
        for RowGroup { rows, stored, .. } in &self.pieces {
            // Four outputs of each row, so that threads write to separate memory.
            let mut products = vec![[0f32; 4]; rows.len().div_ceil(4) * count];
            match stored {
                StoredRows::Quantised(quantised) if arithmetic == Arithmetic::Int8 => {
                    let coded = coded.get_or_insert_with(|| Coded::new(x));
                    for_each_part(&mut products, fours * count, |part, products| {
                        let rows = PartOfRows { quantised, cols: self.cols, first: part * fours };
                        integers::products(&rows, coded, products);
                    });
                }
                StoredRows::Quantised(weights) => {
                    let x = panels.get_or_insert_with(|| Panels::new(x));
                    for_each_part(&mut products, fours * count, |part, products| {
                        let weights = PartOfRows { quantised: weights, cols: self.cols, first: part * fours };
                        arch().dispatch(Widened { weights, x, products });
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
    weights: PartOfRows<'a>,
    x: &'a Panels<'a>,
    products: &'a mut [[f32; 4]],
}

impl WithSimd for Widened<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { weights: PartOfRows { quantised, cols, first }, x, products } = self;
        let mut four = vec![0.0; 4 * stride(cols)];
        let mut expanded = Default::default();
        for (at, products) in products.chunks_exact_mut(x.len()).enumerate() {
            quantised.widen(first + at, &mut four, cols, &mut expanded);
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
}

impl Quantised {
    fn new(dtype: Dtype) -> Self {
        use weights::Codes::{Five, Four, One, Six, Two};
        let (group, center) = (dtype.group().min(BLOCK), dtype.center());
        let layout = match Format::of_dtype(dtype) {
            Format::Quantised { codes: One | Two | Four, .. } => CodeLayout::Four,
            Format::Quantised { codes: Five, .. } => CodeLayout::Five,
            Format::Quantised { codes: Six, .. } => CodeLayout::Six,
            _ => CodeLayout::Eight,
        };
        let scales = || StoredScales::new(dtype.groups_per_block() > 1, dtype.block().elements / group);
        let offsets = dtype.has_offsets().then(scales);
        Self { codes: Vec::new(), layout, center, group, scales: scales(), offsets }
    }

    /// Returns the codes of four rows.
    #[inline(always)]
    fn codes(&self, four: usize, cols: usize) -> &[u64] {
        let words = cols / BLOCK * self.layout.words();
        &bytemuck::cast_slice::<_, u64>(&self.codes)[four * words..][..words]
    }

    /// Appends rows to the `rows` existing ones.
    fn push(&mut self, coded: &weights::CodedBlock, rows: usize, cols: usize) {
        let weights::CodedBlock { codes, scales, offsets } = coded;
        let (blocks, groups, words) = (cols / BLOCK, cols / self.group, self.layout.words());
        self.codes.resize(((rows + codes.len() / cols).div_ceil(4) * blocks * words).div_ceil(8), CacheLine::default());
        let all = bytemuck::cast_slice_mut::<_, u64>(&mut self.codes);
        for (i, codes) in codes.as_chunks().0.iter().enumerate() {
            let row = rows + i / blocks;
            let block = &mut all[(row / 4 * blocks + i % blocks) * words..][..words];
            self.layout.pack(codes, row % 4, block);
        }
        self.scales.push(scales, rows, groups);
        self.offsets.iter_mut().for_each(|all| all.push(offsets, rows, groups));
    }

    /// Widens four rows to f32, each padded to whole blocks.
    #[inline(always)]
    fn widen(&self, four: usize, to: &mut [f32], cols: usize, expanded: &mut [Vec<[f32; 4]>; 2]) {
        let [scales, offsets] = expanded;
        let (groups, width, codes) = (cols / self.group, to.len() / 4, self.codes(four, cols));
        let (center, halves) = (f32::from(self.center), usize::from(self.group == BLOCK));
        let scales = self.scales.expand(PLAIN, four, groups, scales);
        let offsets = if let Some(all) = &self.offsets { all.expand(PLAIN, four, groups, offsets) } else { &[] };
        let (to, signs) = (to.as_chunks_mut::<16>().0, self.layout.signs());
        for at in 0..cols / BLOCK {
            let codes = self.layout.unpack(codes, at);
            for half in 0..2 {
                let (at, [first, last]) = (2 * at + half, [codes[2 * half], codes[2 * half + 1]]);
                let group = at >> halves;
                for row in 0..4 {
                    let sixteen = [(first[row] ^ signs).to_le(), (last[row] ^ signs).to_le()];
                    // Adding -0 changes nothing.
                    let offset = if let Some(four) = offsets.get(group) { four[row] } else { -0.0 };
                    let to = &mut to[row * width / 16 + at];
                    widen_codes(bytemuck::cast(sixteen), center, scales[group][row], offset, to);
                }
            }
        }
    }
}

/// Some rows of a matrix, from the `first`-th four on.
struct PartOfRows<'a> {
    quantised: &'a Quantised,
    cols: usize,
    first: usize,
}

impl IntegerRows for PartOfRows<'_> {
    #[inline(always)]
    fn four<'a, I: Integers>(
        &'a self,
        simd: I,
        four: usize,
        expanded: &'a mut [Vec<[f32; 4]>; 2],
    ) -> IntegerWeights<'a> {
        let Self { quantised, cols, first } = self;
        let ([scales, offsets], four, groups) = (expanded, first + four, cols / quantised.group);
        IntegerWeights {
            codes: quantised.codes(four, *cols),
            layout: quantised.layout,
            center: f32::from(quantised.center) - if quantised.layout == CodeLayout::Eight { 128.0 } else { 0.0 },
            scales: quantised.scales.expand(simd, four, groups, scales),
            offsets: if let Some(all) = &quantised.offsets {
                Some(all.expand(simd, four, groups, offsets))
            } else {
                None
            },
        }
    }
}

/// Padded rows are whole blocks.
const _: () = assert!(LANES == BLOCK);
