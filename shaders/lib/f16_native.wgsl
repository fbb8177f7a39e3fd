// Two f16 -> f32 where the driver keeps subnormals.
fn halves(word: u32) -> vec2f {
    return unpack2x16float(word);
}

// Two counts of 2^-24, below 1024: f16's subnormal numbers.
fn small(word: u32) -> vec2f {
    return unpack2x16float(word);
}
