//! Those of WebAssembly where a processor multiplies fours of bytes and adds the products in one instruction: AVX-VNNI, Arm's dot products.
//! The sums are those of [`Wasm`], which are exact too.

use super::wasm::{Wasm, eight, sum_pairs};
use super::{Activations, Bytes, Integers, Nibbles, Scales, unroll};
use bytemuck::{Zeroable, cast};
use pulp::wasm::Simd128;
use std::arch::wasm32::{
    i8x16_splat, i32x4_add, i32x4_extract_lane, i32x4_relaxed_dot_i8x16_i7x16_add, i32x4_splat, v128, v128_and,
    v128_xor,
};
use std::hint::black_box;

#[derive(Clone, Copy)]
pub struct Dots {
    wasm: Wasm,
    /// What makes codes with a sign those that the instruction takes.
    flip: v128,
    /// All bits where those are larger by 128.
    is_larger: v128,
}

impl Dots {
    /// None where the instruction is several. What it makes of a second factor whose highest bit is set tells: the standard leaves that
    /// open, but not that it is the same each time.
    #[inline(always)]
    pub fn new(simd: Simd128) -> Option<Self> {
        let (first, second) = black_box((i8x16_splat(127), i8x16_splat(-1)));
        let product = i32x4_extract_lane::<0>(i32x4_relaxed_dot_i8x16_i7x16_add(first, second, i32x4_splat(0)));
        let (flip, is_larger) = match product {
            // Bytes without a sign, and no sum of two in 16 bits.
            129_540 => (i8x16_splat(-128), i32x4_splat(-1)),
            // Bytes with a sign.
            -508 => (i32x4_splat(0), i32x4_splat(0)),
            _ => return None,
        };
        Some(Self { wasm: Wasm::new(simd), flip: black_box(flip), is_larger: black_box(is_larger) })
    }

    /// The products of 32 codes of two rows, and of two others, with the same activations.
    #[inline(always)]
    fn multiply<const G: usize>(codes: [[v128; 2]; 4], x: &Activations) -> [v128; G] {
        let mut products: [[v128; 2]; G] = Zeroable::zeroed();
        unroll!(at in 4 => {
            let (x, [first, last]) = (eight(x, at), products[at * G / 4]);
            products[at * G / 4] = [
                i32x4_relaxed_dot_i8x16_i7x16_add(x, codes[at][0], first),
                i32x4_relaxed_dot_i8x16_i7x16_add(x, codes[at][1], last),
            ];
        });
        let mut sums: [v128; G] = Zeroable::zeroed();
        unroll!(part in G => { sums[part] = sum_pairs(products[part]); });
        sums
    }
}

impl Integers for Dots {
    type Four = v128;
    type Totals = v128;

    #[inline(always)]
    fn splat(self, number: f32) -> v128 {
        self.wasm.splat(number)
    }

    #[inline(always)]
    fn four(self, numbers: &[f32; 4]) -> v128 {
        self.wasm.four(numbers)
    }

    #[inline(always)]
    fn mul_add(self, a: v128, b: v128, c: v128) -> v128 {
        self.wasm.mul_add(a, b, c)
    }

    #[inline(always)]
    fn add_nibbles<const N: usize, const G: usize>(
        self,
        mut totals: [v128; N],
        codes: &Nibbles,
        weights: Scales<v128, G>,
        x: &[Activations; N],
    ) -> [v128; N] {
        let codes = self.wasm.nibbles(codes);
        unroll!(i in N => {
            black_box(());
            let products = Self::multiply::<G>(codes, &x[i]);
            unroll!(part in G => { totals[i] = self.wasm.add(totals[i], products[part], weights, part, &x[i]); });
        });
        totals
    }

    #[inline(always)]
    fn add_bytes<const N: usize, const G: usize>(
        self,
        mut totals: [v128; N],
        codes: &Bytes,
        weights: Scales<v128, G>,
        x: &[Activations; N],
    ) -> [v128; N] {
        let mut codes: [[v128; 2]; 4] = cast(*codes);
        unroll!(at in 4 => { codes[at] = [v128_xor(codes[at][0], self.flip), v128_xor(codes[at][1], self.flip)]; });
        unroll!(i in N => {
            black_box(());
            let products = Self::multiply::<G>(codes, &x[i]);
            unroll!(part in G => {
                let excess = v128_and(i32x4_splat(x[i].excess::<G>()[part]), self.is_larger);
                totals[i] = self.wasm.add(totals[i], i32x4_add(products[part], excess), weights, part, &x[i]);
            });
        });
        totals
    }

    #[inline(always)]
    fn total(self, totals: v128) -> [f32; 4] {
        self.wasm.total(totals)
    }
}
