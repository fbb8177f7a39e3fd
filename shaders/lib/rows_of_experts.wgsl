@group(0) @binding(10) var<storage, read> list: ExpertTiles;

var<private> tile: u32;

// Returns the number of workgroups that share a tile.
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

// Returns the first row of a workgroup, and remembers its tile.
fn first_row_of(x: u32) -> u32 {
    tile = x / parts();
    return x % parts() * ROWS;
}

fn row_count() -> u32 {
    return list.tiles[tile].rows;
}

// Returns the start of a row of x. Rows past the end repeat the last one and are never stored.
fn x_row(row: u32) -> u32 {
    return y_row(min(row, row_count() - 1u)) / dims.sharing * dims.x_stride;
}

fn y_row(row: u32) -> u32 {
    return list.tiles[tile].places[row];
}

fn first_bias() -> u32 {
    return list.tiles[tile].expert * dims.bias_stride;
}

// Returns the first unit of the expert's weights.
fn first_weight() -> u32 {
    return (list.tiles[tile].expert - dims.first_expert) * dims.outs * dims.stride;
}
