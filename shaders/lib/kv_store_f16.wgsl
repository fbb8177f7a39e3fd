@group(0) @binding(7) var<storage, read_write> kv: array<u32>;
fn kv_store(at: u32, pair: vec2f) {
    kv[at / 2u] = pack2x16float(pair);
}
