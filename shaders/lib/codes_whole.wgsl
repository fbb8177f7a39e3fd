const HIGH_LESS = 0;
const HIGH_SHIFT = 0u;
fn low_codes(codes: Codes) -> vec4u {
    return vec4u(packed(codes, 0u), packed(codes, 1u), packed(codes, 2u), packed(codes, 3u));
}
fn high_codes(codes: Codes) -> vec4u {
    return vec4u(packed(codes, 4u), packed(codes, 5u), packed(codes, 6u), packed(codes, 7u));
}
