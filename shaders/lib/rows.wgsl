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

// Fragment rows_all
fn has_rows(x: u32) -> bool {
    return step.rows > 0u;
}

// Returns the first row of a workgroup.
fn first_row_of(x: u32) -> u32 {
    return x * ROWS;
}

fn row_count() -> u32 {
    return step.rows - dims.head * step.logit_row;
}

fn x_row(row: u32) -> u32 {
    let skipped = select(0u, dims.head * step.logit_row, dims.norm_width > 0u);
    return (skipped + min(row, row_count() - 1u)) * dims.x_stride;
}

fn y_row(row: u32) -> u32 {
    return row;
}

fn first_bias() -> u32 {
    return 0u;
}

// Returns the first unit of the weights.
fn first_weight() -> u32 {
    return 0u;
}

// Fragment rows_of_experts
@group(0) @binding(10) var<storage, read> list: ExpertTiles;

var<private> tile: u32;

fn parts() -> u32 {
    return (min(step.rows, TILE) + ROWS - 1u) / ROWS;
}

fn has_rows(x: u32) -> bool {
    let at = x / parts();
    if (step.rows == 0u || at >= list.count) {
        return false;
    }
    let expert = list.tiles[at].expert;
    return expert - dims.first_expert < dims.experts && x % parts() * ROWS < list.tiles[at].rows;
}

fn first_row_of(x: u32) -> u32 {
    tile = x / parts();
    return x % parts() * ROWS;
}

fn row_count() -> u32 {
    return list.tiles[tile].rows;
}

fn x_row(row: u32) -> u32 {
    return y_row(min(row, row_count() - 1u)) / dims.sharing * dims.x_stride;
}

fn y_row(row: u32) -> u32 {
    return list.tiles[tile].places[row];
}

fn first_bias() -> u32 {
    return list.tiles[tile].expert * dims.bias_stride;
}

fn first_weight() -> u32 {
    return (list.tiles[tile].expert - dims.first_expert) * dims.outs * dims.stride;
}
