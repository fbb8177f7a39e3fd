fn code4(codes: Codes, i: u32) -> vec4f {
    let word = packed(codes, i);
    return vec4f((vec4u(word) >> vec4u(0u, 8u, 16u, 24u)) & vec4u(0xffu));
}
