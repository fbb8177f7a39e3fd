fn weight4(raw: Raw, i: u32) -> vec4f {
    let pair = select(raw.xy, raw.zw, i == 1u);
    return bitcast<vec4f>(vec4u(pair.x << 16u, pair.x & 0xffff0000u, pair.y << 16u, pair.y & 0xffff0000u));
}
