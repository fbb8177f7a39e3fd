fn load_scales(first: First, planes: Planes, chunk: u32) -> Scales {
    return halves(word(first, planes.scales, chunk / GROUP_CHUNKS));
}
