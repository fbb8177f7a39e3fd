fn load_scales(first: First, planes: Planes, chunk: u32) -> Scales {
    let group = chunk / GROUP_CHUNKS;
    let two = weights[unit(first, planes.scales + group / 2u)];
    return bitcast<vec2f>(select(two.xy, two.zw, group % 2u == 1u));
}
