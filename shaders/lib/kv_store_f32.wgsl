@group(0) @binding(7) var<storage, read_write> kv: array<f32>;
fn kv_store(at: u32, pair: vec2f) {
    kv[at] = pair.x;
    kv[at + 1u] = pair.y;
}
