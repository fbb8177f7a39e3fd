@group(0) @binding(0) var<uniform> step: Step;
@group(0) @binding(1) var<uniform> heads: HeadDims;
@group(0) @binding(2) var<storage, read> q: array<vec4f>;  // (rows, q_stride / 4)

fn vector_count() -> u32 {
    return step.rows * (heads.heads / heads.kv_heads);
}

fn row_of(n: u32) -> u32 {
    return min(n, vector_count() - 1u) / (heads.heads / heads.kv_heads);
}

fn place_of(kv_head: u32, n: u32) -> u32 {
    let group = heads.heads / heads.kv_heads;
    let capped = min(n, vector_count() - 1u);
    return capped / group * (heads.q_stride / 4u) + (kv_head * group + capped % group) * (heads.head_dim / 4u);
}

fn first_block(row: u32) -> u32 {
    let seen = step.position + row + 1u;
    return (seen - min(seen, heads.window)) / BLOCK;
}
fn last_block(row: u32) -> u32 {
    return last_seen(row) / BLOCK;
}
