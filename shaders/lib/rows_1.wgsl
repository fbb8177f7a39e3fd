// One row: a sum for each of four outputs.
const ROWS = 1u;
alias Rows = u32;
alias Sums = vec4f;
fn rows_from(row: u32) -> Rows {
    return x_row(row);
}
fn mac(sums: Sums, w: mat4x4f, rows: Rows, at: u32) -> Sums {
    let x4 = x[rows + at];
    let by = transpose(w);
    return fma(by[3], x4.wwww, fma(by[2], x4.zzzz, fma(by[1], x4.yyyy, fma(by[0], x4.xxxx, sums))));
}
fn join(total: Sums, sums: Sums) -> Sums {
    return fma(sums, vec4f(dims.one), total);
}
fn quad_of(sums: Sums, output: u32, quad: u32) -> vec4f {
    return vec4f(sums[output]);
}
