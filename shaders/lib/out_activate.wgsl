// Epilogue of the plain MLP: y = activation(result + bias).
@group(0) @binding(4) var<storage, read> bias: array<f32>;
@group(0) @binding(5) var<storage, read_write> y: array<f32>;  // (rows, y_stride)
fn store_pair(row: u32, out: u32, a: f32, b: f32) {
    let at = row * dims.y_stride + out;
    y[at] = activate(a + bias[out]);
    if (out + 1u < dims.first_out + dims.outs) {
        y[at + 1u] = activate(b + bias[out + 1u]);
    }
}
