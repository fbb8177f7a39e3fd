//! Integer instructions: products of blocks of 8-bit codes, with four rows of weights in the lanes of a vector. Inlined code has no
//! closures: they would be separate functions, compiled for any processor.

#[cfg(all(target_arch = "wasm32", target_feature = "relaxed-simd"))]
mod dots;
#[cfg(target_arch = "wasm32")]
mod wasm;
#[cfg(target_arch = "x86_64")]
mod x86;

use super::simd::{mul_add, unroll};
use bytemuck::{Pod, Zeroable};
#[cfg(all(target_arch = "wasm32", target_feature = "relaxed-simd"))]
pub use dots::Dots;
#[cfg(target_arch = "wasm32")]
use wasm::sums;
#[cfg(target_arch = "wasm32")]
pub use wasm::{Wasm, WidenedPairs};

/// Activations that share a scale.
pub const BLOCK: usize = 32;

/// Block of activations in 8 bits, each approximately `scale * code`.
#[derive(Clone, Copy, Zeroable)]
#[repr(C)]
pub struct Activations {
    codes: CodeWords,
    scale: f32,
    /// Sums of `scale * code`: over all, the first 16, the last 16.
    sums: [f32; 3],
    /// Corrections for weights with a bias of 128: -128 × sum of codes, for the same parts.
    #[cfg(all(target_arch = "wasm32", target_feature = "relaxed-simd"))]
    excess: [i32; 3],
}

/// Words of eight 8-bit codes.
#[cfg(any(not(target_arch = "wasm32"), target_feature = "relaxed-simd"))]
type CodeWords = [i64; BLOCK / 8];
/// Words of four 16-bit codes, which need no widening: of each eight, those at even places come first.
#[cfg(all(target_arch = "wasm32", not(target_feature = "relaxed-simd")))]
type CodeWords = [i64; BLOCK / 4];

impl Activations {
    #[inline(always)]
    pub fn new(codes: [i16; BLOCK], scale: f32) -> Self {
        let halves = sums(&codes);
        let (first, last) = (halves[0] as f32, halves[1] as f32);
        let sums = [scale * (first + last), scale * first, scale * last];
        #[cfg(target_arch = "wasm32")]
        let codes = wasm::stored(codes);
        #[cfg(not(target_arch = "wasm32"))]
        let codes = {
            let mut narrow = [0i8; BLOCK];
            for i in 0..BLOCK {
                narrow[i] = codes[i] as i8;
            }
            bytemuck::cast(narrow)
        };
        Self {
            codes,
            scale,
            sums,
            #[cfg(all(target_arch = "wasm32", target_feature = "relaxed-simd"))]
            excess: [-128 * (halves[0] + halves[1]), -128 * halves[0], -128 * halves[1]],
        }
    }

    /// Returns the corrections of G parts, in the order of [`Activations::sums`].
    #[cfg(all(target_arch = "wasm32", target_feature = "relaxed-simd"))]
    #[inline(always)]
    fn excess<const G: usize>(&self) -> &[i32] {
        if G == 1 { &self.excess[..1] } else { &self.excess[1..] }
    }

    /// Returns the sums of G parts.
    #[inline(always)]
    fn sums<const G: usize>(&self) -> &[f32] {
        if G == 1 { &self.sums[..1] } else { &self.sums[1..] }
    }

    #[inline(always)]
    fn code(&self, at: usize) -> i16 {
        #[cfg(all(target_arch = "wasm32", not(target_feature = "relaxed-simd")))]
        return (self.codes[at / 8 * 2 + at % 2] >> (at % 8 / 2 * 16)) as i16;
        #[cfg(any(not(target_arch = "wasm32"), target_feature = "relaxed-simd"))]
        i16::from((self.codes[at / 8] >> (at % 8 * 8)) as i8)
    }
}

/// Returns the sums of the first 16 and of the last 16 codes.
#[cfg(not(target_arch = "wasm32"))]
#[inline(always)]
fn sums(codes: &[i16; BLOCK]) -> [i32; 2] {
    let mut halves = [0i16; 2];
    unroll!(i in 8 => { halves[0] += codes[2 * i] + codes[2 * i + 1]; });
    unroll!(i in 8 => { halves[1] += codes[16 + 2 * i] + codes[17 + 2 * i]; });
    halves.map(i32::from)
}

/// Words of a block of 4-bit weights, 32 of each of four rows. Word 4 i + row holds weights 16 i to 16 i + 15: eight in the lower halves of
/// its bytes, the next eight in the upper ones.
pub const NIBBLE_WORDS: usize = 8;
/// Words of a block of 8-bit weights, 32 of each of four rows. Word 4 i + row holds weights 8 i to 8 i + 7.
pub const BYTE_WORDS: usize = 16;

