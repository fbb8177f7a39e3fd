// Codes of 8 bits: 16 in 16 bytes.
const CHUNK4 = 4u;
fn code4(codes: Codes, i: u32) -> vec4f {
    return bytes(codes[i]);
}
