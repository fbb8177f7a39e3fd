// Eight rows, four at a time: named, since an indexed array of sums would leave the registers.
const ROWS = 8u;
struct Rows { a: vec4u, b: vec4u }
struct Sums { a: mat4x4f, b: mat4x4f }
fn rows_from(row: u32) -> Rows {
    return Rows(quad_rows(row), quad_rows(row + 4u));
}
fn mac(sums: Sums, w: W, rows: Rows, at: u32) -> Sums {
    return Sums(mac_quad(sums.a, w, rows.a, at), mac_quad(sums.b, w, rows.b, at));
}
fn join(total: Sums, sums: Sums) -> Sums {
    return Sums(join_quad(total.a, sums.a), join_quad(total.b, sums.b));
}
fn quad_of(sums: Sums, output: u32, quad: u32) -> vec4f {
    if (quad == 0u) {
        return sums.a[output];
    }
    return sums.b[output];
}
