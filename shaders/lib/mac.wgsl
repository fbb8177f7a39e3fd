// Four weights times the same four elements of four rows; the one order in which every matmul adds.
// x: column i holds element i of the four rows.
fn mac4(sum: vec4f, w: vec4f, x: mat4x4f) -> vec4f {
    return fma(vec4f(w.w), x[3], fma(vec4f(w.z), x[2], fma(vec4f(w.y), x[1], fma(vec4f(w.x), x[0], sum))));
}
