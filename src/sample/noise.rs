//! Stateless keyed noise: a function of seed, position and token.

/// Computes Threefry-2x32 with 20 rounds (Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3"): two pseudorandom words
/// from a key and a counter. It needs only u32 additions, rotations and xor, which shaders have.
pub fn threefry2x32(key: [u32; 2], counter: [u32; 2]) -> [u32; 2] {
    const ROTATIONS: [u32; 8] = [13, 15, 26, 6, 17, 29, 16, 24];
    const PARITY: u32 = 0x1bd1_1bda;
    let keys = [key[0], key[1], PARITY ^ key[0] ^ key[1]];
    let mut x = [counter[0].wrapping_add(keys[0]), counter[1].wrapping_add(keys[1])];
    for round in 0..20 {
        x[0] = x[0].wrapping_add(x[1]);
        x[1] = x[1].rotate_left(ROTATIONS[round % 8]) ^ x[0];
        if round % 4 == 3 {
            let group = round / 4 + 1;
            x[0] = x[0].wrapping_add(keys[group % 3]);
            x[1] = x[1].wrapping_add(keys[(group + 1) % 3]).wrapping_add(group as u32);
        }
    }
    x
}

/// Returns standard Gumbel noise for one token at one position: -ln(E) with E exponential.
///
/// E = -ln(1 - v) with v uniform in (0, 1). Both tails are accurate in f32: small v keeps its leading bits, and 1 - v is computed before
/// rounding.
pub fn gumbel(seed: u64, position: u32, token: u32) -> f32 {
    -exponential(seed, 0, position, token).ln()
}

/// Returns the E of [`gumbel`] in a stream. Positions are below 2^28.
pub fn exponential(seed: u64, stream: u32, position: u32, token: u32) -> f32 {
    let [high, low] = words(seed, stream, position, token);
    inverse(high, low)
}

/// Returns a number in [0, 1) for a position, in steps of 2^-24.
pub fn uniform(seed: u64, stream: u32, position: u32) -> f32 {
    (words(seed, stream, position, 0)[0] >> 8) as f32 / 16_777_216.0
}

fn words(seed: u64, stream: u32, position: u32, token: u32) -> [u32; 2] {
    threefry2x32([seed as u32, (seed >> 32) as u32], [position | stream << 28, token])
}

fn inverse(high: u32, low: u32) -> f32 {
    const UNIT: f32 = 1.0 / 4_294_967_296.0;
    if high < 1 << 31 {
        // Both words as one 64-bit number, plus half a unit.
        let v = if high >= 1 << 24 { high as f32 * UNIT } else { (high as f32 + (low as f32 + 0.5) * UNIT) * UNIT };
        -(-v).ln_1p()
    } else {
        -((!high as f32 + (!low as f32 + 0.5) * UNIT) * UNIT).ln()
    }
}

#[cfg(test)]
mod tests;
