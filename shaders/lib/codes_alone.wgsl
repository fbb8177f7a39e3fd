// A chunk of codes is all that there is to load of them.
alias Codes = vec4u;
fn load_codes(base: u32, chunk: u32) -> Codes {
    return weights[base + chunk];
}
