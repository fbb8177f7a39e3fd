//! Integer instructions of 64-bit Arm with dot products (`sdot`), and for several rows with products of matrices (`smmla`, i8mm).
//!
//! Unsafe, because the standard library's functions are unstable. Only [`Arm::find`] makes an [`Arm`].

use super::{Activations, Multiplier, Portable, WithIntegers, unroll};
use bytemuck::{Zeroable, cast};
use pulp::core_arch::aarch64::Neon;
use std::arch::aarch64::{int32x4_t, uint64x2_t};
use std::arch::{asm, is_aarch64_feature_detected};

macro_rules! instruction {
    ($name:ident, $instruction:literal) => {
        #[inline(always)]
        fn $name(self, mut sums: int32x4_t, a: uint64x2_t, b: uint64x2_t) -> int32x4_t {
            // SAFETY: the processor has the instruction, which changes nothing else.
            unsafe {
                asm!(
                    concat!($instruction, " {0:v}.4s, {1:v}.16b, {2:v}.16b"),
                    inout(vreg) sums, in(vreg) a, in(vreg) b,
                    options(pure, nomem, nostack, preserves_flags)
                );
            }
            sums
        }
    };
}

/// Dot products, and products of `MATRICES` for several rows of activations.
#[derive(Clone, Copy)]
pub struct Arm<const MATRICES: bool>(Neon);

impl<const MATRICES: bool> Arm<MATRICES> {
    /// Returns `None` if this processor lacks the instructions.
    pub fn find() -> Option<Self> {
        let has_all = is_aarch64_feature_detected!("dotprod") && (!MATRICES || is_aarch64_feature_detected!("i8mm"));
        Neon::try_new().filter(|_| has_all).map(Self)
    }

    /// Does work, compiled for these instructions.
    pub fn vectorize(self, work: impl WithIntegers) {
        #[target_feature(enable = "neon,dotprod")]
        fn dots(arm: Portable<impl Multiplier>, work: impl WithIntegers) {
            work.with_integers(arm);
        }
        #[target_feature(enable = "neon,dotprod,i8mm")]
        fn matrices(arm: Portable<impl Multiplier>, work: impl WithIntegers) {
            work.with_integers(arm);
        }
        // SAFETY: the processor has the instructions.
        unsafe { if MATRICES { matrices(Portable(self), work) } else { dots(Portable(self), work) } }
    }

    // Adds the products of four neighbours to each sum.
    instruction!(dot, "sdot");
    // Adds the products of eight neighbours: first row of `a` with both of `b`, then second. Only with `MATRICES`.
    instruction!(product, "smmla");

    /// Multiplies with one row of activations.
    #[inline(always)]
    fn one<const G: usize>(self, codes: [[uint64x2_t; 2]; 4], x: &Activations) -> [[i32; 4]; G] {
        let mut sums: [[int32x4_t; 2]; G] = Zeroable::zeroed();
        unroll!(at in 4 => {
            let (x, [first, last]) = (self.0.vdupq_n_u64(x.codes[at] as u64), sums[at * G / 4]);
            sums[at * G / 4] = [self.dot(first, codes[at][0], x), self.dot(last, codes[at][1], x)];
        });
        let mut products: [[i32; 4]; G] = Zeroable::zeroed();
        unroll!(part in G => { products[part] = cast(self.0.vpaddq_s32(sums[part][0], sums[part][1])); });
        products
    }
}

impl<const MATRICES: bool> Multiplier for Arm<MATRICES> {
    #[inline(always)]
    fn products<const N: usize, const G: usize>(
        self,
        codes: [[u64; 4]; 4],
        x: &[Activations; N],
    ) -> [[[i32; 4]; G]; N] {
        let codes: [[uint64x2_t; 2]; 4] = cast(codes);
        let mut products: [[[i32; 4]; G]; N] = Zeroable::zeroed();
        if !MATRICES || N == 1 {
            unroll!(i in N => { products[i] = self.one(codes, &x[i]); });
            return products;
        }
        unroll!(pair in N / 2 => {
            let (a, b) = (2 * pair, 2 * pair + 1);
            let mut sums: [[int32x4_t; 2]; G] = Zeroable::zeroed();
            unroll!(at in 4 => {
                let (x, [first, last]) = (cast([x[a].codes[at], x[b].codes[at]]), sums[at * G / 4]);
                sums[at * G / 4] = [self.product(first, codes[at][0], x), self.product(last, codes[at][1], x)];
            });
            unroll!(part in G => {
                let [first, last] = sums[part];
                products[a][part] = cast(self.0.vuzp1q_s32(first, last));
                products[b][part] = cast(self.0.vuzp2q_s32(first, last));
            });
        });
        products
    }
}
