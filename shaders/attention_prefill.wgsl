// Attention for many rows: a workgroup takes 8 query vectors of a KV head through all their blocks, one after the
// other, and joins each block as attention_merge does.
@group(0) @binding(4) var<storage, read_write> out: array<vec4f>;  // (rows, heads, head_dim / 4)

var<workgroup> top: array<f32, VECTORS>;
var<workgroup> sum: array<f32, VECTORS>;
var<workgroup> folds: array<vec2f, VECTORS>;  // factors for the values so far and for the block's

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(local_invocation_index) thread: u32) {
    let kv_head = id.x;
    let first = id.y * VECTORS;
    let width = heads.head_dim / 4u;
    let vectors = step.rows * (heads.heads / heads.kv_heads);
    let last = last_block(query(kv_head, first + VECTORS - 1u).row);
    for (var block = first_block(query(kv_head, first).row); block <= last; block++) {
        attend(kv_head, block, first, thread);
        if (thread < VECTORS) {
            let row = query(kv_head, first + thread).row;
            if (block == first_block(row)) {
                top[thread] = block_top[thread];
                sum[thread] = block_sum[thread];
            } else if (block > first_block(row) && block <= last_block(row)) {
                let by = fold(top[thread], sum[thread], block_top[thread], block_sum[thread]);
                top[thread] = by.top;
                sum[thread] = by.sum;
                folds[thread] = vec2f(by.kept, by.fresh);
            }
        }
        workgroupBarrier();
        for (var i = thread; i < VECTORS * width; i += THREADS) {
            let n = i / width;
            let c = i % width;
            let who = query(kv_head, first + n);
            if (first + n < vectors && block >= first_block(who.row) && block <= last_block(who.row)) {
                let at = who.row * (heads.q_stride / 4u) + who.head * width + c;
                var values = block_values(n, c);
                if (block > first_block(who.row)) {
                    values = fold_values(out[at], values, Fold(0.0, 0.0, folds[n].x, folds[n].y));
                }
                if (block == last_block(who.row)) {
                    values /= sum[n];
                }
                out[at] = values;
            }
        }
        workgroupBarrier();
    }
}
