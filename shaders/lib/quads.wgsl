const ROWS = QUADS * 4u;
struct Rows {
    q#: vec4u,
}
struct Sums {
    q#: mat4x4f,
}
fn four_rows(row: u32) -> vec4u {
    return vec4u(x_row(row), x_row(row + 1u), x_row(row + 2u), x_row(row + 3u));
}
fn rows_from(row: u32) -> Rows {
    return Rows(
        four_rows(row + #u * 4u),
    );
}
fn mac(sums: Sums, w: W, rows: Rows, at: At) -> Sums {
    return Sums(
        mac_quad(sums.q#, w, rows.q#, at),
    );
}
fn join_quad(total: mat4x4f, sums: mat4x4f) -> mat4x4f {
    let one = vec4f(dims.one);
    let a = fma(sums[0], one, total[0]);
    let b = fma(sums[1], one, total[1]);
    let c = fma(sums[2], one, total[2]);
    return mat4x4f(a, b, c, fma(sums[3], one, total[3]));
}
fn join(total: Sums, sums: Sums) -> Sums {
    return Sums(
        join_quad(total.q#, sums.q#),
    );
}
fn quad_of(sums: Sums, output: u32, quad: u32) -> vec4f {
    if (quad == #u) { return sums.q#[output]; }
    return vec4f();
}
