alias Lane = u32;
fn lane_of(chunk: u32) -> Lane {
    return chunk / GROUP_CHUNKS % 2u * 16u;
}
fn load_scales(first: First, planes: Planes, chunk: u32) -> Scales {
    let scale = halves(word(first, planes.scales, chunk / GROUP_CHUNKS / 2u) >> planes.lane).x;
    return vec2f(scale, -CENTER * scale);
}
