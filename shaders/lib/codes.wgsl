// Fragment codes_1
alias Codes = u32;
fn load_codes(first: First, planes: Planes, chunk: u32) -> Codes {
    return word(first, 0u, chunk);
}
fn packed(codes: Codes, i: u32) -> u32 {
    return ((codes >> i) & 0x01010101u) << 1u;
}

// Fragment codes_2
alias Codes = vec2u;
fn load_codes(first: First, planes: Planes, chunk: u32) -> Codes {
    let two = weights[unit(first, chunk / 2u)];
    return select(two.xy, two.zw, chunk % 2u == 1u);
}
fn packed(codes: Codes, i: u32) -> u32 {
    return (codes[i / 4u] >> (i % 4u * 2u)) & 0x03030303u;
}

// Fragment codes_4
fn packed(codes: Codes, i: u32) -> u32 {
    return nibbles(codes, i) ^ (i / 4u * 0x08080808u);
}

// A mask extracts codes 16 to 31. The results are shifted left by HIGH_SHIFT and lower by HIGH_LESS.
const HIGH_LESS = 8;
const HIGH_SHIFT = 4u;
fn low_codes(codes: Codes) -> vec4u {
    return codes & vec4u(0x0f0f0f0fu);
}
fn high_codes(codes: Codes) -> vec4u {
    return codes & vec4u(0xf0f0f0f0u);
}

// Fragment codes_5
struct Codes { low: vec4u, high: u32 }
fn load_codes(first: First, planes: Planes, chunk: u32) -> Codes {
    return Codes(weights[unit(first, chunk)], word(first, planes.chunks, chunk));
}
fn packed(codes: Codes, i: u32) -> u32 {
    return nibbles(codes.low, i) | (select(codes.high >> i, codes.high << (8u - i), i >= 4u) & 0x10101010u);
}

// Fragment codes_8
fn packed(codes: Codes, i: u32) -> u32 {
    return codes[i];
}

// Fragment codes_alone
alias Codes = vec4u;
fn load_codes(first: First, planes: Planes, chunk: u32) -> Codes {
    return weights[unit(first, chunk)];
}

// Fragment codes_packed
fn code4(codes: Codes, i: u32) -> vec4f {
    let word = packed(codes, i);
    return vec4f((vec4u(word) >> vec4u(0u, 8u, 16u, 24u)) & vec4u(0xffu));
}

// Fragment codes_whole
const HIGH_LESS = 0;
const HIGH_SHIFT = 0u;
fn low_codes(codes: Codes) -> vec4u {
    return vec4u(packed(codes, 0u), packed(codes, 1u), packed(codes, 2u), packed(codes, 3u));
}
fn high_codes(codes: Codes) -> vec4u {
    return vec4u(packed(codes, 4u), packed(codes, 5u), packed(codes, 6u), packed(codes, 7u));
}

// Fragment codes_levels
const LEVELS = array<f32, 16>(
    -127.0, -104.0, -83.0, -65.0, -49.0, -35.0, -22.0, -10.0, 1.0, 13.0, 25.0, 38.0, 53.0, 69.0, 89.0, 113.0,
);
fn code4(codes: Codes, i: u32) -> vec4f {
    let at = nibbles(codes, i);
    return vec4f(LEVELS[at & 15u], LEVELS[(at >> 8u) & 15u], LEVELS[(at >> 16u) & 15u], LEVELS[at >> 24u]);
}

// Fragment codes_floats
const LEVELS = array<f32, 16>(
    0.0, 1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 0.0, -1.0, -2.0, -3.0, -4.0, -6.0, -8.0, -12.0,
);
fn code4(codes: Codes, i: u32) -> vec4f {
    let at = nibbles(codes, i);
    return vec4f(LEVELS[at & 15u], LEVELS[(at >> 8u) & 15u], LEVELS[(at >> 16u) & 15u], LEVELS[at >> 24u]);
}

// Fragment codes_6
struct Codes { low: vec4u, high: vec2u }
fn load_codes(first: First, planes: Planes, chunk: u32) -> Codes {
    let two = weights[unit(first, planes.chunks + chunk / 2u)];
    return Codes(weights[unit(first, chunk)], select(two.xy, two.zw, planes.lane.is_odd));
}
fn from_spare(a: u32, b: u32, c: u32) -> u32 {
    return ((a >> 6u) & 0x03030303u) | ((b >> 4u) & 0x0c0c0c0cu) | ((c >> 2u) & 0x30303030u);
}
fn packed(codes: Codes, i: u32) -> u32 {
    if (i == 6u) {
        return from_spare(codes.low.x, codes.low.y, codes.low.z);
    }
    if (i == 7u) {
        return from_spare(codes.low.w, codes.high.x, codes.high.y);
    }
    return select(codes.low[i % 4u], codes.high[i % 2u], i >= 4u) & 0x3f3f3f3fu;
}
