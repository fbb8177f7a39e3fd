// Codes of 8 bits: 16 in 16 bytes.
fn code4(codes: Codes, i: u32) -> vec4f {
    return bytes(codes[i]);
}
