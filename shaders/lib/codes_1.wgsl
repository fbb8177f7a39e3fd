// Codes of 1 bit, for 0 and 2: 32 in 4 bytes, four chunks in a unit. Bit i of byte b is that of code 4i + b.
alias Codes = u32;
fn load_codes(first: First, planes: Planes, chunk: u32) -> Codes {
    return word(first, 0u, chunk);
}
fn packed(codes: Codes, i: u32) -> u32 {
    return ((codes >> i) & 0x01010101u) << 1u;
}
