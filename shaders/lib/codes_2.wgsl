alias Codes = vec2u;
fn load_codes(first: First, planes: Planes, chunk: u32) -> Codes {
    let two = weights[unit(first, chunk / 2u)];
    return select(two.xy, two.zw, chunk % 2u == 1u);
}
fn packed(codes: Codes, i: u32) -> u32 {
    return (codes[i / 4u] >> (i % 4u * 2u)) & 0x03030303u;
}
