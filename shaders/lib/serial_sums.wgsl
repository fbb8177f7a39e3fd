const TWOS = CHUNK4 * 2u;  // pairs of weights in a unit

@group(0) @binding(3) var<storage, read> x: array<vec2f>;  // (rows, x_stride, 2)

fn x4(at: u32) -> vec4f {
    return vec4f(x[at * 2u], x[at * 2u + 1u]);
}

struct Weights { a: vec2f, b: vec2f, c: vec2f, d: vec2f, e: vec2f, f: vec2f, g: vec2f, h: vec2f }

fn load_weights(even: u32) -> Weights {
    let odd = even + TWOS * 8u;
    return Weights(
        weight2(even),
        weight2(odd),
        weight2(even + TWOS),
        weight2(odd + TWOS),
        weight2(even + TWOS * 2u),
        weight2(odd + TWOS * 2u),
        weight2(even + TWOS * 3u),
        weight2(odd + TWOS * 3u),
    );
}

fn add(sum: f32, w: vec2f, x: vec2f) -> f32 {
    return fma(w.y, x.y, fma(w.x, x.x, sum));
}

fn add_row(sums: Eight, w: Weights, x: vec2f) -> Eight {
    let a = vec4f(add(sums.a.x, w.a, x), add(sums.a.y, w.b, x), add(sums.a.z, w.c, x), add(sums.a.w, w.d, x));
    let b = vec4f(add(sums.b.x, w.e, x), add(sums.b.y, w.f, x), add(sums.b.z, w.g, x), add(sums.b.w, w.h, x));
    return Eight(a, b);
}

fn sum_all(first: u32, rows: Rows) -> Sums {
    var even = first * TWOS;
    let twos = dims.chunks * TWOS;
    var sums = Sums();
    for (var at = 0u; at < twos; at++) {
        sums = add_two(sums, load_weights(even), rows, at);
        // The next unit of a row is 16 units further.
        even += select(1u, TWOS * 15u + 1u, (at & (TWOS - 1u)) == TWOS - 1u);
    }
    return sums;
}
