//! Integer instructions of x86-64 with AVX2.

use super::{Activations, BYTE_WORDS, FourScales, Integers, NIBBLE_WORDS, unroll};
use bytemuck::{Zeroable, cast};
use pulp::x86::V3;
use std::arch::x86_64::{__m128, __m256, __m256i};

impl Integers for V3 {
    type Four = __m128;
    /// Two sums per row of weights.
    type Totals = __m256;
    type Codes = [__m256i; 4];

    #[inline(always)]
    fn scaled(self, numbers: &[f32; 4], factors: &[[i8; 4]; 2]) -> [[f32; 4]; 2] {
        let factors = self.avx2._mm256_cvtepi8_epi32(self.sse2._mm_set1_epi64x(cast(*factors)));
        cast(self.avx._mm256_mul_ps(cast([*numbers; 2]), self.avx._mm256_cvtepi32_ps(factors)))
    }

    #[inline(always)]
    fn mul_add(self, a: __m128, b: __m128, c: __m128) -> __m128 {
        self.fma._mm_fmadd_ps(a, b, c)
    }

    #[inline(always)]
    fn nibbles(self, words: &[u64; NIBBLE_WORDS]) -> [__m256i; 4] {
        let (both, low, avx2): ([__m256i; 2], _, _) = (cast(*words), cast([15u8; 32]), self.avx2);
        [
            avx2._mm256_and_si256(both[0], low),
            avx2._mm256_and_si256(avx2._mm256_srli_epi16::<4>(both[0]), low),
            avx2._mm256_and_si256(both[1], low),
            avx2._mm256_and_si256(avx2._mm256_srli_epi16::<4>(both[1]), low),
        ]
    }

    #[inline(always)]
    fn bytes(self, words: &[u64; BYTE_WORDS]) -> [__m256i; 4] {
        cast(*words)
    }

    #[inline(always)]
    fn add<const N: usize, const G: usize, const SMALL: bool>(
        self,
        mut totals: [__m256; N],
        codes: [__m256i; 4],
        weights: FourScales<__m128, G>,
        x: &[Activations; N],
    ) -> [__m256; N] {
        let (avx2, ones, weights) = (self.avx2, cast([1i16; 16]), Eight::new(self, weights));
        unroll!(i in N => {
            let mut products: [__m256i; G] = Zeroable::zeroed();
            unroll!(at in 4 => {
                let (x, product) = (eight(self, &x[i], at), &mut products[at * G / 4]);
                *product = if SMALL {
                    avx2._mm256_add_epi16(*product, avx2._mm256_maddubs_epi16(codes[at], x))
                } else {
                    // Activations take the weights' signs. Two products of 128 and 127 sum to less than 2^15.
                    let signed = avx2._mm256_sign_epi8(x, codes[at]);
                    let pairs = avx2._mm256_maddubs_epi16(avx2._mm256_abs_epi8(codes[at]), signed);
                    avx2._mm256_add_epi32(*product, avx2._mm256_madd_epi16(pairs, ones))
                };
            });
            if SMALL {
                unroll!(part in G => { products[part] = avx2._mm256_madd_epi16(products[part], ones); });
            }
            totals[i] = weights.add(self, totals[i], products, &x[i]);
        });
        totals
    }

    #[inline(always)]
    fn total(self, totals: __m256) -> [f32; 4] {
        let [a, b, c, d]: [[f32; 2]; 4] = cast(totals);
        [a[0] + a[1], b[0] + b[1], c[0] + c[1], d[0] + d[1]]
    }
}

/// Returns the same eight activations for each row.
#[inline(always)]
fn eight(simd: V3, x: &Activations, at: usize) -> __m256i {
    simd.avx._mm256_set1_epi64x(x.codes[at])
}

/// Scales and offsets for two sums per row; only one of them gets the offset.
#[derive(Clone, Copy)]
struct Eight<const G: usize>(FourScales<__m256, G>);

impl<const G: usize> Eight<G> {
    #[inline(always)]
    fn new(simd: V3, four: FourScales<__m128, G>) -> Self {
        let mut eight: FourScales<__m256, G> = Zeroable::zeroed();
        unroll!(part in G => {
            let scales = cast(simd.avx2._mm256_cvtepu32_epi64(cast(four.scales[part])));
            eight.scales[part] = simd.avx._mm256_moveldup_ps(scales);
            eight.offsets[part] = cast(simd.avx2._mm256_cvtepu32_epi64(cast(four.offsets[part])));
        });
        Self(eight)
    }

    #[inline(always)]
    fn add(self, simd: V3, mut total: __m256, products: [__m256i; G], x: &Activations) -> __m256 {
        let (avx, FourScales { scales, offsets }, sums) = (simd.avx, self.0, x.sums::<G>());
        unroll!(part in G => {
            let scale = avx._mm256_mul_ps(scales[part], avx._mm256_set1_ps(x.scale));
            total = simd.fma._mm256_fmadd_ps(avx._mm256_cvtepi32_ps(products[part]), scale, total);
            total = simd.fma._mm256_fmadd_ps(offsets[part], avx._mm256_set1_ps(sums[part]), total);
        });
        total
    }
}
