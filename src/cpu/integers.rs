//! Sums of products of 8-bit codes, by the integer instructions that the processor has. They are exact, so all processors give the
//! same sums; what they are multiplied with is rounded in one order, however many rows there are. What is inlined has no closures:
//! they are functions of their own, compiled for any processor.

use super::instructions::{BLOCK, Integers, Plain};
use super::rows::Rows;
use super::simd::{arch, mul_add};
use pulp::{Arch, Simd, WithSimd};

/// Activations in 8 bits [rows, width]: each is about `scale * code`, with a scale for each block.
pub struct Coded {
    /// Blocks of a row.
    blocks: usize,
    codes: Vec<[i16; BLOCK]>,
    /// [rows, blocks].
    scales: Vec<f32>,
    /// Sums of the blocks [rows, blocks].
    sums: Vec<f32>,
    /// Of the first and of the last 16 of each [rows, blocks, 2].
    halves: Vec<f32>,
}

impl Coded {
    /// Rounds the activations: the largest one of a block becomes 127 or -127.
    pub fn new(x: &Rows) -> Self {
        arch().dispatch(Round(x))
    }

    /// How many rows.
    pub fn len(&self) -> usize {
        self.scales.len() / self.blocks.max(1)
    }

    #[inline(always)]
    fn row(&self, row: usize) -> Row<'_> {
        let range = row * self.blocks..(row + 1) * self.blocks;
        Row {
            codes: &self.codes[range.clone()],
            scales: &self.scales[range.clone()],
            sums: &self.sums[range.clone()],
            halves: &self.halves[2 * range.start..2 * range.end],
        }
    }
}

struct Round<'a>(&'a Rows);

impl WithSimd for Round<'_> {
    type Output = Coded;

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) -> Coded {
        /// What is smaller is nothing.
        const LEAST: f32 = 1e-30;
        let Self(x) = self;
        let blocks = x.padded_width() / BLOCK;
        let count = x.len() * blocks;
        let mut coded = Coded {
            blocks,
            codes: Vec::with_capacity(count),
            scales: Vec::with_capacity(count),
            sums: Vec::with_capacity(count),
            halves: Vec::with_capacity(2 * count),
        };
        for row in 0..x.len() {
            for block in x.padded(row).as_chunks::<BLOCK>().0 {
                // As bits a NaN is the largest, so that the scale becomes one, and the logits.
                let mut most = 0;
                for x in block {
                    most = most.max(x.to_bits() & 0x7fff_ffff);
                }
                let most = f32::from_bits(most);
                let (scale, factor) = (most / 127.0, if most >= LEAST { 127.0 / most } else { 0.0 });
                let (mut codes, mut halves) = ([0i16; BLOCK], [0i16; 2]);
                for i in 0..BLOCK {
                    codes[i] = (block[i] * factor).round_ties_even() as i16;
                    halves[i / (BLOCK / 2)] += codes[i];
                }
                coded.codes.push(codes);
                coded.scales.push(scale);
                coded.sums.push(scale * f32::from(halves[0] + halves[1]));
                coded.halves.push(scale * f32::from(halves[0]));
                coded.halves.push(scale * f32::from(halves[1]));
            }
        }
        coded
    }
}

#[derive(Clone, Copy)]
struct Row<'a> {
    codes: &'a [[i16; BLOCK]],
    scales: &'a [f32],
    sums: &'a [f32],
    halves: &'a [f32],
}

/// A row of weights, in blocks: each is `scale * (code - center) + offset`.
#[derive(Clone, Copy)]
pub struct Weights<'a> {
    /// Where two share a byte, the lower bits are of code i, the upper ones of code i + 16.
    pub codes: Codes<'a>,
    /// The code that stands for no more than the offset.
    pub center: u8,
    /// For each block or, twice as many, for each half of one.
    pub scales: &'a [f32],
    /// As many.
    pub offsets: Option<&'a [f32]>,
}

/// Codes of a row, in blocks.
#[derive(Clone, Copy)]
pub enum Codes<'a> {
    Nibbles(&'a [[u8; BLOCK / 2]]),
    Bytes(&'a [[u8; BLOCK]]),
}

/// The products of rows of weights with each row of activations [outs, rows].
pub fn products<'a>(weights: impl Fn(usize) -> Weights<'a>, x: &Coded, products: &mut [f32]) {
    match arch() {
        #[cfg(target_arch = "x86_64")]
        Arch::V3(simd) => simd.vectorize(Products { simd, weights, x, products }),
        #[cfg(target_arch = "x86_64")]
        Arch::V4(simd) => simd.vectorize(Products { simd: *simd, weights, x, products }),
        #[cfg(target_arch = "wasm32")]
        Arch::Simd128(simd) => Products { simd, weights, x, products }.compute(),
        _ => Products { simd: Plain, weights, x, products }.compute(),
    }
}

