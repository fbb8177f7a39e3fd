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
