// Fragment kv_load_f32
@group(0) @binding(3) var<storage, read> kv: array<vec4f>;
fn kv_load(at: u32) -> vec4f {
    return kv[at / 4u];
}

// Fragment kv_load_f16
@group(0) @binding(3) var<storage, read> kv: array<vec2u>;
fn kv_load(at: u32) -> vec4f {
    let words = kv[at / 4u];
    return vec4f(unpack2x16float(words.x), unpack2x16float(words.y));
}

// Fragment kv_store_f32
@group(0) @binding(7) var<storage, read_write> kv: array<f32>;
fn kv_store(at: u32, pair: vec2f) {
    kv[at] = pair.x;
    kv[at + 1u] = pair.y;
}

// Fragment kv_store_f16
@group(0) @binding(7) var<storage, read_write> kv: array<u32>;
fn kv_store(at: u32, pair: vec2f) {
    kv[at / 2u] = pack2x16float(pair);
}
