//! Those of WebAssembly.

use super::{Activations, BLOCK, Integers};
use bytemuck::cast;
use pulp::wasm::Simd128;
use std::arch::wasm32::{i32x4_shuffle, v128};

impl Integers for Simd128 {
    type Nibbles = [v128; 4];
    type Bytes = [v128; 4];
    type Products = [v128; 2];
    type Four = v128;
    type Totals = v128;

    #[inline(always)]
    fn nibbles(self, codes: &[u8; BLOCK / 2], center: u8) -> Self::Nibbles {
        let simd = self.simd128;
        let (both, center) = (cast(*codes), simd.u8x16_splat(center));
        let low = simd.i8x16_sub(simd.v128_and(both, simd.u8x16_splat(15)), center);
        let high = simd.i8x16_sub(simd.u8x16_shr(both, 4), center);
        [
            simd.i16x8_extend_low_i8x16(low),
            simd.i16x8_extend_high_i8x16(low),
            simd.i16x8_extend_low_i8x16(high),
            simd.i16x8_extend_high_i8x16(high),
        ]
    }

    #[inline(always)]
    fn bytes(self, codes: &[u8; BLOCK], center: u8) -> Self::Bytes {
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
    fn multiply_nibbles<const G: usize>(self, weights: Self::Nibbles, x: &Activations) -> Self::Products {
        self.multiply_bytes::<G>(weights, x)
    }

    #[inline(always)]
    fn multiply_bytes<const G: usize>(self, weights: Self::Bytes, x: &Activations) -> Self::Products {
        let simd = self.simd128;
        let codes: [v128; 4] = cast(x.wide);
        let first = simd.i32x4_dot_i16x8(weights[0], codes[0]);
        let second = simd.i32x4_dot_i16x8(weights[1], codes[1]);
        let third = simd.i32x4_dot_i16x8(weights[2], codes[2]);
        let fourth = simd.i32x4_dot_i16x8(weights[3], codes[3]);
        let halves = [simd.i32x4_add(first, second), simd.i32x4_add(third, fourth)];
        if G == 1 { [simd.i32x4_add(halves[0], halves[1]); 2] } else { halves }
    }

    #[inline(always)]
    fn splat(self, number: f32) -> v128 {
        self.simd128.f32x4_splat(number)
    }

    #[inline(always)]
    fn four(self, numbers: &[f32; 4]) -> v128 {
        cast(*numbers)
    }

    #[inline(always)]
    fn mul_add(self, a: v128, b: v128, c: v128) -> v128 {
        self.simd128.f32x4_add(self.simd128.f32x4_mul(a, b), c)
    }

    #[inline(always)]
    fn add(self, totals: v128, products: [[v128; 2]; 4], scales: v128, factors: v128) -> v128 {
        let [[a, _], [b, _], [c, _], [d, _]] = products;
        self.mul_add(float_sums(self, [a, b, c, d]), self.simd128.f32x4_mul(scales, factors), totals)
    }

    #[inline(always)]
    fn add_halves(self, totals: v128, products: [[v128; 2]; 4], [first, last]: [v128; 2], factors: v128) -> v128 {
        let [[a, a2], [b, b2], [c, c2], [d, d2]] = products;
        let simd = self.simd128;
        let totals = self.mul_add(float_sums(self, [a, b, c, d]), simd.f32x4_mul(first, factors), totals);
        self.mul_add(float_sums(self, [a2, b2, c2, d2]), simd.f32x4_mul(last, factors), totals)
    }

    #[inline(always)]
    fn total(self, totals: v128, more: v128) -> [f32; 4] {
        cast(self.simd128.f32x4_add(totals, more))
    }
}

/// Each four integers added up.
#[inline(always)]
pub(super) fn float_sums(simd: Simd128, [a, b, c, d]: [v128; 4]) -> v128 {
    let integers = simd.simd128;
    let ab = integers.i32x4_add(i32x4_shuffle::<0, 4, 1, 5>(a, b), i32x4_shuffle::<2, 6, 3, 7>(a, b));
    let cd = integers.i32x4_add(i32x4_shuffle::<0, 4, 1, 5>(c, d), i32x4_shuffle::<2, 6, 3, 7>(c, d));
    let sums = integers.i32x4_add(i32x4_shuffle::<0, 1, 4, 5>(ab, cd), i32x4_shuffle::<2, 3, 6, 7>(ab, cd));
    integers.f32x4_convert_i32x4(sums)
}
