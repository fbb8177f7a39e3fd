fn word(bits: u32) -> u32 {
    return pack2x16float((vec2f(f32(bits & 0xffffu), f32(bits >> 16u)) / 65536.0 - 0.5) * 0.1);
}
