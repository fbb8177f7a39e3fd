// Two rows: column i holds the sums of output i.
const ROWS = 2u;
alias Rows = vec2u;
alias Sums = mat4x2f;
fn rows_from(row: u32) -> Rows {
    return vec2u(x_row(row), x_row(row + 1u));
}
fn mac2(sum: vec2f, w: vec4f, x2: mat4x2f) -> vec2f {
    return fma(w.ww, x2[3], fma(w.zz, x2[2], fma(w.yy, x2[1], fma(w.xx, x2[0], sum))));
}
fn mac(sums: Sums, w: mat4x4f, rows: Rows, at: u32) -> Sums {
    let x2 = transpose(mat2x4f(x[rows.x + at], x[rows.y + at]));
    return mat4x2f(mac2(sums[0], w[0], x2), mac2(sums[1], w[1], x2), mac2(sums[2], w[2], x2), mac2(sums[3], w[3], x2));
}
fn join(total: Sums, sums: Sums) -> Sums {
    let one = vec2f(dims.one);
    let a = fma(sums[0], one, total[0]);
    let b = fma(sums[1], one, total[1]);
    let c = fma(sums[2], one, total[2]);
    return mat4x2f(a, b, c, fma(sums[3], one, total[3]));
}
fn quad_of(sums: Sums, output: u32, quad: u32) -> vec4f {
    return sums[output].xyxy;
}
