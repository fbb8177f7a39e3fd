fn load_scales(first: First, planes: Planes, chunk: u32) -> Scales {
    let factors = weights[unit(first, planes.scales + chunk / 8u)][planes.lane.word] >> planes.lane.shift;
    let by = halves(word(first, planes.scales + planes.chunks / 8u, chunk / 8u));
    return vec4f(by.x * small(factors & 0x000f000fu), -by.y * small((factors >> 4u) & 0x000f000fu));
}
