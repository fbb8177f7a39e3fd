fn packed(codes: Codes, i: u32) -> u32 {
    return nibbles(codes, i) ^ (i / 4u * 0x08080808u);
}

// A mask extracts codes 16 to 31. The results are shifted left by HIGH_SHIFT and lower by HIGH_LESS.
const HIGH_LESS = 8;
const HIGH_SHIFT = 4u;
fn low_codes(codes: Codes) -> vec4u {
    return codes & vec4u(0x0f0f0f0fu);
}
fn high_codes(codes: Codes) -> vec4u {
    return codes & vec4u(0xf0f0f0f0u);
}