/// Operations on a block of four rows of weights and N of activations. Weights have G scales and offsets per block.
pub trait Integers: Copy {
    /// One number per row of weights.
    type Four: Pod;
    /// Sums per row of weights.
    type Totals: Copy + Zeroable;
    /// Codes of a block in bytes.
    type Codes: Copy;

    /// Returns the products of four numbers with twice four factors.
    fn scaled(self, numbers: &[f32; 4], factors: &[[i8; 4]; 2]) -> [[f32; 4]; 2];
    /// Returns `a * b + c`.
    fn mul_add(self, a: Self::Four, b: Self::Four, c: Self::Four) -> Self::Four;
    fn nibbles(self, words: &[u64; NIBBLE_WORDS]) -> Self::Codes;
    fn bytes(self, words: &[u64; BYTE_WORDS]) -> Self::Codes;
    /// Adds to `totals` the products with weights `scale * code + offset`. Codes are signed bytes, or `SMALL`: unsigned, and eight products
    /// per sum fit 16 bits, as with codes up to 32, and with two sums per block up to 64.
    fn add<const N: usize, const G: usize, const SMALL: bool>(
        self,
        totals: [Self::Totals; N],
        codes: Self::Codes,
        weights: FourScales<Self::Four, G>,
        x: &[Activations; N],
    ) -> [Self::Totals; N];
    fn total(self, totals: Self::Totals) -> [f32; 4];
}

/// Scales and offsets of the G parts of a block.
#[derive(Clone, Copy, Zeroable)]
pub struct FourScales<F, const G: usize> {
    pub scales: [F; G],
    pub offsets: [F; G],
}

/// Portable code, without explicit vectors.
#[derive(Clone, Copy)]
pub struct Plain;

impl Integers for Plain {
    type Four = [f32; 4];
    type Totals = [f32; 4];
    type Codes = [[[i8; 8]; 4]; 4];

    #[inline(always)]
    fn scaled(self, numbers: &[f32; 4], factors: &[[i8; 4]; 2]) -> [[f32; 4]; 2] {
        let mut products = [*numbers; 2];
        unroll!(i in 4 => { products[0][i] *= f32::from(factors[0][i]); });
        unroll!(i in 4 => { products[1][i] *= f32::from(factors[1][i]); });
        products
    }

    #[inline(always)]
    fn mul_add(self, a: [f32; 4], b: [f32; 4], mut c: [f32; 4]) -> [f32; 4] {
        unroll!(i in 4 => { c[i] = mul_add(a[i], b[i], c[i]); });
        c
    }

    #[inline(always)]
    fn nibbles(self, words: &[u64; NIBBLE_WORDS]) -> Self::Codes {
        let both: [[[u8; 8]; 4]; 2] = bytemuck::cast(*words);
        let mut each = [[[0; 8]; 4]; 4];
        for (at, each) in each.iter_mut().enumerate() {
            for row in 0..4 {
                for i in 0..8 {
                    each[row][i] = (both[at / 2][row][i] >> (at % 2 * 4) & 15) as i8;
                }
            }
        }
        each
    }

    #[inline(always)]
    fn bytes(self, words: &[u64; BYTE_WORDS]) -> Self::Codes {
        bytemuck::cast(*words)
    }

    #[inline(always)]
    fn add<const N: usize, const G: usize, const SMALL: bool>(
        self,
        mut totals: [[f32; 4]; N],
        codes: Self::Codes,
        FourScales { scales, offsets }: FourScales<[f32; 4], G>,
        x: &[Activations; N],
    ) -> [[f32; 4]; N] {
        for (totals, x) in totals.iter_mut().zip(x) {
            let mut products = [[0; 4]; 2];
            for (at, codes) in codes.iter().enumerate() {
                for (row, codes) in codes.iter().enumerate() {
                    for (i, code) in codes.iter().enumerate() {
                        products[at * G / 4][row] += i32::from(*code) * i32::from(x.code(8 * at + i));
                    }
                }
            }
            for part in 0..G {
                for row in 0..4 {
                    let scale = scales[part][row] * x.scale;
                    totals[row] = mul_add(products[part][row] as f32, scale, totals[row]);
                    totals[row] = mul_add(offsets[part][row], x.sums::<G>()[part], totals[row]);
                }
            }
        }
        totals
    }

    #[inline(always)]
    fn total(self, totals: [f32; 4]) -> [f32; 4] {
        totals
    }
}
