// Codes of 6 bits: chunks of 32 lower nibbles, then 8 bytes of pairs of highest bits for each chunk.
struct Codes { low: vec4u, high: vec2u }
fn load_codes(first: u32, planes: Planes, chunk: u32) -> Codes {
    let two = weights[first + (planes.chunks + chunk / 2u) * 8u];
    return Codes(weights[first + chunk * 8u], select(two.xy, two.zw, chunk % 2u == 1u));
}
fn packed(codes: Codes, i: u32) -> u32 {
    let high = (codes.high[i / 4u] >> (i % 4u * 2u)) & 0x03030303u;
    return nibbles(codes.low, i) | (high << 4u);
}
