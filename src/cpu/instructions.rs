//! The integer instructions of processors: products of blocks of 8-bit codes, four at a time. What is inlined has no closures: they are
//! functions of their own, compiled for any processor.

use super::simd::{mul_add, unroll};
use bytemuck::Zeroable;

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

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::{Activations, BLOCK, Integers, mul_add, unroll};
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
}

#[cfg(target_arch = "wasm32")]
mod simd128 {
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
}

#[cfg(target_feature = "relaxed-simd")]
pub use relaxed::Relaxed;

#[cfg(target_feature = "relaxed-simd")]
mod relaxed {
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
}
