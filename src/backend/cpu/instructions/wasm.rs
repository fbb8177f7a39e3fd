//! Integer instructions of WebAssembly.

use super::super::simd::mul_add_vectors;
use super::{Activations, BLOCK, FourScales, Integers, unroll};
use bytemuck::{Zeroable, cast};
use pulp::wasm::Simd128;
use std::arch::wasm32::{
    f32x4_convert_i32x4, f32x4_mul, f32x4_splat, i16x8_add, i16x8_extend_low_i8x16, i16x8_shl, i16x8_shr, i32x4_add,
    i32x4_dot_i16x8, i32x4_extadd_pairwise_i16x8, i32x4_extend_high_i16x8, i32x4_extend_low_i16x8, i32x4_shuffle,
    i64x2_splat, u8x16_splat, u64x2_shr, v128, v128_and, v128_xor,
};
#[cfg(target_feature = "relaxed-simd")]
use std::arch::wasm32::{i8x16_narrow_i16x8, i16x8_relaxed_dot_i8x16_i7x16};
#[cfg(not(target_feature = "relaxed-simd"))]
use std::arch::wasm32::{u16x8_shr, u16x8_splat};
use std::hint::black_box;

/// Codes of 32 weights in bytes: per eight weights, a vector of two rows and one of the other two.
pub type Eights = [[v128; 2]; 4];

/// Method to multiply codes; gives G sums per row of weights.
pub trait Multiply: Copy {
    /// Multiplies weights of `WORDS / 2` bits, at most 6; see [`Integers::add`].
    fn small<const G: usize, const WORDS: usize>(self, codes: Eights, x: &Activations) -> [v128; G];
    /// Converts 8-bit codes for [`Multiply::bytes`].
    #[inline(always)]
    fn prepared(self, codes: Eights) -> Eights {
        codes
    }
    /// Multiplies 8-bit weights.
    fn bytes<const G: usize>(self, codes: Eights, x: &Activations) -> [v128; G];
}

/// SIMD instructions, relaxed if the module is compiled for that.
#[derive(Clone, Copy)]
pub struct Wasm<M> {
    simd: Simd128,
    multiply: M,
}

impl<M: Multiply> Wasm<M> {
    #[inline(always)]
    pub fn new(simd: Simd128, multiply: M) -> Self {
        Self { simd, multiply }
    }
}

impl<M: Multiply> Integers for Wasm<M> {
    type Four = v128;
    type Words = [v128; 2];

    #[inline(always)]
    fn scaled(self, numbers: &[f32; 4], factors: &[[i8; 4]; 2]) -> [[f32; 4]; 2] {
        let (numbers, factors) = (cast(*numbers), i16x8_extend_low_i8x16(i64x2_splat(cast(*factors))));
        let [low, high] = [i32x4_extend_low_i16x8(factors), i32x4_extend_high_i16x8(factors)];
        cast([f32x4_mul(numbers, f32x4_convert_i32x4(low)), f32x4_mul(numbers, f32x4_convert_i32x4(high))])
    }

    #[inline(always)]
    fn factors(self, numbers: &[f32; 4]) -> v128 {
        cast(*numbers)
    }

    #[inline(always)]
    fn mul_add(self, a: v128, b: v128, c: v128) -> v128 {
        cast(mul_add_vectors(self.simd, cast(a), cast(b), cast(c)))
    }

    /// Hidden from the compiler, which would create it again for each block.
    #[inline(always)]
    fn repeated(self, byte: u8) -> [v128; 2] {
        let all = black_box(u8x16_splat(byte));
        [all, all]
    }

    #[inline(always)]
    fn words(self, words: &[u64; 4]) -> [v128; 2] {
        cast(*words)
    }

    #[inline(always)]
    fn spread(self, words: &[u64; 2]) -> [v128; 2] {
        let both = cast(*words);
        [both, u64x2_shr(both, 4)]
    }

