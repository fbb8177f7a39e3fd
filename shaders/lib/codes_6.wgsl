struct Codes { low: vec4u, high: vec2u }
fn load_codes(first: First, planes: Planes, chunk: u32) -> Codes {
    let two = weights[unit(first, planes.chunks + chunk / 2u)];
    return Codes(weights[unit(first, chunk)], select(two.xy, two.zw, planes.lane.is_odd));
}
fn from_spare(a: u32, b: u32, c: u32) -> u32 {
    return ((a >> 6u) & 0x03030303u) | ((b >> 4u) & 0x0c0c0c0cu) | ((c >> 2u) & 0x30303030u);
}
fn packed(codes: Codes, i: u32) -> u32 {
    if (i == 6u) {
        return from_spare(codes.low.x, codes.low.y, codes.low.z);
    }
    if (i == 7u) {
        return from_spare(codes.low.w, codes.high.x, codes.high.y);
    }
    return select(codes.low[i % 4u], codes.high[i % 2u], i >= 4u) & 0x3f3f3f3fu;
}
