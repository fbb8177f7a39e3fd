//! Integer instructions: products of blocks of 8-bit codes, with four rows of weights in the lanes of a vector. Inlined code has no
//! closures: they would be separate functions, compiled for any processor.

#[cfg(target_arch = "aarch64")]
#[allow(unsafe_code, reason = "no crate has safe functions for these instructions")]
pub mod arm;
#[cfg(all(target_arch = "wasm32", target_feature = "relaxed-simd"))]
mod dots;
#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code, reason = "no crate has safe functions for these instructions")]
pub mod vnni;
#[cfg(target_arch = "wasm32")]
mod wasm;
#[cfg(target_arch = "x86_64")]
mod x86;

use super::simd::{arch, mul_add, unroll};
#[cfg(target_arch = "aarch64")]
use arm::Arm;
use bytemuck::Zeroable;
#[cfg(all(target_arch = "wasm32", target_feature = "relaxed-simd"))]
use dots::Dots;
#[cfg(target_arch = "wasm32")]
use wasm::{Wasm, WidenedPairs, sums};
#[cfg(all(test, target_arch = "x86_64"))]
pub use x86::pairs;

/// Activations that share a scale.
pub const BLOCK: usize = 32;

/// Block of activations in 8 bits, each approximately `scale * code`.
#[derive(Clone, Copy, Zeroable)]
#[repr(C)]
pub struct Activations {
    codes: CodeWords,
    scale: f32,
    /// Sums of `scale * code`: over all, the first 16, the last 16.
    sums: [f32; 3],
    /// Corrections for weights with a bias of 128: -128 × sum of codes, for the same parts.
    #[cfg(all(target_arch = "wasm32", target_feature = "relaxed-simd"))]
    excess: [i32; 3],
}

/// Words of eight 8-bit codes.
#[cfg(any(not(target_arch = "wasm32"), target_feature = "relaxed-simd"))]
type CodeWords = [i64; BLOCK / 8];
/// Words of four 16-bit codes, which need no widening: of each eight, those at even places come first.
#[cfg(all(target_arch = "wasm32", not(target_feature = "relaxed-simd")))]
type CodeWords = [i64; BLOCK / 4];

impl Activations {
    #[inline(always)]
    pub fn new(codes: [i16; BLOCK], scale: f32) -> Self {
        let halves = sums(&codes);
        let (first, last) = (halves[0] as f32, halves[1] as f32);
        let sums = [scale * (first + last), scale * first, scale * last];
        #[cfg(target_arch = "wasm32")]
        let codes = wasm::stored(codes);
        #[cfg(not(target_arch = "wasm32"))]
        let codes = {
            let mut narrow = [0i8; BLOCK];
            for i in 0..BLOCK {
                narrow[i] = codes[i] as i8;
            }
            bytemuck::cast(narrow)
        };
        Self {
            codes,
            scale,
            sums,
            #[cfg(all(target_arch = "wasm32", target_feature = "relaxed-simd"))]
            excess: [-128 * (halves[0] + halves[1]), -128 * halves[0], -128 * halves[1]],
        }
    }

    /// Returns the corrections of G parts, in the order of [`Activations::sums`].
    #[cfg(all(target_arch = "wasm32", target_feature = "relaxed-simd"))]
    #[inline(always)]
    fn excess<const G: usize>(&self) -> &[i32] {
        if G == 1 { &self.excess[..1] } else { &self.excess[1..] }
    }

    /// Returns the sums of G parts.
    #[inline(always)]
    fn sums<const G: usize>(&self) -> &[f32] {
        if G == 1 { &self.sums[..1] } else { &self.sums[1..] }
    }

    #[inline(always)]
    fn code(&self, at: usize) -> i16 {
        #[cfg(all(target_arch = "wasm32", not(target_feature = "relaxed-simd")))]
        return (self.codes[at / 8 * 2 + at % 2] >> (at % 8 / 2 * 16)) as i16;
        #[cfg(any(not(target_arch = "wasm32"), target_feature = "relaxed-simd"))]
        i16::from((self.codes[at / 8] >> (at % 8 * 8)) as i8)
    }
}

