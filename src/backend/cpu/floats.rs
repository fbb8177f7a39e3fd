//! Weights, keys and values stored as floats of any type, and their products with rows of activations.

use super::rows::{Panels, stride};
#[cfg(target_arch = "wasm32")]
use super::simd::Halves;
use super::simd::{Singles, StoredRow, arch, dots, widen_bf16, widen_f16};
use crate::weights::Float;
use half::{bf16, f16};
use pulp::{Simd, WithSimd};
use std::collections::TryReserveError;

/// Most rows of activations that are multiplied with f16 as stored. For more, weights are widened to f32 once. With fused
/// multiply-add, that pays only if widening also handles numbers that are not finite.
#[cfg(target_arch = "wasm32")]
const FEW: usize = 3;

/// Rows of floats as stored, each padded with zeros.
#[derive(Debug, Clone)]
pub(super) enum Floats {
    F32(Vec<f32>),
    F16(Vec<f16>),
    Bf16(Vec<bf16>),
}

/// Computes an expression for numbers of any type.
macro_rules! each {
    ($floats:expr, $all:ident => $value:expr) => {
        match $floats {
            Floats::F32($all) => $value,
            Floats::F16($all) => $value,
            Floats::Bf16($all) => $value,
        }
    };
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
        each!(self, all => size_of_val(&all[..]))
    }

    /// Makes room for `numbers` more numbers.
    pub fn reserve(&mut self, numbers: usize) -> Result<(), TryReserveError> {
        each!(self, all => all.try_reserve_exact(numbers))
    }

    /// Appends a row, rounded and padded with zeros to its stride.
    pub fn push(&mut self, row: &[f32]) {
        let padded = row.iter().copied().chain(std::iter::repeat_n(0.0, stride(row.len()) - row.len()));
        match self {
            Self::F32(all) => all.extend(padded),
            Self::F16(all) => all.extend(padded.map(f16::from_f32)),
            Self::Bf16(all) => all.extend(padded.map(bf16::from_f32)),
        }
    }

    /// Returns all bytes.
    pub fn as_bytes(&self) -> &[u8] {
        each!(self, all => bytemuck::cast_slice(all))
    }

    /// Replaces all bytes. Returns false if the last number is incomplete.
    pub fn set_bytes(&mut self, bytes: &[u8]) -> bool {
        fn read_numbers<T: bytemuck::AnyBitPattern>(bytes: &[u8], into: &mut Vec<T>) -> bool {
            *into = bytes.chunks_exact(size_of::<T>()).map(bytemuck::pod_read_unaligned).collect();
            bytes.len().is_multiple_of(size_of::<T>())
        }
        each!(self, all => read_numbers(bytes, all))
    }

    /// Returns true if this is `rows` rows of `width` numbers.
    pub fn is_of(&self, rows: usize, width: usize) -> bool {
        self.len() == rows * stride(width)
    }

    /// Keeps the first `rows` rows of `width` numbers.
    pub fn truncate(&mut self, rows: usize, width: usize) {
        each!(self, all => all.truncate(rows * stride(width)));
    }

    /// Widens a row and its padding to f32. Unless `all`, every number must be finite.
    #[inline(always)]
    pub fn widen(&self, row: usize, to: &mut [f32], all: bool) {
        let range = row * to.len()..(row + 1) * to.len();
        match self {
            Self::F32(numbers) => to.copy_from_slice(&numbers[range]),
            Self::F16(numbers) => widen_f16(&numbers[range], to, all),
            Self::Bf16(numbers) => widen_bf16(&numbers[range], to),
        }
    }

    /// Multiplies rows from `first` on with all of x: [outs / 4, rows, 4]. Outputs past the last row repeat it.
    pub fn multiply(&self, first: usize, x: &Panels<'_>, products: &mut [[f32; 4]], all: bool) {
        arch().dispatch(FloatProducts { floats: self, first, x, products, all });
    }

    fn len(&self) -> usize {
        each!(self, all => all.len())
    }
}

struct FloatProducts<'a> {
    floats: &'a Floats,
    first: usize,
    x: &'a Panels<'a>,
    products: &'a mut [[f32; 4]],
    all: bool,
}

impl WithSimd for FloatProducts<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { floats, first, x, products, all } = self;
        let width = x.padded_width();
        let last = floats.len() / width - 1;
        let mut four = vec![0.0; 4 * width];
        for (at, products) in products.chunks_exact_mut(x.len()).enumerate() {
            let rows = [0, 1, 2, 3].map(|i| (first + 4 * at + i).min(last));
            match floats {
                Floats::F32(of) => {
                    multiply_rows(simd, rows.map(|row| Singles::new(&of[row * width..][..width])), x, products);
                }
                #[cfg(target_arch = "wasm32")]
                Floats::F16(of) if all && x.len() <= FEW => {
                    let w = rows.map(|row| Halves::<true>::new(&of[row * width..][..width]));
                    multiply_rows(simd, w, x, products);
                }
                #[cfg(target_arch = "wasm32")]
                Floats::F16(of) if !all && (cfg!(target_feature = "relaxed-simd") || x.len() <= FEW) => {
                    let w = rows.map(|row| Halves::<false>::new(&of[row * width..][..width]));
                    multiply_rows(simd, w, x, products);
                }
                _ => {
                    for (row, to) in rows.into_iter().zip(four.chunks_exact_mut(width)) {
                        floats.widen(row, to, all);
                    }
                    multiply_four(simd, &four, x, products);
                }
            }
        }
    }
}

/// Computes products [rows, 4] of four outputs, whose weights are [4, width].
#[inline(always)]
pub fn multiply_four<S: Simd>(simd: S, four: &[f32], x: &Panels<'_>, products: &mut [[f32; 4]]) {
    let width = four.len() / 4;
    let (first, last) = four.split_at(2 * width);
    let ((a, b), (c, d)) = (first.split_at(width), last.split_at(width));
    multiply_rows(simd, [Singles::new(a), Singles::new(b), Singles::new(c), Singles::new(d)], x, products);
}

/// Computes products [rows, 4] of four outputs, up to eight at a time, so that each number read is used several times. Inlined where a
/// function would be compiled for any processor.
#[cfg_attr(not(target_arch = "wasm32"), inline(always))]
#[cfg_attr(target_arch = "wasm32", inline(never))]
fn multiply_rows<S: Simd, R: StoredRow<S>>(simd: S, w: [R; 4], x: &Panels<'_>, products: &mut [[f32; 4]]) {
    let [a, b, c, d] = w;
    let mut row = 0;
    while row + 4 <= x.len() {
        let panel = x.panel::<S, 4>(row);
        let ([a, b], [c, d]) = (dots(simd, [a, b], panel), dots(simd, [c, d], panel));
        put([a, b, c, d], &mut products[row..]);
        row += 4;
    }
    if row + 2 <= x.len() {
        put(dots(simd, w, x.panel::<S, 2>(row)), &mut products[row..]);
        row += 2;
    }
    if row < x.len() {
        put(dots(simd, w, x.panel::<S, 1>(row)), &mut products[row..]);
    }
}

/// Stores the products of N rows.
#[inline(always)]
fn put<const N: usize>([a, b, c, d]: [[f32; N]; 4], products: &mut [[f32; 4]]) {
    for (i, products) in products[..N].iter_mut().enumerate() {
        *products = [a[i], b[i], c[i], d[i]];
    }
}