    #[inline(always)]
    fn and(self, a: [v128; 2], b: [v128; 2]) -> [v128; 2] {
        [v128_and(a[0], b[0]), v128_and(a[1], b[1])]
    }

    #[inline(always)]
    fn xor(self, a: [v128; 2], b: [v128; 2]) -> [v128; 2] {
        [v128_xor(a[0], b[0]), v128_xor(a[1], b[1])]
    }

    #[inline(always)]
    fn shifted<const N: i32>(self, words: [v128; 2]) -> [v128; 2] {
        [u64x2_shr(words[0], N as u32), u64x2_shr(words[1], N as u32)]
    }

    #[inline(always)]
    fn add<const N: usize, const G: usize, const WORDS: usize>(
        self,
        mut totals: [v128; N],
        codes: Eights,
        weights: FourScales<v128, G>,
        x: &[Activations; N],
    ) -> [v128; N] {
        let codes = if WORDS < 16 { codes } else { self.multiply.prepared(codes) };
        unroll!(i in N => {
            // Loads activations row by row: those of all rows do not fit the registers.
            black_box(());
            let products = if WORDS < 16 {
                self.multiply.small::<G, WORDS>(codes, &x[i])
            } else {
                self.multiply.bytes::<G>(codes, &x[i])
            };
            unroll!(part in G => {
                let scale = f32x4_mul(weights.scales[part], f32x4_splat(x[i].scale));
                totals[i] = self.mul_add(f32x4_convert_i32x4(products[part]), scale, totals[i]);
                totals[i] = self.mul_add(weights.offsets[part], f32x4_splat(x[i].sums::<G>()[part]), totals[i]);
            });
        });
        totals
    }

    #[inline(always)]
    fn total(self, totals: v128) -> [f32; 4] {
        cast(totals)
    }
}

/// Adds the products of two rows' weights with eight activations, at even and at odd places.
#[inline(always)]
fn dot(even: v128, odd: v128, x: [v128; 2], more: v128) -> v128 {
    i32x4_add(i32x4_add(more, i32x4_dot_i16x8(even, x[0])), i32x4_dot_i16x8(odd, x[1]))
}

/// Returns eight activations in 16 bits, at even and at odd places, each set twice.
#[inline(always)]
fn wide(x: &Activations, at: usize) -> [v128; 2] {
    #[cfg(not(target_feature = "relaxed-simd"))]
    return [i64x2_splat(x.codes[2 * at]), i64x2_splat(x.codes[2 * at + 1])];
    #[cfg(target_feature = "relaxed-simd")]
    {
        let both = eight(x, at);
        [i16x8_shr(i16x8_shl(both, 8), 8), i16x8_shr(both, 8)]
    }
}

/// Returns eight activations, twice.
#[cfg(target_feature = "relaxed-simd")]
#[inline(always)]
pub(super) fn eight(x: &Activations, at: usize) -> v128 {
    i64x2_splat(x.codes[at])
}

/// Returns for each row the sum of two neighbouring products.
#[inline(always)]
fn sum_pairs([first, last]: [v128; 2]) -> v128 {
    i32x4_add(i32x4_shuffle::<0, 2, 4, 6>(first, last), i32x4_shuffle::<1, 3, 5, 7>(first, last))
}

/// Multiplication in 16 bits that adds two products; in relaxed modules, in bytes if no sum exceeds 16 bits.
#[derive(Clone, Copy)]
pub struct WidenedPairs;

impl Multiply for WidenedPairs {
    #[cfg(not(target_feature = "relaxed-simd"))]
    #[inline(always)]
    fn small<const G: usize, const WORDS: usize>(self, codes: Eights, x: &Activations) -> [v128; G] {
        let mut products: [[v128; 2]; G] = Zeroable::zeroed();
        unroll!(at in 4 => {
            unroll!(half in 2 => {
                let (codes, product) = (codes[at][half], &mut products[at * G / 4][half]);
                *product = dot(v128_and(codes, u16x8_splat(255)), u16x8_shr(codes, 8), wide(x, at), *product);
            });
        });
        sum_parts(products)
    }

