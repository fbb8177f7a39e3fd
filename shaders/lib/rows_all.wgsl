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
