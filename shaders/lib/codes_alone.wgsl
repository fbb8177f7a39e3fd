alias Codes = vec4u;
fn load_codes(first: First, planes: Planes, chunk: u32) -> Codes {
    return weights[unit(first, chunk)];
}
