// Four rows and four outputs: column i of the sums holds those of output i.
fn quad_rows(row: u32) -> vec4u {
    return vec4u(x_row(row), x_row(row + 1u), x_row(row + 2u), x_row(row + 3u));
}
fn mac_quad(sums: mat4x4f, w: mat4x4f, rows: vec4u, at: u32) -> mat4x4f {
    let x4 = transpose(mat4x4f(x[rows.x + at], x[rows.y + at], x[rows.z + at], x[rows.w + at]));
    return mat4x4f(mac4(sums[0], w[0], x4), mac4(sums[1], w[1], x4), mac4(sums[2], w[2], x4), mac4(sums[3], w[3], x4));
}
fn join_quad(total: mat4x4f, sums: mat4x4f) -> mat4x4f {
    let one = vec4f(dims.one);
    let a = fma(sums[0], one, total[0]);
    let b = fma(sums[1], one, total[1]);
    let c = fma(sums[2], one, total[2]);
    return mat4x4f(a, b, c, fma(sums[3], one, total[3]));
}
