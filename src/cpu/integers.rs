//! Sums of products of 8-bit codes, by the integer instructions that the processor has. They are exact, so all processors give the
//! same sums; what they are multiplied with is rounded in one order, however many rows there are. What is inlined has no closures:
//! they are functions of their own, compiled for any processor.

use super::rows::Rows;
use super::simd::{arch, mul_add};
use pulp::{Arch, Simd, WithSimd};

/// Activations that share a scale.
pub const BLOCK: usize = 32;

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

/// What a processor does with blocks.
trait Integers: Copy {
    /// 32 weights.
    type Weights: Copy;
    /// Integer sums side by side.
    type Sums: Copy;
    /// Their multiples, added up.
    type Total: Copy;

    /// `code - center`.
    fn nibbles(self, codes: &[u8; BLOCK / 2], center: u8) -> Self::Weights;
    /// `code - center`.
    fn bytes(self, codes: &[u8; BLOCK], center: u8) -> Self::Weights;
    /// The products with the first and with the last 16 activations.
    fn dot(self, weights: Self::Weights, codes: &[i16; BLOCK]) -> [Self::Sums; 2];
    fn sum(self, sums: [Self::Sums; 2]) -> Self::Sums;
    /// A factor of such multiples.
    fn splat(self, factor: f32) -> Self::Total;
    /// `total + sums * (scale * factor)`.
    fn add(self, total: Self::Total, sums: Self::Sums, scale: Self::Total, factor: f32) -> Self::Total;
    fn total(self, total: Self::Total) -> f32;
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

/// Without vectors, or with those that the compiler finds.
#[derive(Clone, Copy)]
struct Plain;

impl Integers for Plain {
    type Weights = [i16; BLOCK];
    type Sums = [i32; 8];
    type Total = [f32; 8];

    #[inline(always)]
    fn nibbles(self, codes: &[u8; BLOCK / 2], center: u8) -> Self::Weights {
        std::array::from_fn(|i| i16::from(codes[i % 16] >> (4 * (i / 16)) & 15) - i16::from(center))
    }

    #[inline(always)]
    fn bytes(self, codes: &[u8; BLOCK], center: u8) -> Self::Weights {
        codes.map(|code| i16::from(code) - i16::from(center))
    }

    #[inline(always)]
    fn dot(self, weights: Self::Weights, codes: &[i16; BLOCK]) -> [Self::Sums; 2] {
        let product = |i: usize| i32::from(weights[i]) * i32::from(codes[i]);
        [0, 16].map(|from| std::array::from_fn(|i| product(from + 2 * i) + product(from + 2 * i + 1)))
    }

    #[inline(always)]
    fn sum(self, [a, b]: [Self::Sums; 2]) -> Self::Sums {
        std::array::from_fn(|i| a[i] + b[i])
    }

    #[inline(always)]
    fn splat(self, factor: f32) -> Self::Total {
        [factor; 8]
    }

    #[inline(always)]
    fn add(self, mut total: Self::Total, sums: Self::Sums, scale: Self::Total, factor: f32) -> Self::Total {
        for i in 0..8 {
            total[i] += sums[i] as f32 * (scale[i] * factor);
        }
        total
    }

    #[inline(always)]
    fn total(self, total: Self::Total) -> f32 {
        total.iter().sum()
    }
}

#[cfg(target_arch = "x86_64")]
mod avx2 {
    use super::{BLOCK, Integers};
    use bytemuck::cast;
    use pulp::x86::V3;
    use std::arch::x86_64::{__m128i, __m256, __m256i};

    impl Integers for V3 {
        type Weights = [__m256i; 2];
        type Sums = __m256i;
        type Total = __m256;

        #[inline(always)]
        fn nibbles(self, codes: &[u8; BLOCK / 2], center: u8) -> Self::Weights {
            let both: __m128i = cast(*codes);
            let (mask, center) = (cast([15u8; 16]), cast([center; 16]));
            let low = self.sse2._mm_and_si128(both, mask);
            let high = self.sse2._mm_and_si128(self.sse2._mm_srli_epi16::<4>(both), mask);
            [
                self.avx2._mm256_cvtepi8_epi16(self.sse2._mm_sub_epi8(low, center)),
                self.avx2._mm256_cvtepi8_epi16(self.sse2._mm_sub_epi8(high, center)),
            ]
        }

        #[inline(always)]
        fn bytes(self, codes: &[u8; BLOCK], center: u8) -> Self::Weights {
            let [low, high]: [__m128i; 2] = cast(*codes);
            let center = cast([u16::from(center); 16]);
            [
                self.avx2._mm256_sub_epi16(self.avx2._mm256_cvtepu8_epi16(low), center),
                self.avx2._mm256_sub_epi16(self.avx2._mm256_cvtepu8_epi16(high), center),
            ]
        }

