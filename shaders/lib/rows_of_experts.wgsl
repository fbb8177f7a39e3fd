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
