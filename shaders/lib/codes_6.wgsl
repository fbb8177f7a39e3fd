// Codes of 6 bits: chunks of 32 lower nibbles, then 8 bytes of pairs of highest bits for each chunk.
const CHUNK4 = 8u;
struct Codes { low: vec4u, high: vec2u }
fn load_codes(base: u32, chunk: u32) -> Codes {
    let at = (base + dims.chunks) * 4u + chunk * 2u;
    return Codes(weights[base + chunk], vec2u(word(at), word(at + 1u)));
}
fn code4(codes: Codes, i: u32) -> vec4f {
    let high = (codes.high[i / 4u] >> (i % 4u * 2u)) & 0x03030303u;
    return bytes(nibbles(codes.low, i) | (high << 4u));
}
