// Epilogue of the gated MLP: rows of W alternate gate and up; y = activation(gate + bias) * (up + bias).
@group(0) @binding(4) var<storage, read> bias: array<f32>;
@group(0) @binding(5) var<storage, read_write> y: array<f32>;  // (rows, y_stride)
fn store_pair(row: u32, out: u32, a: f32, b: f32) {
    y[row * dims.y_stride + out / 2u] = activate(a + bias[out]) * (b + bias[out + 1u]);
}
