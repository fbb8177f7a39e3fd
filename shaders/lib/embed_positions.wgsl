// Position table: its rows are added to those of the tokens.
fn entry(row: u32) -> u32 {
    return step.position + row;
}
fn place(at: u32, value: vec4f) {
    x[at] += value;
}
