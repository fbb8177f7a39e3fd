//! Those of WebAssembly with relaxed SIMD.

use super::simd128::float_sums;
use super::{Activations, BLOCK, Integers};
use bytemuck::cast;
use pulp::wasm::Simd128;
use std::arch::wasm32::{
    f32x4_mul, f32x4_relaxed_madd, i32x4_relaxed_dot_i8x16_i7x16_add, i32x4_splat, u8x16_splat, u16x8_shr, v128,
    v128_and,
};

/// With products of codes of 7 bits.
#[derive(Clone, Copy)]
pub struct Relaxed {
    simd: Simd128,
    /// The lower bits of bytes: kept from the compiler, which would make it anew for each block.
    low: v128,
}

impl Relaxed {
    #[inline(always)]
    pub fn new(simd: Simd128) -> Self {
        Self { simd, low: std::hint::black_box(u8x16_splat(15)) }
    }
}

impl Integers for Relaxed {
    /// As they are: 7 bits have no sign.
    type Nibbles = [v128; 2];
    const SIGNED_NIBBLES: bool = false;
    type Bytes = <Simd128 as Integers>::Bytes;
    type Products = [v128; 2];
    type Four = v128;
    type Totals = v128;

    #[inline(always)]
    fn nibbles(self, codes: &[u8; BLOCK / 2], _: u8) -> [v128; 2] {
        let both = cast(*codes);
        [v128_and(both, self.low), v128_and(u16x8_shr(both, 4), self.low)]
    }

    #[inline(always)]
    fn bytes(self, codes: &[u8; BLOCK], center: u8) -> Self::Bytes {
        self.simd.bytes(codes, center)
    }

    #[inline(always)]
    fn multiply_nibbles<const G: usize>(self, codes: [v128; 2], x: &Activations) -> [v128; 2] {
        let narrow: [v128; 2] = cast(x.narrow);
        let (zero, dot) = (i32x4_splat(0), i32x4_relaxed_dot_i8x16_i7x16_add);
        let first = dot(narrow[0], codes[0], zero);
        [first, dot(narrow[1], codes[1], if G == 1 { first } else { zero })]
    }

    #[inline(always)]
    fn multiply_bytes<const G: usize>(self, weights: Self::Bytes, x: &Activations) -> [v128; 2] {
        self.simd.multiply_bytes::<G>(weights, x)
    }

    #[inline(always)]
    fn splat(self, number: f32) -> v128 {
        self.simd.splat(number)
    }

    #[inline(always)]
    fn four(self, numbers: &[f32; 4]) -> v128 {
        cast(*numbers)
    }

    #[inline(always)]
    fn mul_add(self, a: v128, b: v128, c: v128) -> v128 {
        f32x4_relaxed_madd(a, b, c)
    }

    #[inline(always)]
    fn add(self, totals: v128, products: [[v128; 2]; 4], scales: v128, factors: v128) -> v128 {
        let [[_, a], [_, b], [_, c], [_, d]] = products;
        self.mul_add(float_sums(self.simd, [a, b, c, d]), f32x4_mul(scales, factors), totals)
    }

    #[inline(always)]
    fn add_halves(self, totals: v128, products: [[v128; 2]; 4], [first, last]: [v128; 2], factors: v128) -> v128 {
        let [[a, a2], [b, b2], [c, c2], [d, d2]] = products;
        let totals = self.mul_add(float_sums(self.simd, [a, b, c, d]), f32x4_mul(first, factors), totals);
        self.mul_add(float_sums(self.simd, [a2, b2, c2, d2]), f32x4_mul(last, factors), totals)
    }

    #[inline(always)]
    fn total(self, totals: v128, more: v128) -> [f32; 4] {
        self.simd.total(totals, more)
    }
}
