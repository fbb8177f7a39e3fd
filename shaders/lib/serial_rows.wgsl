struct Eight {
    a: vec4f,
    b: vec4f,
}
struct Rows {
    r#: u32,
}
struct Sums {
    r#: Eight,
}
fn rows_from(row: u32) -> Rows {
    return Rows(
        x_row(row + #u) * 2u,
    );
}
fn add_two(sums: Sums, w: Weights, rows: Rows, at: u32) -> Sums {
    return Sums(
        add_row(sums.r#, w, x[rows.r# + at]),
    );
}
fn sums_of(sums: Sums, row: u32) -> Eight {
    var eight = Eight();
    if (row == #u) { eight = sums.r#; }
    return eight;
}
