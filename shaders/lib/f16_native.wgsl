fn halves(word: u32) -> vec2f {
    return unpack2x16float(word);
}

// Two multiples of 2^-24, each factor below 1024: subnormal f16 numbers.
fn small(word: u32) -> vec2f {
    return unpack2x16float(word);
}
