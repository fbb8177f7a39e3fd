@group(0) @binding(3) var<storage, read> x: array<vec4f>;  // (rows, x_stride)

fn x4(at: u32) -> vec4f {
    return x[at];
}

// Loads the four elements i of a chunk from a row of x. A constant that is added last costs no instruction. In larger chunks
// compilers would then load all of x ahead, which leaves no registers.
struct At { chunk: u32, i: u32 }
fn load_x(row: u32, at: At) -> vec4f {
    if (CHUNK4 > 2u) {
        return x[row + (at.chunk * CHUNK4 + at.i)];
    }
    return x[row + at.chunk * CHUNK4 + at.i];
}

fn add_four(sums: Sums, raws: Raws, i: u32, rows: Rows, chunk: u32) -> Sums {
    let w = mat4x4f(weight4(raws.a, i), weight4(raws.b, i), weight4(raws.c, i), weight4(raws.d, i));
    return mac(sums, w, rows, At(chunk, i));
}

// Four weights of each of four outputs.
alias W = mat4x4f;

fn mac_one(sums: vec4f, w: W, row: u32, at: At) -> vec4f {
    let x4 = load_x(row, at);
    let by = transpose(w);
    return fma(by[3], x4.wwww, fma(by[2], x4.zzzz, fma(by[1], x4.yyyy, fma(by[0], x4.xxxx, sums))));
}

fn mac2(sum: vec2f, w: vec4f, x2: mat4x2f) -> vec2f {
    return fma(w.ww, x2[3], fma(w.zz, x2[2], fma(w.yy, x2[1], fma(w.xx, x2[0], sum))));
}
fn mac_two(sums: mat4x2f, w: W, rows: vec2u, at: At) -> mat4x2f {
    let x2 = transpose(mat2x4f(load_x(rows.x, at), load_x(rows.y, at)));
    return mat4x2f(mac2(sums[0], w[0], x2), mac2(sums[1], w[1], x2), mac2(sums[2], w[2], x2), mac2(sums[3], w[3], x2));
}

fn mac4(sum: vec4f, w: vec4f, x: mat4x4f) -> vec4f {
    return fma(vec4f(w.w), x[3], fma(vec4f(w.z), x[2], fma(vec4f(w.y), x[1], fma(vec4f(w.x), x[0], sum))));
}
fn mac_quad(sums: mat4x4f, w: W, rows: vec4u, at: At) -> mat4x4f {
    let x4 = transpose(mat4x4f(load_x(rows.x, at), load_x(rows.y, at), load_x(rows.z, at), load_x(rows.w, at)));
    return mat4x4f(mac4(sums[0], w[0], x4), mac4(sums[1], w[1], x4), mac4(sums[2], w[2], x4), mac4(sums[3], w[3], x4));
}
