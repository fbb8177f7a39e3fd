struct Codes { low: vec4u, high: u32 }
fn load_codes(first: First, planes: Planes, chunk: u32) -> Codes {
    return Codes(weights[unit(first, chunk)], word(first, planes.chunks, chunk));
}
fn packed(codes: Codes, i: u32) -> u32 {
    return nibbles(codes.low, i) | (select(codes.high >> i, codes.high << (8u - i), i >= 4u) & 0x10101010u);
}