/// Returns the sums of the first 16 and of the last 16 codes.
#[cfg(not(target_arch = "wasm32"))]
#[inline(always)]
fn sums(codes: &[i16; BLOCK]) -> [i32; 2] {
    let mut halves = [0i16; 2];
    unroll!(i in 8 => { halves[0] += codes[2 * i] + codes[2 * i + 1]; });
    unroll!(i in 8 => { halves[1] += codes[16 + 2 * i] + codes[17 + 2 * i]; });
    halves.map(i32::from)
}

/// Operations on a block of four rows of weights and N of activations. Weights have G scales and offsets per block.
pub trait Integers: Copy {
    /// One number per row of weights, or one for each sum of a row.
    type Four: Copy + Zeroable;
    /// Word of eight bytes per row of weights.
    type Words: Copy;

    /// Returns the products of four numbers with twice four factors.
    fn scaled(self, numbers: &[f32; 4], factors: &[[i8; 4]; 2]) -> [[f32; 4]; 2];
    /// Returns factors of all sums of four rows.
    fn factors(self, numbers: &[f32; 4]) -> Self::Four;
    /// Returns summands of four rows. Only the first of several sums of a row gets one.
    #[inline(always)]
    fn summands(self, numbers: &[f32; 4]) -> Self::Four {
        self.factors(numbers)
    }
    /// Returns `a * b + c`.
    fn mul_add(self, a: Self::Four, b: Self::Four, c: Self::Four) -> Self::Four;
    /// Returns words whose bytes all are `byte`.
    fn repeated(self, byte: u8) -> Self::Words;
    fn words(self, words: &[u64; 4]) -> Self::Words;
    /// Returns two words for the first two rows, and both shifted right by four bits for the others.
    fn spread(self, words: &[u64; 2]) -> Self::Words;
    fn and(self, a: Self::Words, b: Self::Words) -> Self::Words;
    fn xor(self, a: Self::Words, b: Self::Words) -> Self::Words;
    /// Shifts each word right by N bits.
    fn shifted<const N: i32>(self, words: Self::Words) -> Self::Words;
    /// Starts to load what follows these words in memory.
    #[inline(always)]
    fn prefetch(self, _words: &[u64]) {}
    /// Adds to `totals` the products with weights `scale * code + offset`. Codes have `WORDS / 2` bits: 8, signed, or fewer, unsigned, whose
    /// products are summed in 16 bits: up to 5 bits, or 6 with two parts per block.
    fn add<const N: usize, const G: usize, const WORDS: usize>(
        self,
        totals: [Self::Four; N],
        codes: [Self::Words; 4],
        weights: FourScales<Self::Four, G>,
        x: &[Activations; N],
    ) -> [Self::Four; N];
    fn total(self, totals: Self::Four) -> [f32; 4];
}

/// Scales and offsets of the G parts of a block.
#[derive(Clone, Copy, Zeroable)]
pub struct FourScales<F, const G: usize> {
    pub scales: [F; G],
    pub offsets: [F; G],
}

/// Work that is compiled for several instruction sets.
pub trait WithIntegers {
    /// Does it. Inlined into code for one instruction set.
    fn with_integers<I: Integers>(self, simd: I);
}

/// Does work with the best integer instructions of this processor.
pub fn with_integers(work: impl WithIntegers) {
    match arch() {
        #[cfg(target_arch = "aarch64")]
        _ if let Some(arm) = Arm::<true>::find() => arm.vectorize(work),
        #[cfg(target_arch = "aarch64")]
        _ if let Some(arm) = Arm::<false>::find() => arm.vectorize(work),
        #[cfg(target_arch = "x86_64")]
        pulp::Arch::V3(simd) => x86::vectorize(simd, work),
        #[cfg(target_arch = "x86_64")]
        pulp::Arch::V4(simd) => x86::vectorize(*simd, work),
        #[cfg(target_arch = "wasm32")]
        pulp::Arch::Simd128(simd) => {
            #[cfg(target_feature = "relaxed-simd")]
            if let Some(dots) = Dots::new() {
                return work.with_integers(Wasm::new(simd, dots));
            }
            work.with_integers(Wasm::new(simd, WidenedPairs));
        }
        _ => work.with_integers(PLAIN),
    }
}

/// Returns the name of the dot products that [`with_integers`] uses, for a description of the device; empty: none.
pub fn dot_products() -> &'static str {
    #[cfg(target_arch = "x86_64")]
    if x86::has_dot_products() {
        return " with VNNI";
    }
    #[cfg(target_arch = "aarch64")]
    if Arm::<false>::find().is_some() {
        return if Arm::<true>::find().is_some() { " with i8mm" } else { " with dotprod" };
    }
    ""
}

