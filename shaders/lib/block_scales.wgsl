// Fragment scales_f32
fn load_scales(first: First, planes: Planes, chunk: u32) -> Scales {
    let group = chunk / GROUP_CHUNKS;
    let two = weights[unit(first, planes.scales + group / 2u)];
    return bitcast<vec2f>(select(two.xy, two.zw, group % 2u == 1u));
}

// Fragment scales_f16
fn load_scales(first: First, planes: Planes, chunk: u32) -> Scales {
    return halves(word(first, planes.scales, chunk / GROUP_CHUNKS));
}

// Fragment scales_bf16
fn load_scales(first: First, planes: Planes, chunk: u32) -> Scales {
    let pair = word(first, planes.scales, chunk / GROUP_CHUNKS);
    return bitcast<vec2f>(vec2u(pair << 16u, pair & 0xffff0000u));
}

// Fragment scales_centered
alias Lane = u32;
fn lane_of(chunk: u32) -> Lane {
    return chunk / GROUP_CHUNKS % 2u * 16u;
}
fn load_scales(first: First, planes: Planes, chunk: u32) -> Scales {
    let scale = halves(word(first, planes.scales, chunk / GROUP_CHUNKS / 2u) >> planes.lane).x;
    return vec2f(scale, -CENTER * scale);
}

// Fragment scales_powers
// The two smallest exponents stand for subnormal numbers, which GPUs may flush to zero. Here they are zero.
fn load_scales(first: First, planes: Planes, chunk: u32) -> Scales {
    let exponent = (word(first, planes.scales, chunk / 4u) >> (chunk % 4u * 8u)) & 255u;
    return vec2f(bitcast<f32>((max(exponent, 1u) - 1u) << 23u), 0.0);
}

// Fragment scales_signed
fn load_scales(first: First, planes: Planes, chunk: u32) -> Scales {
    let factors = (weights[unit(first, planes.scales + chunk / 8u)][planes.lane.word] >> planes.lane.shift) & 0x00ff00ffu;
    let scale = halves(word(first, planes.scales + planes.chunks / 8u, chunk / 8u)).x;
    let scales = scale * small(factors) - scale * (128.0 / WEIGHT_SCALE);
    return vec4f(scales, -CENTER * scales);
}

// Fragment scales_nibbles
fn load_scales(first: First, planes: Planes, chunk: u32) -> Scales {
    let factors = weights[unit(first, planes.scales + chunk / 8u)][planes.lane.word] >> planes.lane.shift;
    let by = halves(word(first, planes.scales + planes.chunks / 8u, chunk / 8u));
    return vec4f(by.x * small(factors & 0x000f000fu), -by.y * small((factors >> 4u) & 0x000f000fu));
}

// Fragment scales_per_chunk
alias Scales = vec2f;
fn scale_of(scales: Scales, i: u32) -> vec2f {
    return scales;
}

// Fragment scales_per_half
alias Scales = vec4f;
fn scale_of(scales: Scales, i: u32) -> vec2f {
    return select(scales.xz, scales.yw, i >= 4u);
}

// Two chunks share a word of factors.
struct Lane { is_odd: bool, word: u32, shift: u32 }
fn lane_of(chunk: u32) -> Lane {
    return Lane(chunk % 2u == 1u, chunk / 2u % 4u, chunk % 2u * 8u);
}

// Fragment lane_none
alias Lane = u32;
fn lane_of(chunk: u32) -> Lane {
    return 0u;
}

// Fragment scales_6
struct Lane { in_second: bool, shifts: vec2u, masks: vec2u }
fn lane_of(chunk: u32) -> Lane {
    let i = chunk % 8u;
    let shifts = vec2u(i % 4u * 4u, i * 2u) - select(vec2u(), vec2u(2u, 12u), i >= 6u);
    return Lane(i >= 4u, shifts, select(vec2u(0x000f000fu, 0x00300030u), vec2u(0x003c003cu, 0x00030003u), i >= 6u));
}
fn load_scales(first: First, planes: Planes, chunk: u32) -> Scales {
    let header = weights[unit(first, planes.scales + chunk / 8u)];
    let lane = planes.lane;
    let four = select(header.y, header.z, lane.in_second) >> lane.shifts.x;
    let by = halves(header.x) * small((four & lane.masks.x) | ((header.w >> lane.shifts.y) & lane.masks.y));
    return vec2f(by.x, -by.y);
}
