//! Those of x86-64 with AVX2, and with AVX-512.

use super::{Activations, BLOCK, Integers, four_floats, mul_add, unroll};
use bytemuck::cast;
use pulp::Simd;
use pulp::x86::{V3, V4};
use std::arch::x86_64::{__m128i, __m256, __m256i, __m512, __m512i};

impl Integers for V3 {
    type Nibbles = [__m256i; 2];
    type Bytes = [__m256i; 2];
    type Products = [__m256i; 2];
    type Totals = [__m256; 4];

    four_floats!();

    #[inline(always)]
    fn nibbles(self, codes: &[u8; BLOCK / 2], center: u8) -> Self::Nibbles {
        let [low, high]: [__m128i; 2] = cast(split(self, codes, center));
        [self.avx2._mm256_cvtepi8_epi16(low), self.avx2._mm256_cvtepi8_epi16(high)]
    }

    #[inline(always)]
    fn bytes(self, codes: &[u8; BLOCK], center: u8) -> Self::Bytes {
        let [low, high]: [__m128i; 2] = cast(*codes);
        let center = cast([u16::from(center); 16]);
        [
            self.avx2._mm256_sub_epi16(self.avx2._mm256_cvtepu8_epi16(low), center),
            self.avx2._mm256_sub_epi16(self.avx2._mm256_cvtepu8_epi16(high), center),
        ]
    }

    #[inline(always)]
    fn multiply_nibbles<const G: usize>(self, weights: Self::Nibbles, x: &Activations) -> Self::Products {
        self.multiply_bytes::<G>(weights, x)
    }

    #[inline(always)]
    fn multiply_bytes<const G: usize>(self, weights: Self::Bytes, x: &Activations) -> Self::Products {
        let [low, high]: [__m256i; 2] = cast(x.wide);
        [self.avx2._mm256_madd_epi16(weights[0], low), self.avx2._mm256_madd_epi16(weights[1], high)]
    }

    #[inline(always)]
    fn add(
        self,
        mut totals: Self::Totals,
        products: [Self::Products; 4],
        scales: [f32; 4],
        factors: [f32; 4],
    ) -> Self::Totals {
        unroll!(i in 4 => {
            let sums = self.avx2._mm256_add_epi32(products[i][0], products[i][1]);
            totals[i] = add(self, totals[i], sums, scales[i], factors[i]);
        });
        totals
    }

    #[inline(always)]
    fn add_halves(
        self,
        mut totals: Self::Totals,
        products: [Self::Products; 4],
        [first, last]: [[f32; 4]; 2],
        factors: [f32; 4],
    ) -> Self::Totals {
        unroll!(i in 4 => {
            let total = add(self, totals[i], products[i][0], first[i], factors[i]);
            totals[i] = add(self, total, products[i][1], last[i], factors[i]);
        });
        totals
    }

    #[inline(always)]
    fn total(self, totals: Self::Totals, mut more: [f32; 4]) -> [f32; 4] {
        unroll!(i in 4 => { more[i] += self.reduce_sum_f32s(cast(totals[i])); });
        more
    }
}

#[inline(always)]
fn add(simd: V3, total: __m256, sums: __m256i, scale: f32, factor: f32) -> __m256 {
    let by = simd.avx._mm256_mul_ps(simd.avx._mm256_set1_ps(scale), simd.avx._mm256_set1_ps(factor));
    simd.fma._mm256_fmadd_ps(simd.avx._mm256_cvtepi32_ps(sums), by, total)
}

/// `code - center` of the lower and of the upper bits.
#[inline(always)]
fn split(simd: V3, codes: &[u8; BLOCK / 2], center: u8) -> __m256i {
    let both: __m128i = cast(*codes);
    let codes = simd
        .avx2
        ._mm256_inserti128_si256::<1>(simd.avx._mm256_castsi128_si256(both), simd.sse2._mm_srli_epi16::<4>(both));
    let codes = simd.avx2._mm256_and_si256(codes, cast([15u8; 32]));
    simd.avx2._mm256_sub_epi8(codes, cast([center; 32]))
}

#[inline(always)]
fn scaled(simd: V4, total: __m512, products: __m512i, scales: __m512, factor: f32) -> __m512 {
    let by = simd.avx512f._mm512_mul_ps(scales, simd.avx512f._mm512_set1_ps(factor));
    simd.avx512f._mm512_fmadd_ps(simd.avx512f._mm512_cvtepi32_ps(products), by, total)
}

impl Integers for V4 {
    type Nibbles = __m512i;
    type Bytes = __m512i;
    type Products = __m512i;
    type Totals = [__m512; 4];

    four_floats!();

    #[inline(always)]
    fn nibbles(self, codes: &[u8; BLOCK / 2], center: u8) -> Self::Nibbles {
        self.avx512bw._mm512_cvtepi8_epi16(split(*self, codes, center))
    }

    #[inline(always)]
    fn bytes(self, codes: &[u8; BLOCK], center: u8) -> Self::Bytes {
        let codes = self.avx512bw._mm512_cvtepu8_epi16(cast(*codes));
        self.avx512bw._mm512_sub_epi16(codes, cast([u16::from(center); 32]))
    }

    #[inline(always)]
    fn multiply_nibbles<const G: usize>(self, weights: Self::Nibbles, x: &Activations) -> Self::Products {
        self.multiply_bytes::<G>(weights, x)
    }

    #[inline(always)]
    fn multiply_bytes<const G: usize>(self, weights: Self::Bytes, x: &Activations) -> Self::Products {
        self.avx512bw._mm512_madd_epi16(weights, cast(x.wide))
    }

    #[inline(always)]
    fn add(
        self,
        mut totals: Self::Totals,
        products: [Self::Products; 4],
        scales: [f32; 4],
        factors: [f32; 4],
    ) -> Self::Totals {
        unroll!(i in 4 => {
            totals[i] = scaled(self, totals[i], products[i], self.avx512f._mm512_set1_ps(scales[i]), factors[i]);
        });
        totals
    }

    #[inline(always)]
    fn add_halves(
        self,
        mut totals: Self::Totals,
        products: [Self::Products; 4],
        [first, last]: [[f32; 4]; 2],
        factors: [f32; 4],
    ) -> Self::Totals {
        unroll!(i in 4 => {
            let (first, last) = (self.avx512f._mm512_set1_ps(first[i]), self.avx512f._mm512_set1_ps(last[i]));
            let scales = self.avx512f._mm512_mask_blend_ps(0xff00, first, last);
            totals[i] = scaled(self, totals[i], products[i], scales, factors[i]);
        });
        totals
    }

    #[inline(always)]
    fn total(self, totals: Self::Totals, mut more: [f32; 4]) -> [f32; 4] {
        unroll!(i in 4 => { more[i] += self.reduce_sum_f32s(cast(totals[i])); });
        more
    }
}
