//! The integer instructions of processors: products of blocks of 8-bit codes. What is inlined has no closures: they are functions of
//! their own, compiled for any processor.

/// Activations that share a scale.
pub const BLOCK: usize = 32;

/// What a processor does with blocks.
pub trait Integers: Copy {
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

/// Without vectors, or with those that the compiler finds.
#[derive(Clone, Copy)]
pub struct Plain;

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
