// A chunk of floats is all that there is to load.
alias Raw = vec4u;
fn load_raw(row: u32, chunk: u32) -> Raw {
    return weights[row * dims.stride + chunk];
}
