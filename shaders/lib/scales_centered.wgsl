// An f16 for each group of chunks: its scale. CENTER is the code for zero.
fn load_scales(first: u32, planes: Planes, chunk: u32) -> Scales {
    let group = chunk / GROUP_CHUNKS;
    let scale = halves(word(first, planes.scales, group / 2u) >> (group % 2u * 16u)).x;
    return vec2f(scale, -CENTER * scale);
}
