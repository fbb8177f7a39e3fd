alias Scales = vec2f;
fn scale_of(scales: Scales, i: u32) -> vec2f {
    return scales;
}
