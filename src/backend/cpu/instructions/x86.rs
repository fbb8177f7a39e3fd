//! Integer instructions of x86-64 with AVX2.

use super::vnni::{Avx512Vnni, AvxVnni};
use super::{Activations, FourScales, Integers, WithIntegers, unroll};
use bytemuck::{Zeroable, cast};
use pulp::x86::V3;
use std::arch::x86_64::{__m256, __m256i, _MM_HINT_T0};
use std::hint::black_box;

/// Products of bytes.
pub trait Products: Copy {
    /// Returns sums of products of unsigned codes of `WORDS / 2` bits with activations: four neighbours each, in 32 bits.
    fn sums<const G: usize, const WORDS: usize>(self, codes: [__m256i; 4], x: [__m256i; 4]) -> [__m256i; G];
}

/// Products of AVX2, summed in pairs.
#[derive(Clone, Copy)]
pub struct Pairs(V3);

impl Products for Pairs {
    #[inline(always)]
    fn sums<const G: usize, const WORDS: usize>(self, codes: [__m256i; 4], x: [__m256i; 4]) -> [__m256i; G] {
        let (avx2, mut products) = (self.0.avx2, <[__m256i; G]>::zeroed());
        unroll!(at in 4 => {
            // Two products of 128 and 127 sum to less than 2^15.
            let (product, pairs) = (&mut products[at * G / 4], avx2._mm256_maddubs_epi16(codes[at], x[at]));
            *product = if WORDS < 16 {
                avx2._mm256_add_epi16(*product, pairs)
            } else {
                avx2._mm256_add_epi32(*product, avx2._mm256_madd_epi16(pairs, cast([1i16; 16])))
            };
        });
        if WORDS < 16 {
            unroll!(part in G => { products[part] = avx2._mm256_madd_epi16(products[part], cast([1i16; 16])); });
        }
        products
    }
}

/// AVX2 with one kind of products.
#[derive(Clone, Copy)]
pub struct X86<P> {
    pub simd: V3,
    pub products: P,
}

/// Work compiled for AVX2.
struct Vectorized<W>(V3, W);

impl<W: WithIntegers> pulp::NullaryFnOnce for Vectorized<W> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        self.1.with_integers(X86 { simd: self.0, products: Pairs(self.0) });
    }
}

/// Does work with the best products of this processor.
pub fn vectorize(simd: V3, work: impl WithIntegers) {
    if let Some(vnni) = Avx512Vnni::find() {
        vnni.vectorize(simd, work);
    } else if let Some(vnni) = AvxVnni::find() {
        vnni.vectorize(simd, work);
    } else {
        pairs(simd, work);
    }
}

/// Returns true if [`vectorize`] uses dot products.
pub fn has_dot_products() -> bool {
    Avx512Vnni::find().is_some() || AvxVnni::find().is_some()
}

/// Does work with the products of AVX2.
pub fn pairs(simd: V3, work: impl WithIntegers) {
    simd.vectorize(Vectorized(simd, work));
}

impl<P: Products> Integers for X86<P> {
    /// Two numbers per row, for its two sums.
    type Four = __m256;
    type Words = __m256i;

    #[inline(always)]
    fn scaled(self, numbers: &[f32; 4], factors: &[[i8; 4]; 2]) -> [[f32; 4]; 2] {
        let factors = self.simd.avx2._mm256_cvtepi8_epi32(self.simd.sse2._mm_set1_epi64x(cast(*factors)));
        cast(self.simd.avx._mm256_mul_ps(cast([*numbers; 2]), self.simd.avx._mm256_cvtepi32_ps(factors)))
    }

    #[inline(always)]
    fn factors(self, numbers: &[f32; 4]) -> __m256 {
        let places: [u32; 8] = [0, 0, 1, 1, 2, 2, 3, 3];
        self.simd.avx._mm256_permutevar_ps(self.simd.avx._mm256_broadcast_ps(&cast(*numbers)), cast(places))
    }

    #[inline(always)]
    fn summands(self, numbers: &[f32; 4]) -> __m256 {
        let zero = self.simd.avx._mm256_setzero_ps();
        self.simd.avx._mm256_blend_ps::<0b1010_1010>(self.factors(numbers), zero)
    }

    #[inline(always)]
    fn mul_add(self, a: __m256, b: __m256, c: __m256) -> __m256 {
        self.simd.fma._mm256_fmadd_ps(a, b, c)
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
        let both = self.simd.avx2._mm256_broadcastsi128_si256(cast(*words));
        self.simd.avx2._mm256_srlv_epi64(both, cast([0u64, 0, 4, 4]))
    }

    #[inline(always)]
    fn and(self, a: __m256i, b: __m256i) -> __m256i {
        self.simd.avx2._mm256_and_si256(a, b)
    }

    #[inline(always)]
    fn xor(self, a: __m256i, b: __m256i) -> __m256i {
        self.simd.avx2._mm256_xor_si256(a, b)
    }

    #[inline(always)]
    fn shifted<const N: i32>(self, words: __m256i) -> __m256i {
        self.simd.avx2._mm256_srli_epi64::<N>(words)
    }

    /// 2 KB ahead: by itself, a processor does so only within a page of 4 KB.
    #[inline(always)]
    fn prefetch(self, words: &[u64]) {
        for line in words.chunks(8) {
            self.simd.sse._mm_prefetch::<_MM_HINT_T0>(line.as_ptr().wrapping_add(256).cast());
        }
    }

    #[inline(always)]
    fn add<const N: usize, const G: usize, const WORDS: usize>(
        self,
        mut totals: [__m256; N],
        codes: [__m256i; 4],
        weights: FourScales<__m256, G>,
        x: &[Activations; N],
    ) -> [__m256; N] {
        let (V3 { avx, avx2, .. }, mut unsigned) = (self.simd, codes);
        if WORDS == 16 {
            unroll!(at in 4 => { unsigned[at] = avx2._mm256_abs_epi8(codes[at]); });
        }
        unroll!(i in N => {
            // The same activations for each row of weights, with the signs of the codes.
            let mut eights = <[__m256i; 4]>::zeroed();
            unroll!(at in 4 => {
                eights[at] = avx._mm256_set1_epi64x(x[i].codes[at]);
                if WORDS == 16 {
                    eights[at] = avx2._mm256_sign_epi8(eights[at], codes[at]);
                }
            });
            let products = self.products.sums::<G, WORDS>(unsigned, eights);
            unroll!(part in G => {
                let scale = avx._mm256_mul_ps(weights.scales[part], avx._mm256_set1_ps(x[i].scale));
                totals[i] = self.mul_add(avx._mm256_cvtepi32_ps(products[part]), scale, totals[i]);
                totals[i] = self.mul_add(weights.offsets[part], avx._mm256_set1_ps(x[i].sums::<G>()[part]), totals[i]);
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
