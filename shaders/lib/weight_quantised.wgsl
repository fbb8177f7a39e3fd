struct Raw { codes: Codes, scales: Scales }

fn load_raw(first: First, planes: Planes, chunk: u32) -> Raw {
    return Raw(load_codes(first, planes, chunk), load_scales(first, planes, chunk));
}

fn weight4(raw: Raw, i: u32) -> vec4f {
    let by = scale_of(raw.scales, i);
    return fma(code4(raw.codes, i), vec4f(by.x), vec4f(by.y));
}

fn word(first: First, plane: u32, at: u32) -> u32 {
    return weights[unit(first, plane + at / 4u)][at % 4u];
}

fn nibbles(chunk: vec4u, i: u32) -> u32 {
    return (chunk[i % 4u] >> (i / 4u * 4u)) & 0x0f0f0f0fu;
}