    /// Multiplies bytes: no sum of eight products exceeds 16 bits, with 4 bits none of sixteen. The instruction for four products is five
    /// instructions on processors without it.
    #[cfg(target_feature = "relaxed-simd")]
    #[inline(always)]
    fn small<const G: usize, const WORDS: usize>(self, codes: Eights, x: &Activations) -> [v128; G] {
        let mut products: [[v128; 2]; G] = Zeroable::zeroed();
        unroll!(at in 4 => {
            let (x, [first, last]) = (eight(x, at), products[at * G / 4]);
            products[at * G / 4] = [
                i16x8_add(first, i16x8_relaxed_dot_i8x16_i7x16(x, codes[at][0])),
                i16x8_add(last, i16x8_relaxed_dot_i8x16_i7x16(x, codes[at][1])),
            ];
        });
        let mut sums: [v128; G] = Zeroable::zeroed();
        unroll!(part in G => {
            let [first, last] = products[part];
            sums[part] = if WORDS > 8 {
                sum_pairs([i32x4_extadd_pairwise_i16x8(first), i32x4_extadd_pairwise_i16x8(last)])
            } else {
                let odd = i32x4_shuffle::<1, 3, 5, 7>(first, last);
                i32x4_extadd_pairwise_i16x8(i16x8_add(i32x4_shuffle::<0, 2, 4, 6>(first, last), odd))
            };
        });
        sums
    }

    #[inline(always)]
    fn bytes<const G: usize>(self, codes: Eights, x: &Activations) -> [v128; G] {
        let mut products: [[v128; 2]; G] = Zeroable::zeroed();
        unroll!(at in 4 => {
            let x = wide(x, at);
            unroll!(half in 2 => {
                let (both, product) = (codes[at][half], &mut products[at * G / 4][half]);
                *product = dot(i16x8_shr(i16x8_shl(both, 8), 8), i16x8_shr(both, 8), x, *product);
            });
        });
        sum_parts(products)
    }
}

/// Converts codes to the format of [`Activations`].
#[cfg(target_feature = "relaxed-simd")]
#[inline(always)]
pub(super) fn stored(codes: [i16; BLOCK]) -> [i64; BLOCK / 8] {
    let [a, b, c, d]: [v128; 4] = cast(codes);
    cast([i8x16_narrow_i16x8(a, b), i8x16_narrow_i16x8(c, d)])
}

#[cfg(not(target_feature = "relaxed-simd"))]
#[inline(always)]
pub(super) fn stored(codes: [i16; BLOCK]) -> [i64; BLOCK / 4] {
    let mut wide = codes;
    unroll!(at in 4 => {
        unroll!(i in 4 => {
            wide[8 * at + i] = codes[8 * at + 2 * i];
            wide[8 * at + 4 + i] = codes[8 * at + 2 * i + 1];
        });
    });
    cast(wide)
}

#[inline(always)]
pub(super) fn sum_parts<const G: usize>(products: [[v128; 2]; G]) -> [v128; G] {
    let mut sums: [v128; G] = Zeroable::zeroed();
    unroll!(part in G => { sums[part] = sum_pairs(products[part]); });
    sums
}

/// Returns the sums of the first 16 and of the last 16 codes.
#[inline(always)]
pub(super) fn sums(codes: &[i16; BLOCK]) -> [i32; 2] {
    let [a, b, c, d]: [v128; 4] = cast(*codes);
    let (first, last) = (i32x4_extadd_pairwise_i16x8(i16x8_add(a, b)), i32x4_extadd_pairwise_i16x8(i16x8_add(c, d)));
    let [a, b, c, d]: [i32; 4] = cast(sum_pairs([first, last]));
    [a + b, c + d]
}
