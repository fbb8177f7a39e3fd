// A chunk of floats is all that there is to load.
alias Raw = vec4u;
fn load_raw(first: u32, planes: Planes, chunk: u32) -> Raw {
    return weights[first + chunk * 8u];
}
