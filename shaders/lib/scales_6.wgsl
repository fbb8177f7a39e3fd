// 16 bytes for each 8 chunks: scale and min as f16; then factors of 6 bits, of the scale in lower halves of words and of the min in
// upper halves: four times the lower 4 bits, four times again, eight times the others.
fn load_scales(first: u32, planes: Planes, chunk: u32) -> Scales {
    let header = weights[first + (planes.scales + chunk / 8u) * 8u];
    let i = chunk % 8u;
    let low = select(header.y, header.z, i >= 4u) >> (i % 4u * 4u);
    let factors = (low & 0x000f000fu) | (((header.w >> (i * 2u)) & 0x00030003u) << 4u);
    let by = halves(header.x) * vec2f(vec2u(factors & 0xffu, factors >> 16u));
    return vec2f(by.x, -by.y);
}
