// Codes of 4 bits: 32 in 16 bytes.
fn packed(codes: Codes, i: u32) -> u32 {
    return nibbles(codes, i);
}
