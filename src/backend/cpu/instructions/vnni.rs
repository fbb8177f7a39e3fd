//! Products on processors that multiply and add four bytes in one instruction: AVX-512 VNNI, AVX-VNNI.
//!
//! A value is the proof that the processor has the instructions: only `find` makes one.

use super::x86::{Products, X86};
use super::{WithIntegers, unroll};
use bytemuck::Zeroable;
use pulp::x86::V3;
use std::arch::is_x86_feature_detected;
use std::arch::x86_64::{__m256i, _mm256_dpbusd_avx_epi32, _mm256_dpbusd_epi32};

macro_rules! vnni {
    ($(#[$docs:meta])* $Vnni:ident, $dot:ident, $($feature:tt)*) => {
        $(#[$docs])*
        #[derive(Clone, Copy)]
        pub struct $Vnni(());

        impl $Vnni {
            /// Returns `None` if this processor lacks the instructions.
            pub fn find() -> Option<Self> {
                ($(is_x86_feature_detected!($feature))&&*).then_some(Self(()))
            }

            /// Does work, compiled for these instructions.
            pub fn vectorize(self, simd: V3, work: impl WithIntegers) {
                #[target_feature(enable = "avx2,bmi1,bmi2,fma,lzcnt,popcnt")]
                $(#[target_feature(enable = $feature)])*
                fn compiled<P: Products>(simd: V3, products: P, work: impl WithIntegers) {
                    work.with_integers(X86 { simd, products });
                }
                // SAFETY: the processor has the instructions of `simd` and of `self`.
                unsafe { compiled(simd, self, work) }
            }
        }

        impl Products for $Vnni {
            #[inline(always)]
            fn sums<const G: usize, const WORDS: usize>(
                self,
                codes: [__m256i; 4],
                x: [__m256i; 4],
            ) -> [__m256i; G] {
                let mut products = <[__m256i; G]>::zeroed();
                unroll!(at in 4 => {
                    let product = &mut products[at * G / 4];
                    // SAFETY: the processor has the instruction.
                    *product = unsafe { $dot(*product, codes[at], x[at]) };
                });
                products
            }
        }
    };
}

vnni!(
    /// Dot products of AVX-512, of Intel's processors since 2019 and AMD's since 2022.
    Avx512Vnni, _mm256_dpbusd_epi32, "avx512vl" "avx512vnni"
);
vnni!(
    /// Dot products of AVX, of Intel's processors without AVX-512 since 2021.
    AvxVnni, _mm256_dpbusd_avx_epi32, "avxvnni"
);

#[cfg(test)]
#[path = "tests.rs"]
pub mod tests;
