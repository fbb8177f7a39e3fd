// Weights stored as small integers: scale * code + offset, exact but for one rounding. A row of them is chunks of codes,
// then the further bits of those codes, then the scales.
struct Raw { codes: Codes, scales: Scales }

fn load_raw(row: u32, chunk: u32) -> Raw {
    let base = row * dims.stride;
    return Raw(load_codes(base, chunk), load_scales((base + dims.scales) * 4u, chunk));
}

fn weight4(raw: Raw, i: u32) -> vec4f {
    let by = scale_of(raw.scales, i);
    return fma(code4(raw.codes, i), vec4f(by.x), vec4f(by.y));
}

// Words of 4 bytes, counted from the beginning of the buffer.
fn word(at: u32) -> u32 {
    return weights[at / 4u][at % 4u];
}

fn bytes(word: u32) -> vec4f {
    return vec4f((vec4u(word) >> vec4u(0u, 8u, 16u, 24u)) & vec4u(0xffu));
}

// Of a chunk of 32 codes, the lower four bits of codes 4i to 4i + 3, a byte for each.
fn nibbles(chunk: vec4u, i: u32) -> u32 {
    return (chunk[i / 2u] >> (i % 2u * 4u)) & 0x0f0f0f0fu;
}

// Two f16.
fn halves(word: u32) -> vec2f {
    return widen(vec4u(word & 0xffffu, word >> 16u, 0u, 0u)).xy;
}
