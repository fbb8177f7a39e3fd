//! Codes of quantised weights in memory: blocks of 32 codes of four rows, without unused bits.

use super::instructions::{Integers, PLAIN};
use super::simd::unroll;
use bytemuck::{Pod, Zeroable};

/// Unit in which codes are allocated. Loads of vectors that cross cache lines take longer.
#[derive(Clone, Copy, Default, Pod, Zeroable)]
#[repr(C, align(64))]
pub(super) struct CacheLine([u64; 8]);

/// Storage of codes.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum CodeLayout {
    /// Two words per row. Bytes of the first hold codes 0 to 7 and, in the upper bits, 8 to 15; those of the second the next 16.
    Four,
    /// Two words per row, a and b, and one per two rows. Lower bits of a and b: codes 0 to 7 and 8 to 15. The next codes are the lower
    /// bits of `a >> 3 ^ c` and `b >> 3 ^ c >> 2`. c is the common word, for the last two rows shifted right by 4.
    Five,
    /// Three words per row. Lower bits: codes 0 to 23. The next codes are the lower bits of `a >> 2 ^ b >> 4 ^ c >> 6`.
    Six,
    /// Four words per row: signed bytes.
    Eight,
}

/// Returns a word of eight equal bytes.
const fn repeated(byte: u8) -> u64 {
    u64::from_ne_bytes([byte; 8])
}

impl CodeLayout {
    /// Returns the words of a block of four rows, twice the bits of a code.
    pub fn words(self) -> usize {
        match self {
            Self::Four => 8,
            Self::Five => 10,
            Self::Six => 12,
            Self::Eight => 16,
        }
    }

    /// Returns the mask that makes codes signed.
    #[inline(always)]
    pub fn signs(self) -> u64 {
        if self == Self::Eight { repeated(128) } else { 0 }
    }

    /// Writes the codes of a row to a block. Rows are written in order. Shifts bring along bits of other codes; spare bits cancel them.
    pub fn pack(self, codes: &[u8; 32], row: usize, block: &mut [u64]) {
        let [mut a, mut b, mut c, d] = [0, 1, 2, 3].map(|at| u64::from_le_bytes(codes.as_chunks().0[at]));
        match self {
            Self::Four => [a, b] = [a | b << 4, c | d << 4],
            Self::Five => {
                const THREE: u64 = repeated(3);
                const UPPER: u64 = repeated(7 << 5);
                let (at, shift) = (8 + row % 2, row / 2 * 4);
                let [third, fourth] = [c ^ a >> 3, d ^ b >> 3];
                let own = third & THREE | (fourth & THREE) << 2;
                block[at] |= own << shift;
                let common = block[at] >> shift;
                a |= (third ^ common) << 3 & UPPER;
                b |= (fourth ^ common >> 2) << 3 & UPPER;
                if row >= 2 {
                    // The common word has these bits now for the other row too.
                    block[row - 2] ^= own << 7 & UPPER;
                    block[row + 2] ^= own << 5 & UPPER;
                }
            }
            Self::Six => {
                let last = d ^ a >> 2 ^ b >> 4 ^ c >> 6;
                a |= (last & repeated(3 << 4)) << 2;
                b |= (last & repeated(3 << 2)) << 4;
                c |= (last & repeated(3)) << 6;
            }
            Self::Eight => {}
        }
        for at in 0..block.len() / 4 {
            block[4 * at + row] = [a, b, c, d][at] ^ self.signs();
        }
    }

    /// Returns the codes of four rows in block `at`, as [`unpacked`]. Not inlined: that would not be faster, and adds code to pages.
    #[inline(never)]
    pub fn unpack(self, blocks: &[u64], at: usize) -> [[u64; 4]; 4] {
        match self {
            Self::Four => unpacked(PLAIN, &blocks.as_chunks::<8>().0[at], mask(PLAIN, 8)),
            Self::Five => unpacked(PLAIN, &blocks.as_chunks::<10>().0[at], mask(PLAIN, 10)),
            Self::Six => unpacked(PLAIN, &blocks.as_chunks::<12>().0[at], mask(PLAIN, 12)),
            Self::Eight => unpacked(PLAIN, &blocks.as_chunks::<16>().0[at], mask(PLAIN, 16)),
        }
    }
}

/// Returns the mask of the bits of codes.
#[inline(always)]
pub(super) fn mask<I: Integers>(simd: I, words: usize) -> I::Words {
    simd.repeated(u8::MAX >> (8 - words / 2))
}

/// Returns the codes of four rows in bytes: codes 0 to 7, 8 to 15, 16 to 23 and 24 to 31.
#[inline(always)]
pub(super) fn unpacked<I: Integers, const WORDS: usize>(
    simd: I,
    block: &[u64; WORDS],
    mask: I::Words,
) -> [I::Words; 4] {
    let fours = block.as_chunks::<4>().0;
    let (a, b) = (simd.words(&fours[0]), simd.words(&fours[1]));
    let mut codes = match WORDS {
        8 => [a, simd.shifted::<4>(a), b, simd.shifted::<4>(b)],
        10 => {
            let common = simd.spread(&[block[8], block[9]]);
            let (third, fourth) = (simd.shifted::<3>(a), simd.shifted::<3>(b));
            [a, b, simd.xor(third, common), simd.xor(fourth, simd.shifted::<2>(common))]
        }
        12 => {
            let c = simd.words(&fours[2]);
            let last = simd.xor(simd.shifted::<2>(a), simd.shifted::<4>(b));
            [a, b, c, simd.xor(last, simd.shifted::<6>(c))]
        }
        _ => return [a, b, simd.words(&fours[2]), simd.words(&fours[3])],
    };
    unroll!(at in 4 => { codes[at] = simd.and(codes[at], mask); });
    codes
}
