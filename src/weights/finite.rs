//! The first weight that is NaN or infinite.

use super::dtype::{Dtype, Float};

/// The index of the first element that is not finite; of a block, the first element.
pub(super) fn first_non_finite(dtype: Dtype, bytes: &[u8]) -> Option<u64> {
    let (float, range) = dtype.floats();
    let block = dtype.block();
    if block.elements == 1 {
        return first_float(float, bytes);
    }
    // Integers times finite f16 are finite, and so nearly always are those times other floats.
    let blocks = bytes.chunks_exact(block.bytes);
    let found = blocks.into_iter().position(|bytes| first_float(float, &bytes[range.clone()]).is_some());
    found.map(|index| (index * block.elements) as u64)
}

/// The same for plain floats.
///
/// All weights pass through here, so it looks at 8 bytes at once, with or without SIMD: an element is not finite when all bits of its
/// exponent are set, and then, without its sign, adding one to the exponent carries into the place of the sign.
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
    // A block is summed up without a branch, which compilers turn into vector instructions.
    let suspect = words.chunks(BLOCK).position(|block| block.iter().fold(0, |all, word| all | carries(word)) != 0);
    let start = suspect.map_or(words.len(), |block| BLOCK * block);
    words.iter().skip(start).chain([&last]).zip(start as u64..).find_map(|(word, at)| {
        let found = carries(word);
        (found != 0).then(|| (8 * at + u64::from(found.trailing_zeros() / 8)) / float.size() as u64)
    })
}