/// Portable code around a multiplier.
#[derive(Clone, Copy)]
pub struct Portable<M>(M);

/// Portable code for any processor.
pub const PLAIN: Portable<Plain> = Portable(Plain);

/// Multiplier of codes.
pub trait Multiplier: Copy {
    /// Multiplies four rows of codes with N rows of activations; returns sums for G parts of the block.
    fn products<const N: usize, const G: usize>(self, codes: [[u64; 4]; 4], x: &[Activations; N])
    -> [[[i32; 4]; G]; N];
}

/// Multiplication without vectors.
#[derive(Clone, Copy)]
pub struct Plain;

impl Multiplier for Plain {
    #[inline(always)]
    fn products<const N: usize, const G: usize>(
        self,
        codes: [[u64; 4]; 4],
        x: &[Activations; N],
    ) -> [[[i32; 4]; G]; N] {
        let codes: [[[i8; 8]; 4]; 4] = bytemuck::cast(codes);
        let mut products: [[[i32; 4]; G]; N] = Zeroable::zeroed();
        for (products, x) in products.iter_mut().zip(x) {
            for (at, codes) in codes.iter().enumerate() {
                for (row, codes) in codes.iter().enumerate() {
                    for (i, code) in codes.iter().enumerate() {
                        products[at * G / 4][row] += i32::from(*code) * i32::from(x.code(8 * at + i));
                    }
                }
            }
        }
        products
    }
}

impl<M: Multiplier> Integers for Portable<M> {
    type Four = [f32; 4];
    type Words = [u64; 4];

    #[inline(always)]
    fn scaled(self, numbers: &[f32; 4], factors: &[[i8; 4]; 2]) -> [[f32; 4]; 2] {
        let mut products = [*numbers; 2];
        unroll!(of in 2 => { unroll!(i in 4 => { products[of][i] *= f32::from(factors[of][i]); }); });
        products
    }

    #[inline(always)]
    fn factors(self, numbers: &[f32; 4]) -> [f32; 4] {
        *numbers
    }

    #[inline(always)]
    fn mul_add(self, a: [f32; 4], b: [f32; 4], mut c: [f32; 4]) -> [f32; 4] {
        unroll!(i in 4 => { c[i] = mul_add(a[i], b[i], c[i]); });
        c
    }

    #[inline(always)]
    fn repeated(self, byte: u8) -> [u64; 4] {
        [u64::from_ne_bytes([byte; 8]); 4]
    }

    #[inline(always)]
    fn words(self, words: &[u64; 4]) -> [u64; 4] {
        *words
    }

    #[inline(always)]
    fn spread(self, [a, b]: &[u64; 2]) -> [u64; 4] {
        [*a, *b, a >> 4, b >> 4]
    }

    #[inline(always)]
    fn and(self, mut a: [u64; 4], b: [u64; 4]) -> [u64; 4] {
        unroll!(i in 4 => { a[i] &= b[i]; });
        a
    }

    #[inline(always)]
    fn xor(self, mut a: [u64; 4], b: [u64; 4]) -> [u64; 4] {
        unroll!(i in 4 => { a[i] ^= b[i]; });
        a
    }

    #[inline(always)]
    fn shifted<const N: i32>(self, mut words: [u64; 4]) -> [u64; 4] {
        unroll!(i in 4 => { words[i] >>= N; });
        words
    }

    #[inline(always)]
    fn add<const N: usize, const G: usize, const WORDS: usize>(
        self,
        mut totals: [[f32; 4]; N],
        codes: [[u64; 4]; 4],
        FourScales { scales, offsets }: FourScales<[f32; 4], G>,
        x: &[Activations; N],
    ) -> [[f32; 4]; N] {
        let products: [[[i32; 4]; G]; N] = self.0.products(codes, x);
        unroll!(i in N => {
            unroll!(part in G => {
                unroll!(row in 4 => {
                    let scale = scales[part][row] * x[i].scale;
                    totals[i][row] = mul_add(products[i][part][row] as f32, scale, totals[i][row]);
                    totals[i][row] = mul_add(offsets[part][row], x[i].sums::<G>()[part], totals[i][row]);
                });
            });
        });
        totals
    }

    #[inline(always)]
    fn total(self, totals: [f32; 4]) -> [f32; 4] {
        totals
    }
}
