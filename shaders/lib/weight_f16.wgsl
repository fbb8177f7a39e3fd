// Weights stored as f16, unpacked without shader-f16: 8 in 16 bytes.
const CHUNK4 = 2u;

// By hand, since a driver may flush f16 subnormals in unpack2x16float: the exponent is moved by a multiplication,
// which is exact.
fn widen(halves: vec4u) -> vec4f {
    let magnitude = bitcast<vec4f>((halves & vec4u(0x7fffu)) << vec4u(13u)) * 0x1p112;
    return bitcast<vec4f>(bitcast<vec4u>(magnitude) | ((halves & vec4u(0x8000u)) << vec4u(16u)));
}

fn weight4(raw: vec4u, i: u32) -> vec4f {
    let pair = select(raw.xy, raw.zw, i == 1u);
    return widen(vec4u(pair.x & 0xffffu, pair.x >> 16u, pair.y & 0xffffu, pair.y >> 16u));
}
