const LEVELS = array<f32, 16>(
    -127.0, -104.0, -83.0, -65.0, -49.0, -35.0, -22.0, -10.0, 1.0, 13.0, 25.0, 38.0, 53.0, 69.0, 89.0, 113.0,
);
fn code4(codes: Codes, i: u32) -> vec4f {
    let at = nibbles(codes, i);
    return vec4f(LEVELS[at & 15u], LEVELS[(at >> 8u) & 15u], LEVELS[(at >> 16u) & 15u], LEVELS[at >> 24u]);
}
