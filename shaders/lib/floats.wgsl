// Fragment load_float
alias Raw = vec4u;
fn load_raw(first: First, planes: Planes, chunk: u32) -> Raw {
    return weights[unit(first, chunk)];
}

// Fragment weight_f32
fn weight4(raw: Raw, i: u32) -> vec4f {
    return bitcast<vec4f>(raw);
}

// Fragment weight_f16
fn weight4(raw: Raw, i: u32) -> vec4f {
    let pair = select(raw.xy, raw.zw, i == 1u);
    return vec4f(halves(pair.x), halves(pair.y));
}

// Fragment weight_bf16
fn weight4(raw: Raw, i: u32) -> vec4f {
    let pair = select(raw.xy, raw.zw, i == 1u);
    return bitcast<vec4f>(vec4u(pair.x << 16u, pair.x & 0xffff0000u, pair.y << 16u, pair.y & 0xffff0000u));
}

// Fragment serial_f32
@group(0) @binding(2) var<storage, read> weights: array<vec2f>;
fn weight2(at: u32) -> vec2f {
    return weights[at];
}

// Fragment serial_f16
@group(0) @binding(2) var<storage, read> weights: array<u32>;
fn weight2(at: u32) -> vec2f {
    return halves(weights[at]);
}

// Fragment serial_bf16
@group(0) @binding(2) var<storage, read> weights: array<u32>;
fn weight2(at: u32) -> vec2f {
    let word = weights[at];
    return bitcast<vec2f>(vec2u(word << 16u, word & 0xffff0000u));
}

// Fragment f16_native
fn halves(word: u32) -> vec2f {
    return unpack2x16float(word);
}

fn small(word: u32) -> vec2f {
    return unpack2x16float(word);
}

// Fragment f16_by_hand
fn halves(word: u32) -> vec2f {
    let two = vec2u(word & 0xffffu, word >> 16u);
    let size = two & vec2u(0x7fffu);
    let normal = bitcast<vec2f>((size << vec2u(13u)) + vec2u(0x38000000u));
    let magnitude = select(normal, vec2f(size) * 0x1p-24, size < vec2u(0x400u));
    return bitcast<vec2f>(bitcast<vec2u>(magnitude) | ((two & vec2u(0x8000u)) << vec2u(16u)));
}

fn small(word: u32) -> vec2f {
    return vec2f(vec2u(word & 0xffffu, word >> 16u)) * 0x1p-24;
}

// Fragment fill_f32
fn word(bits: u32) -> u32 {
    return bitcast<u32>((f32(bits >> 8u) / 16777216.0 - 0.5) * 0.1);
}

// Fragment fill_f16
fn word(bits: u32) -> u32 {
    return pack2x16float((vec2f(f32(bits & 0xffffu), f32(bits >> 16u)) / 65536.0 - 0.5) * 0.1);
}

// Fragment fill_bf16
fn word(bits: u32) -> u32 {
    let pair = bitcast<vec2u>((vec2f(f32(bits & 0xffffu), f32(bits >> 16u)) / 65536.0 - 0.5) * 0.1);
    return (pair.x >> 16u) | (pair.y & 0xffff0000u);
}
