//! Products on processors that multiply and add four bytes in one instruction: AVX-VNNI, Arm's dot products.

use super::wasm::{Eights, Multiply, eight, sum_parts};
use super::{Activations, unroll};
use bytemuck::Zeroable;
use std::arch::wasm32::{
    i8x16_splat, i32x4_add, i32x4_extract_lane, i32x4_relaxed_dot_i8x16_i7x16_add, i32x4_splat, v128, v128_and,
    v128_xor,
};
use std::hint::black_box;

#[derive(Clone, Copy)]
pub struct Dots {
    /// Mask that turns signed codes into the operand type of the instruction.
    flip: v128,
    /// All bits set if the converted codes are larger by 128.
    is_larger: v128,
}

impl Dots {
    /// Returns `None` if the dot product is several instructions here. The result for an operand with its top bit set shows it: it is
    /// implementation-defined, but must be consistent.
    #[inline(always)]
    pub fn new() -> Option<Self> {
        let (first, second) = black_box((i8x16_splat(127), i8x16_splat(-1)));
        let product = i32x4_extract_lane::<0>(i32x4_relaxed_dot_i8x16_i7x16_add(first, second, i32x4_splat(0)));
        let (flip, is_larger) = match product {
            // Unsigned bytes, and no sum of two products is cut to 16 bits.
            129_540 => (i8x16_splat(-128), i32x4_splat(-1)),
            // Signed bytes.
            -508 => (i32x4_splat(0), i32x4_splat(0)),
            _ => return None,
        };
        Some(Self { flip: black_box(flip), is_larger: black_box(is_larger) })
    }
}

impl Multiply for Dots {
    #[inline(always)]
    fn small<const G: usize, const WORDS: usize>(self, codes: Eights, x: &Activations) -> [v128; G] {
        let mut products: [[v128; 2]; G] = Zeroable::zeroed();
        unroll!(at in 4 => {
            let (x, [first, last]) = (eight(x, at), products[at * G / 4]);
            products[at * G / 4] = [
                i32x4_relaxed_dot_i8x16_i7x16_add(x, codes[at][0], first),
                i32x4_relaxed_dot_i8x16_i7x16_add(x, codes[at][1], last),
            ];
        });
        sum_parts(products)
    }

    #[inline(always)]
    fn prepared(self, mut codes: Eights) -> Eights {
        unroll!(at in 4 => { codes[at] = [v128_xor(codes[at][0], self.flip), v128_xor(codes[at][1], self.flip)]; });
        codes
    }

    #[inline(always)]
    fn bytes<const G: usize>(self, codes: Eights, x: &Activations) -> [v128; G] {
        let mut products = self.small::<G, 16>(codes, x);
        unroll!(part in G => {
            let excess = v128_and(i32x4_splat(x.excess::<G>()[part]), self.is_larger);
            products[part] = i32x4_add(products[part], excess);
        });
        products
    }
}
