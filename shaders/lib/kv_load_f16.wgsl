@group(0) @binding(3) var<storage, read> kv: array<vec2u>;
fn kv_load(at: u32) -> vec4f {
    let words = kv[at / 4u];
    return vec4f(unpack2x16float(words.x), unpack2x16float(words.y));
}
