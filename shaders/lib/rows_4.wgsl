// Four rows.
const ROWS = 4u;
alias Rows = vec4u;
alias Sums = mat4x4f;
fn rows_from(row: u32) -> Rows {
    return quad_rows(row);
}
fn mac(sums: Sums, w: W, rows: Rows, at: u32) -> Sums {
    return mac_quad(sums, w, rows, at);
}
fn join(total: Sums, sums: Sums) -> Sums {
    return join_quad(total, sums);
}
fn quad_of(sums: Sums, output: u32, quad: u32) -> vec4f {
    return sums[output];
}
