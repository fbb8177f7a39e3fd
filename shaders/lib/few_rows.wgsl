// Fragment rows_1
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

// Fragment rows_2
const ROWS = 2u;
alias Rows = vec2u;
alias Sums = mat4x2f;
fn rows_from(row: u32) -> Rows {
    return vec2u(x_row(row), x_row(row + 1u));
}
fn mac(sums: Sums, w: W, rows: Rows, at: At) -> Sums {
    return mac_two(sums, w, rows, at);
}
fn quad_of(sums: Sums, output: u32, quad: u32) -> vec4f {
    return sums[output].xyxy;
}
