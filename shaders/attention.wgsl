// Attention for few rows: one workgroup per KV head and block of positions, for all query vectors of that head.
// What a block gives is merged by attention_merge.
@group(0) @binding(4) var<storage, read_write> partial: array<vec4f>;  // (blocks, rows, heads, head_dim / 4)
@group(0) @binding(5) var<storage, read_write> norms: array<vec2f>;    // (blocks, rows, heads): top, sum

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(local_invocation_index) thread: u32) {
    let kv_head = id.x;
    let block = first_block(0u) + id.y;
    // Where the position is known only here, there may be more workgroups than blocks.
    if (step.rows == 0u || block > last_block(step.rows - 1u)) {
        return;
    }
    let width = heads.head_dim / 4u;
    let vectors = step.rows * (heads.heads / heads.kv_heads);
    for (var first = 0u; first < vectors; first += VECTORS) {
        attend(kv_head, block, first, thread);
        for (var i = thread; i < VECTORS * width; i += THREADS) {
            let n = i / width;
            let c = i % width;
            if (first + n < vectors) {
                let who = query(kv_head, first + n);
                let at = partial_index(block, who.row, who.head);
                partial[at * width + c] = block_values(n, c);
                if (c == 0u) {
                    norms[at] = vec2f(block_top[n], block_sum[n]);
                }
            }
        }
        workgroupBarrier();
    }
}
