// Codes of 8 bits: 16 in 16 bytes.
fn packed(codes: Codes, i: u32) -> u32 {
    return codes[i];
}
