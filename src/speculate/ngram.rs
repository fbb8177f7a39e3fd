//! Hash keys of n-grams.

/// Returns keys of the last 1, 2, ... tokens, up to `longest`. Different n-grams may share a key.
pub(super) fn keys(tokens: &[u32], longest: usize) -> impl Iterator<Item = u64> {
    tokens.iter().rev().take(longest).scan(0u64, |key, &token| {
        // Multiplication by an odd constant and a shift, as in splitmix64.
        *key = (*key ^ (u64::from(token) + 1)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        *key ^= *key >> 29;
        Some(*key)
    })
}
