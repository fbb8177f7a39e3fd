// Fragment units
const TOGETHER = 16u;

// Units of codes in a row, first unit of scales, and values that are the same for all chunks of a lane. They are kept in variables,
// because compilers do not move them out of the loop.
struct Planes { chunks: u32, scales: u32, lane: Lane }

fn planes(chunk: u32) -> Planes {
    return Planes(dims.chunks, dims.scales, lane_of(chunk));
}

// First unit of a row, as the unit of another row plus a constant. A constant that is added last costs no instruction.
struct First { unit: u32, further: u32 }

fn first_unit(row: u32) -> u32 {
    return row / TOGETHER * TOGETHER * dims.stride + row % 2u * 8u + row % TOGETHER / 2u;
}

fn unit(first: First, at: u32) -> u32 {
    return first.unit + at * TOGETHER + first.further;
}

// Fragment raws
@group(0) @binding(2) var<storage, read> weights: array<vec4u>;  // (outs / 16, stride, 16): see units

// Raw weights of four outputs: two neighbours, and the two at the same position in the next sixteen.
struct Raws { a: Raw, b: Raw, c: Raw, d: Raw }

fn first_units(sixteen: u32, place: u32) -> vec2u {
    let last = (dims.outs - 1u) / 16u;
    let first = first_weight();
    let a = first + first_unit(min(sixteen, last) * 16u + place * 2u);
    return vec2u(a, first + first_unit(min(sixteen + 1u, last) * 16u + place * 2u));
}

fn load_raws(first: vec2u, planes: Planes, chunk: u32) -> Raws {
    let a = load_raw(First(first.x, 0u), planes, chunk);
    let b = load_raw(First(first.x, 8u), planes, chunk);
    let c = load_raw(First(first.y, 0u), planes, chunk);
    return Raws(a, b, c, load_raw(First(first.y, 8u), planes, chunk));
}

// Fragment weight_quantised
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
