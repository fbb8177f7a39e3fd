fn halves(word: u32) -> vec2f {
    let two = vec2u(word & 0xffffu, word >> 16u);
    let size = two & vec2u(0x7fffu);
    let normal = bitcast<vec2f>((size << vec2u(13u)) + vec2u(0x38000000u));
    let magnitude = select(normal, vec2f(size) * 0x1p-24, size < vec2u(0x400u));
    return bitcast<vec2f>(bitcast<vec2u>(magnitude) | ((two & vec2u(0x8000u)) << vec2u(16u)));
}

fn small(word: u32) -> vec2f {
    return vec2f(vec2u(word & 0xffffu, word >> 16u)) * 0x1p-24;
}
