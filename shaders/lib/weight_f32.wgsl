fn weight4(raw: Raw, i: u32) -> vec4f {
    return bitcast<vec4f>(raw);
}