        #[inline(always)]
        fn dot(self, weights: Self::Weights, codes: &[i16; BLOCK]) -> [Self::Sums; 2] {
            let [low, high]: [__m256i; 2] = cast(*codes);
            [self.avx2._mm256_madd_epi16(weights[0], low), self.avx2._mm256_madd_epi16(weights[1], high)]
        }

        #[inline(always)]
        fn sum(self, [a, b]: [Self::Sums; 2]) -> Self::Sums {
            self.avx2._mm256_add_epi32(a, b)
        }

        #[inline(always)]
        fn splat(self, factor: f32) -> Self::Total {
            self.avx._mm256_set1_ps(factor)
        }

        #[inline(always)]
        fn add(self, total: Self::Total, sums: Self::Sums, scale: Self::Total, factor: f32) -> Self::Total {
            let by = self.avx._mm256_mul_ps(scale, self.avx._mm256_set1_ps(factor));
            self.fma._mm256_fmadd_ps(self.avx._mm256_cvtepi32_ps(sums), by, total)
        }

        #[inline(always)]
        fn total(self, total: Self::Total) -> f32 {
            let sums: [f32; 8] = cast(total);
            sums.iter().sum()
        }
    }
}

#[cfg(target_arch = "wasm32")]
mod simd128 {
    use super::{BLOCK, Integers};
    use bytemuck::cast;
    use pulp::wasm::Simd128;
    use std::arch::wasm32::v128;

    impl Integers for Simd128 {
        type Weights = [v128; 4];
        type Sums = v128;
        type Total = v128;

        #[inline(always)]
        fn nibbles(self, codes: &[u8; BLOCK / 2], center: u8) -> Self::Weights {
            let simd = self.simd128;
            let (both, center) = (cast(*codes), simd.u8x16_splat(center));
            let low = simd.i8x16_sub(simd.v128_and(both, cast([15u8; 16])), center);
            let high = simd.i8x16_sub(simd.u8x16_shr(both, 4), center);
            [
                simd.i16x8_extend_low_i8x16(low),
                simd.i16x8_extend_high_i8x16(low),
                simd.i16x8_extend_low_i8x16(high),
                simd.i16x8_extend_high_i8x16(high),
            ]
        }

        #[inline(always)]
        fn bytes(self, codes: &[u8; BLOCK], center: u8) -> Self::Weights {
            let simd = self.simd128;
            let [low, high]: [v128; 2] = cast(*codes);
            let center = simd.u16x8_splat(center.into());
            [
                simd.i16x8_sub(simd.i16x8_extend_low_u8x16(low), center),
                simd.i16x8_sub(simd.i16x8_extend_high_u8x16(low), center),
                simd.i16x8_sub(simd.i16x8_extend_low_u8x16(high), center),
                simd.i16x8_sub(simd.i16x8_extend_high_u8x16(high), center),
            ]
        }

        #[inline(always)]
        fn dot(self, weights: Self::Weights, codes: &[i16; BLOCK]) -> [Self::Sums; 2] {
            let simd = self.simd128;
            let codes: [v128; 4] = cast(*codes);
            let first = simd.i32x4_dot_i16x8(weights[0], codes[0]);
            let second = simd.i32x4_dot_i16x8(weights[1], codes[1]);
            let third = simd.i32x4_dot_i16x8(weights[2], codes[2]);
            let fourth = simd.i32x4_dot_i16x8(weights[3], codes[3]);
            [simd.i32x4_add(first, second), simd.i32x4_add(third, fourth)]
        }

        #[inline(always)]
        fn sum(self, [a, b]: [Self::Sums; 2]) -> Self::Sums {
            self.simd128.i32x4_add(a, b)
        }

        #[inline(always)]
        fn splat(self, factor: f32) -> Self::Total {
            self.simd128.f32x4_splat(factor)
        }

        #[inline(always)]
        fn add(self, total: Self::Total, sums: Self::Sums, scale: Self::Total, factor: f32) -> Self::Total {
            let simd = self.simd128;
            let by = simd.f32x4_mul(scale, simd.f32x4_splat(factor));
            simd.f32x4_add(total, simd.f32x4_mul(simd.f32x4_convert_i32x4(sums), by))
        }

        #[inline(always)]
        fn total(self, total: Self::Total) -> f32 {
            let sums: [f32; 4] = cast(total);
            sums.iter().sum()
        }
    }
}
