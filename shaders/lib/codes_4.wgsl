// Codes of 4 bits: 32 in 16 bytes.
fn code4(codes: Codes, i: u32) -> vec4f {
    return bytes(nibbles(codes, i));
}
