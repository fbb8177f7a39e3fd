fn word(bits: u32) -> u32 {
    return bitcast<u32>((f32(bits >> 8u) / 16777216.0 - 0.5) * 0.1);
}
