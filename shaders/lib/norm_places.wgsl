// Fragment norm_set
fn place(at: u32, value: vec4f) {
    y[at] = value;
}

// Fragment norm_add
@group(0) @binding(5) var<storage, read> factor: array<f32>;  // (1)

fn place(at: u32, value: vec4f) {
    y[at] = (y[at] + value) * factor[0];
}
