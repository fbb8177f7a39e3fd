alias Raw = vec4u;
fn load_raw(first: First, planes: Planes, chunk: u32) -> Raw {
    return weights[unit(first, chunk)];
}
