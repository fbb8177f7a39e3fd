fn load_scales(first: First, planes: Planes, chunk: u32) -> Scales {
    let factors = (weights[unit(first, planes.scales + chunk / 8u)][planes.lane.word] >> planes.lane.shift) & 0x00ff00ffu;
    let scale = halves(word(first, planes.scales + planes.chunks / 8u, chunk / 8u)).x;
    let scales = scale * small(factors) - scale * (128.0 / WEIGHT_SCALE);
    return vec4f(scales, -CENTER * scales);
}
