// Sixteen rows, four at a time.
const ROWS = 16u;
struct Rows { a: vec4u, b: vec4u, c: vec4u, d: vec4u }
struct Sums { a: mat4x4f, b: mat4x4f, c: mat4x4f, d: mat4x4f }
fn rows_from(row: u32) -> Rows {
    return Rows(quad_rows(row), quad_rows(row + 4u), quad_rows(row + 8u), quad_rows(row + 12u));
}
fn mac(sums: Sums, w: W, rows: Rows, at: u32) -> Sums {
    let a = mac_quad(sums.a, w, rows.a, at);
    let b = mac_quad(sums.b, w, rows.b, at);
    let c = mac_quad(sums.c, w, rows.c, at);
    return Sums(a, b, c, mac_quad(sums.d, w, rows.d, at));
}
fn join(total: Sums, sums: Sums) -> Sums {
    let a = join_quad(total.a, sums.a);
    let b = join_quad(total.b, sums.b);
    let c = join_quad(total.c, sums.c);
    return Sums(a, b, c, join_quad(total.d, sums.d));
}
fn quad_of(sums: Sums, output: u32, quad: u32) -> vec4f {
    if (quad == 0u) {
        return sums.a[output];
    } else if (quad == 1u) {
        return sums.b[output];
    } else if (quad == 2u) {
        return sums.c[output];
    }
    return sums.d[output];
}
