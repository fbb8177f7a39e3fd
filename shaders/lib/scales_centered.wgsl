// An f16 for each group of chunks: its scale. CENTER is the code for zero.
fn load_scales(at: u32, chunk: u32) -> Scales {
    let group = chunk / GROUP_CHUNKS;
    let scale = halves(word(at + group / 2u))[group % 2u];
    return vec2f(scale, -CENTER * scale);
}
