alias Codes = u32;
fn load_codes(first: First, planes: Planes, chunk: u32) -> Codes {
    return word(first, 0u, chunk);
}
fn packed(codes: Codes, i: u32) -> u32 {
    return ((codes >> i) & 0x01010101u) << 1u;
}
