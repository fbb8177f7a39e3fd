// Four rows and four outputs: column i of the sums holds those of output i.
fn quad_rows(row: u32) -> vec4u {
    return vec4u(x_row(row), x_row(row + 1u), x_row(row + 2u), x_row(row + 3u));
}
fn join_quad(total: mat4x4f, sums: mat4x4f) -> mat4x4f {
    let one = vec4f(dims.one);
    let a = fma(sums[0], one, total[0]);
    let b = fma(sums[1], one, total[1]);
    let c = fma(sums[2], one, total[2]);
    return mat4x4f(a, b, c, fma(sums[3], one, total[3]));
}
