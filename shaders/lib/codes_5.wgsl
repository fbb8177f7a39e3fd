// Codes of 5 bits: chunks of 32 lower halves, then 4 bytes of highest bits for each chunk.
const CHUNK4 = 8u;
struct Codes { low: vec4u, high: u32 }
fn load_codes(base: u32, chunk: u32) -> Codes {
    return Codes(weights[base + chunk], word((base + dims.chunks) * 4u + chunk));
}
fn code4(codes: Codes, i: u32) -> vec4f {
    return bytes(nibbles(codes.low, i) | (((codes.high >> i) & 0x01010101u) << 4u));
}
