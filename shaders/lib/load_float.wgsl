// A chunk of floats is all that there is to load.
alias Raw = vec4u;
fn load_raw(first: First, planes: Planes, chunk: u32) -> Raw {
    return weights[unit(first, chunk)];
}
