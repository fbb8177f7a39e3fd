@group(0) @binding(3) var<storage, read> x: array<vec4u>;  // (rows, x_stride)

fn x4(at: u32) -> vec4f {
    return bitcast<vec4f>(x[at]);
}

fn dot16(sum: i32, a: vec4u, b: vec4u) -> i32 {
    let two = dot4I8Packed(a.y, b.y) + (dot4I8Packed(a.x, b.x) + sum);
    return dot4I8Packed(a.w, b.w) + (dot4I8Packed(a.z, b.z) + two);
}

alias At = u32;  // a chunk

// One chunk of each of four outputs.
struct W { a: Weight, b: Weight, c: Weight, d: Weight }

fn add_chunk(sums: Sums, raws: Raws, rows: Rows, chunk: u32) -> Sums {
    return mac(sums, W(weight(raws.a), weight(raws.b), weight(raws.c), weight(raws.d)), rows, chunk);
}

fn mac_one(sums: vec4f, w: W, row: u32, at: At) -> vec4f {
    let x = load_x(row, at);
    let a = add_product(sums.x, w.a, x);
    let b = add_product(sums.y, w.b, x);
    let c = add_product(sums.z, w.c, x);
    return vec4f(a, b, c, add_product(sums.w, w.d, x));
}

fn mac2(sums: vec2f, w: Weight, x: X, y: X) -> vec2f {
    return vec2f(add_product(sums.x, w, x), add_product(sums.y, w, y));
}
fn mac_two(sums: mat4x2f, w: W, rows: vec2u, at: At) -> mat4x2f {
    let x = load_x(rows.x, at);
    let y = load_x(rows.y, at);
    return mat4x2f(mac2(sums[0], w.a, x, y), mac2(sums[1], w.b, x, y), mac2(sums[2], w.c, x, y), mac2(sums[3], w.d, x, y));
}

fn mac_quad(sums: mat4x4f, w: W, rows: vec4u, at: At) -> mat4x4f {
    let low = mac_two(mat4x2f(sums[0].xy, sums[1].xy, sums[2].xy, sums[3].xy), w, rows.xy, at);
    let high = mac_two(mat4x2f(sums[0].zw, sums[1].zw, sums[2].zw, sums[3].zw), w, rows.zw, at);
    return mat4x4f(vec4f(low[0], high[0]), vec4f(low[1], high[1]), vec4f(low[2], high[2]), vec4f(low[3], high[3]));
}
