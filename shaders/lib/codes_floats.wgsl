const LEVELS = array<f32, 16>(
    0.0, 1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 0.0, -1.0, -2.0, -3.0, -4.0, -6.0, -8.0, -12.0,
);
fn code4(codes: Codes, i: u32) -> vec4f {
    let at = nibbles(codes, i);
    return vec4f(LEVELS[at & 15u], LEVELS[(at >> 8u) & 15u], LEVELS[(at >> 16u) & 15u], LEVELS[at >> 24u]);
}