struct Products<'a, I, W> {
    simd: I,
    weights: W,
    x: &'a Coded,
    products: &'a mut [f32],
}

impl<'w, I: Integers, W: Fn(usize) -> Weights<'w>> pulp::NullaryFnOnce for Products<'_, I, W> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        self.compute();
    }
}

impl<'w, I: Integers, W: Fn(usize) -> Weights<'w>> Products<'_, I, W> {
    #[inline(always)]
    fn compute(self) {
        let Self { simd, weights, x, products } = self;
        for (out, products) in products.chunks_exact_mut(x.len()).enumerate() {
            // Each block of weights that is taken apart serves up to eight rows.
            let (weights, mut row) = (weights(out), 0);
            row = some::<I, 8>(simd, weights, x, row, products);
            row = some::<I, 4>(simd, weights, x, row, products);
            row = some::<I, 2>(simd, weights, x, row, products);
            some::<I, 1>(simd, weights, x, row, products);
        }
    }
}

/// The products with N rows at a time from one on, as long as there are so many. Returns the first that is left.
#[inline(always)]
fn some<I: Integers, const N: usize>(
    simd: I,
    weights: Weights<'_>,
    x: &Coded,
    mut from: usize,
    products: &mut [f32],
) -> usize {
    while from + N <= x.len() {
        let mut rows = [x.row(from); N];
        for (i, row) in rows.iter_mut().enumerate().skip(1) {
            *row = x.row(from + i);
        }
        products[from..from + N].copy_from_slice(&dots(simd, weights, rows));
        from += N;
    }
    from
}

#[inline(always)]
fn dots<I: Integers, const N: usize>(simd: I, weights: Weights<'_>, x: [Row<'_>; N]) -> [f32; N] {
    match weights.codes {
        Codes::Nibbles(codes) => dots_of(simd, weights, codes, x),
        Codes::Bytes(codes) => dots_of(simd, weights, codes, x),
    }
}

/// Codes of a block.
trait Block {
    fn widen<I: Integers>(&self, simd: I, center: u8) -> I::Weights;
}

impl Block for [u8; BLOCK / 2] {
    #[inline(always)]
    fn widen<I: Integers>(&self, simd: I, center: u8) -> I::Weights {
        simd.nibbles(self, center)
    }
}

impl Block for [u8; BLOCK] {
    #[inline(always)]
    fn widen<I: Integers>(&self, simd: I, center: u8) -> I::Weights {
        simd.bytes(self, center)
    }
}

#[inline(always)]
fn dots_of<I: Integers, B: Block, const N: usize>(
    simd: I,
    weights: Weights<'_>,
    codes: &[B],
    mut x: [Row<'_>; N],
) -> [f32; N] {
    let Weights { center, scales, offsets, .. } = weights;
    // All as long as the codes, which need not be asked for each block then.
    let len = codes.len();
    for row in &mut x {
        row.codes = &row.codes[..len];
        row.scales = &row.scales[..len];
    }
    let mut totals = [simd.splat(0.0); N];
    if scales.len() == len {
        let scales = &scales[..len];
        for at in 0..len {
            let (block, scale) = (codes[at].widen(simd, center), simd.splat(scales[at]));
            for i in 0..N {
                let sums = simd.sum(simd.dot(block, &x[i].codes[at]));
                totals[i] = simd.add(totals[i], sums, scale, x[i].scales[at]);
            }
        }
    } else {
        let scales = &scales.as_chunks::<2>().0[..len];
        for at in 0..len {
            let block = codes[at].widen(simd, center);
            let (first, last) = (simd.splat(scales[at][0]), simd.splat(scales[at][1]));
            for i in 0..N {
                let sums = simd.dot(block, &x[i].codes[at]);
                totals[i] = simd.add(totals[i], sums[0], first, x[i].scales[at]);
                totals[i] = simd.add(totals[i], sums[1], last, x[i].scales[at]);
            }
        }
    }
    let mut products = [0f32; N];
    for i in 0..N {
        products[i] = simd.total(totals[i]);
        if let Some(offsets) = offsets {
            products[i] += dot(offsets, if offsets.len() == len { x[i].sums } else { x[i].halves });
        }
    }
    products
}

/// Eight sums that take turns, added up at the end.
#[inline(always)]
fn dot(a: &[f32], b: &[f32]) -> f32 {
    let mut sums = [0f32; 8];
    let (a, a_rest) = a.as_chunks::<8>();
    let (b, b_rest) = b.as_chunks::<8>();
    for (a, b) in a.iter().zip(b) {
        for i in 0..8 {
            sums[i] = mul_add(a[i], b[i], sums[i]);
        }
    }
    for (i, (a, b)) in a_rest.iter().zip(b_rest).enumerate() {
        sums[i] = mul_add(*a, *b, sums[i]);
    }
    sums.iter().sum()
}
