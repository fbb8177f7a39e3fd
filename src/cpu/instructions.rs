//! The integer instructions of processors: products of blocks of 8-bit codes, four at a time. What is inlined has no closures: they are
//! functions of their own, compiled for any processor.

#[cfg(target_feature = "relaxed-simd")]
mod relaxed;
#[cfg(target_arch = "wasm32")]
mod simd128;
#[cfg(target_arch = "x86_64")]
mod x86;

use super::simd::{mul_add, unroll};
use bytemuck::Zeroable;
#[cfg(target_feature = "relaxed-simd")]
pub use relaxed::Relaxed;

/// Activations that share a scale.
pub const BLOCK: usize = 32;

/// A block of activations in 8 bits, widened for those products that want them so.
#[derive(Clone, Copy, Zeroable)]
#[repr(C)]
pub struct Activations {
    wide: [i16; BLOCK],
    #[cfg(target_feature = "relaxed-simd")]
    narrow: [i8; BLOCK],
}

impl Activations {
    #[inline(always)]
    pub fn new(wide: [i16; BLOCK]) -> Self {
        #[cfg(target_feature = "relaxed-simd")]
        {
            use std::arch::wasm32::i8x16_narrow_i16x8;
            let [a, b, c, d]: [_; 4] = bytemuck::cast(wide);
            Self { wide, narrow: bytemuck::cast([i8x16_narrow_i16x8(a, b), i8x16_narrow_i16x8(c, d)]) }
        }
        #[cfg(not(target_feature = "relaxed-simd"))]
        Self { wide }
    }
}

/// What a processor does with blocks.
pub trait Integers: Copy {
    /// 32 weights of 4 bits.
    type Nibbles: Copy;
    /// 32 weights of 8 bits.
    type Bytes: Copy;
    /// Whether the center is taken from codes of 4 bits; where not, the sum of the activations has to pay for it.
    const SIGNED_NIBBLES: bool = true;
    /// The products of a block with 32 activations, some of them added up.
    type Products: Copy;
    /// Four numbers.
    type Four: Copy + Zeroable;
    /// Four sums of such products.
    type Totals: Copy + Zeroable;

    /// `code - center`.
    fn nibbles(self, codes: &[u8; BLOCK / 2], center: u8) -> Self::Nibbles;
    /// `code - center`.
    fn bytes(self, codes: &[u8; BLOCK], center: u8) -> Self::Bytes;
    /// Those of the first 16 and those of the last 16 apart, if G is 2.
    fn multiply_nibbles<const G: usize>(self, weights: Self::Nibbles, x: &Activations) -> Self::Products;
    /// Likewise.
    fn multiply_bytes<const G: usize>(self, weights: Self::Bytes, x: &Activations) -> Self::Products;
    fn splat(self, number: f32) -> Self::Four;
    fn four(self, numbers: &[f32; 4]) -> Self::Four;
    /// `a * b + c`.
    fn mul_add(self, a: Self::Four, b: Self::Four, c: Self::Four) -> Self::Four;
    /// `totals + products * (scales * factors)`.
    fn add(
        self,
        totals: Self::Totals,
        products: [Self::Products; 4],
        scales: Self::Four,
        factors: Self::Four,
    ) -> Self::Totals;
    /// The same with scales for the first 16 and for the last 16 of each.
    fn add_halves(
        self,
        totals: Self::Totals,
        products: [Self::Products; 4],
        scales: [Self::Four; 2],
        factors: Self::Four,
    ) -> Self::Totals;
    /// `totals + more`.
    fn total(self, totals: Self::Totals, more: Self::Four) -> [f32; 4];
}

/// Four numbers one by one, where the compiler makes a vector of them.
macro_rules! four_floats {
    () => {
        type Four = [f32; 4];

        #[inline(always)]
        fn splat(self, number: f32) -> [f32; 4] {
            [number; 4]
        }

        #[inline(always)]
        fn four(self, numbers: &[f32; 4]) -> [f32; 4] {
            *numbers
        }

        #[inline(always)]
        fn mul_add(self, a: [f32; 4], b: [f32; 4], mut c: [f32; 4]) -> [f32; 4] {
            unroll!(i in 4 => { c[i] = mul_add(a[i], b[i], c[i]); });
            c
        }
    };
}
use four_floats;

/// Without vectors, or with those that the compiler finds.
#[derive(Clone, Copy)]
pub struct Plain;

impl Integers for Plain {
    type Nibbles = [i16; BLOCK];
    type Bytes = [i16; BLOCK];
    type Products = [i32; BLOCK / 2];
    type Totals = [[f32; 8]; 4];

    four_floats!();

    #[inline(always)]
    fn nibbles(self, codes: &[u8; BLOCK / 2], center: u8) -> Self::Nibbles {
        std::array::from_fn(|i| i16::from(codes[i % 16] >> (4 * (i / 16)) & 15) - i16::from(center))
    }

    #[inline(always)]
    fn bytes(self, codes: &[u8; BLOCK], center: u8) -> Self::Bytes {
        codes.map(|code| i16::from(code) - i16::from(center))
    }

    #[inline(always)]
    fn multiply_nibbles<const G: usize>(self, weights: Self::Nibbles, x: &Activations) -> Self::Products {
        self.multiply_bytes::<G>(weights, x)
    }

    #[inline(always)]
    fn multiply_bytes<const G: usize>(self, weights: Self::Bytes, x: &Activations) -> Self::Products {
        let product = |i: usize| i32::from(weights[i]) * i32::from(x.wide[i]);
        std::array::from_fn(|i| product(2 * i) + product(2 * i + 1))
    }

    #[inline(always)]
    fn add(
        self,
        mut totals: Self::Totals,
        products: [Self::Products; 4],
        scales: [f32; 4],
        factors: [f32; 4],
    ) -> Self::Totals {
        for i in 0..4 {
            for j in 0..8 {
                totals[i][j] += (products[i][j] + products[i][j + 8]) as f32 * (scales[i] * factors[i]);
            }
        }
        totals
    }

    #[inline(always)]
    fn add_halves(
        self,
        mut totals: Self::Totals,
        products: [Self::Products; 4],
        scales: [[f32; 4]; 2],
        factors: [f32; 4],
    ) -> Self::Totals {
        for i in 0..4 {
            for j in 0..16 {
                totals[i][j % 8] += products[i][j] as f32 * (scales[j / 8][i] * factors[i]);
            }
        }
        totals
    }

    #[inline(always)]
    fn total(self, totals: Self::Totals, more: [f32; 4]) -> [f32; 4] {
        std::array::from_fn(|i| totals[i].iter().sum::<f32>() + more[i])
    }
}
