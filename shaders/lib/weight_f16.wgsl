fn weight4(raw: Raw, i: u32) -> vec4f {
    let pair = select(raw.xy, raw.zw, i == 1u);
    return vec4f(halves(pair.x), halves(pair.y));
}
