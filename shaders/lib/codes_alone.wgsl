// A chunk of codes is all that there is to load of them.
alias Codes = vec4u;
fn load_codes(first: u32, planes: Planes, chunk: u32) -> Codes {
    return weights[first + chunk * 8u];
}
