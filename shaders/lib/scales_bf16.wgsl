fn load_scales(first: First, planes: Planes, chunk: u32) -> Scales {
    let pair = word(first, planes.scales, chunk / GROUP_CHUNKS);
    return bitcast<vec2f>(vec2u(pair << 16u, pair & 0xffff0000u));
}
