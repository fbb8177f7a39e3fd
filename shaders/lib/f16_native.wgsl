fn halves(word: u32) -> vec2f {
    return unpack2x16float(word);
}

fn small(word: u32) -> vec2f {
    return unpack2x16float(word);
}
