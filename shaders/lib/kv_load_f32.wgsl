@group(0) @binding(3) var<storage, read> kv: array<vec4f>;
fn kv_load(at: u32) -> vec4f {
    return kv[at / 4u];
}
