// Two f16 -> f32 where the driver keeps subnormals.
fn halves(word: u32) -> vec2f {
    return unpack2x16float(word);
}
