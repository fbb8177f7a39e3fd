// Codes of 4 bits: 32 in 16 bytes; those in upper halves of bytes stand there less 8.
fn packed(codes: Codes, i: u32) -> u32 {
    return nibbles(codes, i) ^ (i / 4u * 0x08080808u);
}

// Where a mask is all that it takes, codes 16 to 31 come less HIGH_LESS and shifted by HIGH_SHIFT.
const HIGH_LESS = 8;
const HIGH_SHIFT = 4u;
fn low_codes(codes: Codes) -> vec4u {
    return codes & vec4u(0x0f0f0f0fu);
}
fn high_codes(codes: Codes) -> vec4u {
    return codes & vec4u(0xf0f0f0f0u);
}
