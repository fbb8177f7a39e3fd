// Token table: its rows start the residual stream.
@group(0) @binding(3) var<storage, read> round: array<u32>;  // token ids of the round
fn entry(row: u32) -> u32 {
    return round[step.token + row];
}
fn place(at: u32, value: vec4f) {
    x[at] = value;
}
