//! Search for the first weight that is NaN or infinite.

use super::dtype::{Dtype, Float};

/// Largest exponent of MXFP4 whose products with all codes are finite.
const LARGEST_POWER: u8 = 252;

/// Returns the index of the first element that is not finite. For quantised types, this is the first element of the block.
pub(super) fn first_non_finite(dtype: Dtype, bytes: &[u8]) -> Option<u64> {
    let (float, range) = dtype.floats();
    let block = dtype.block();
    if block.elements == 1 {
        return first_float(float, bytes);
    }
    // Products of integers and finite f16 numbers are finite. With other floats they almost always are.
    let found = bytes.chunks_exact(block.bytes).position(|bytes| match dtype {
        Dtype::Mxfp4 => bytes[0] > LARGEST_POWER,
        _ => first_float(float, &bytes[range.clone()]).is_some(),
    });
    found.map(|index| (index * block.elements) as u64)
}

/// Returns the index of the first plain float that is not finite.
///
/// All weights are checked here, so the loop processes 8 bytes at a time, with or without SIMD. An element is not finite if all its
/// exponent bits are set. Without the sign, adding one to the exponent then carries into the sign bit.
fn first_float(float: Float, bytes: &[u8]) -> Option<u64> {
    const BLOCK: usize = 512;
    let (signs, one) = match float {
        Float::F32 => (0x8000_0000_8000_0000_u64, 0x0080_0000_0080_0000),
        Float::F16 => (0x8000_8000_8000_8000, 0x0400_0400_0400_0400),
        Float::Bf16 => (0x8000_8000_8000_8000, 0x0080_0080_0080_0080),
    };
    let carries = |word: &[u8; 8]| ((u64::from_le_bytes(*word) & !signs) + one) & signs;
    let (words, tail) = bytes.as_chunks::<8>();
    let mut last = [0; 8];
    last.iter_mut().zip(tail).for_each(|(to, from)| *to = *from);
    // Blocks are folded without branches, so that compilers vectorise the loop.
    let suspect = words.chunks(BLOCK).position(|block| block.iter().fold(0, |all, word| all | carries(word)) != 0);
    let start = suspect.map_or(words.len(), |block| BLOCK * block);
    words.iter().skip(start).chain([&last]).zip(start as u64..).find_map(|(word, at)| {
        let found = carries(word);
        (found != 0).then(|| (8 * at + u64::from(found.trailing_zeros() / 8)) / float.size() as u64)
    })
}
