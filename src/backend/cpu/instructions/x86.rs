//! Integer instructions of x86-64 with AVX2.

use super::{Activations, FourScales, Integers, unroll};
use bytemuck::{Zeroable, cast};
use pulp::x86::V3;
use std::arch::x86_64::{__m256, __m256i};
use std::hint::black_box;

impl Integers for V3 {
    /// Two numbers per row, for its two sums.
    type Four = __m256;
    type Totals = __m256;
    type Words = __m256i;

    #[inline(always)]
    fn scaled(self, numbers: &[f32; 4], factors: &[[i8; 4]; 2]) -> [[f32; 4]; 2] {
        let factors = self.avx2._mm256_cvtepi8_epi32(self.sse2._mm_set1_epi64x(cast(*factors)));
        cast(self.avx._mm256_mul_ps(cast([*numbers; 2]), self.avx._mm256_cvtepi32_ps(factors)))
    }

    #[inline(always)]
    fn factors(self, numbers: &[f32; 4]) -> __m256 {
        let places: [u32; 8] = [0, 0, 1, 1, 2, 2, 3, 3];
        self.avx._mm256_permutevar_ps(self.avx._mm256_broadcast_ps(&cast(*numbers)), cast(places))
    }

    #[inline(always)]
    fn summands(self, numbers: &[f32; 4]) -> __m256 {
        let zero = self.avx._mm256_setzero_ps();
        self.avx._mm256_blend_ps::<0b1010_1010>(self.factors(numbers), zero)
    }

    #[inline(always)]
    fn mul_add(self, a: __m256, b: __m256, c: __m256) -> __m256 {
        self.fma._mm256_fmadd_ps(a, b, c)
    }

    /// Hidden from the compiler, which would load it again for each block.
    #[inline(always)]
    fn repeated(self, byte: u8) -> __m256i {
        black_box(cast([byte; 32]))
    }

    #[inline(always)]
    fn words(self, words: &[u64; 4]) -> __m256i {
        cast(*words)
    }

    #[inline(always)]
    fn spread(self, words: &[u64; 2]) -> __m256i {
        let both = self.avx2._mm256_broadcastsi128_si256(cast(*words));
        self.avx2._mm256_srlv_epi64(both, cast([0u64, 0, 4, 4]))
    }

    #[inline(always)]
    fn and(self, a: __m256i, b: __m256i) -> __m256i {
        self.avx2._mm256_and_si256(a, b)
    }

    #[inline(always)]
    fn xor(self, a: __m256i, b: __m256i) -> __m256i {
        self.avx2._mm256_xor_si256(a, b)
    }

    #[inline(always)]
    fn shifted<const N: i32>(self, words: __m256i) -> __m256i {
        self.avx2._mm256_srli_epi64::<N>(words)
    }

    #[inline(always)]
    fn add<const N: usize, const G: usize, const WORDS: usize>(
        self,
        mut totals: [__m256; N],
        codes: [__m256i; 4],
        weights: FourScales<__m256, G>,
        x: &[Activations; N],
    ) -> [__m256; N] {
        let (avx2, ones) = (self.avx2, cast([1i16; 16]));
        unroll!(i in N => {
            let mut products: [__m256i; G] = Zeroable::zeroed();
            unroll!(at in 4 => {
                let (x, product) = (eight(self, &x[i], at), &mut products[at * G / 4]);
                *product = if WORDS < 16 {
                    avx2._mm256_add_epi16(*product, avx2._mm256_maddubs_epi16(codes[at], x))
                } else {
                    // Activations take the weights' signs. Two products of 128 and 127 sum to less than 2^15.
                    let signed = avx2._mm256_sign_epi8(x, codes[at]);
                    let pairs = avx2._mm256_maddubs_epi16(avx2._mm256_abs_epi8(codes[at]), signed);
                    avx2._mm256_add_epi32(*product, avx2._mm256_madd_epi16(pairs, ones))
                };
            });
            if WORDS < 16 {
                unroll!(part in G => { products[part] = avx2._mm256_madd_epi16(products[part], ones); });
            }
            let sums = x[i].sums::<G>();
            unroll!(part in G => {
                let scale = self.avx._mm256_mul_ps(weights.scales[part], self.avx._mm256_set1_ps(x[i].scale));
                totals[i] = self.mul_add(self.avx._mm256_cvtepi32_ps(products[part]), scale, totals[i]);
                totals[i] = self.mul_add(weights.offsets[part], self.avx._mm256_set1_ps(sums[part]), totals[i]);
            });
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
