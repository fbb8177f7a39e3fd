const ROWS = 1u;
alias Rows = u32;
alias Sums = vec4f;
fn rows_from(row: u32) -> Rows {
    return x_row(row);
}
fn mac(sums: Sums, w: W, rows: Rows, at: At) -> Sums {
    return mac_one(sums, w, rows, at);
}
fn quad_of(sums: Sums, output: u32, quad: u32) -> vec4f {
    return vec4f(sums[output]);
}
