@group(0) @binding(4) var<storage, read_write> partial: array<vec4f>;  // (blocks, rows, heads, head_dim / 4)
@group(0) @binding(5) var<storage, read_write> norms: array<vec2f>;    // (blocks, rows, heads): top, sum
@group(0) @binding(6) var<storage, read_write> out: array<vec4f>;      // (rows, heads, head_dim / 4)
@group(0) @binding(7) var<storage, read> sinks: array<f32>;            // (heads)

var<workgroup> top: array<f32, VECTORS>;
var<workgroup> sum: array<f32, VECTORS>;
var<workgroup> folds: array<vec2f, VECTORS>;  // factors for the values so far and for the block's

fn leave_block(kv_head: u32, block: u32, first: u32, thread: u32) {
    let width = heads.head_dim / 4u;
    let group = heads.heads / heads.kv_heads;
    for (var i = thread; i < VECTORS * width; i += THREADS) {
        let n = i / width;
        let c = i % width;
        if (first + n < vector_count()) {
            let at = partial_index(block, (first + n) / group, kv_head * group + (first + n) % group);
            partial[at * width + c] = block_values(n, c);
            if (c == 0u) {
                norms[at] = vec2f(block_top[n], block_sum[n]);
            }
        }
    }
}

fn join_block(kv_head: u32, block: u32, first: u32, thread: u32) {
    if (thread < VECTORS) {
        let row = row_of(first + thread);
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
    let width = heads.head_dim / 4u;
    for (var i = thread; i < VECTORS * width; i += THREADS) {
        let n = i / width;
        let c = i % width;
        let row = row_of(first + n);
        if (first + n < vector_count() && block >= first_block(row) && block <= last_block(row)) {
            let at = place_of(kv_head, first + n) + c;
            var values = block_values(n, c);
            if (block > first_block(row)) {
                values = fold_values(out[at], values, Fold(0.0, 0.0, folds[n].x, folds[n].y));
            }
            if (block == last_block(row)) {
                let head = kv_head * (heads.heads / heads.kv_heads) + (first + n) % (heads.heads / heads.kv_heads);
                values /= with_sink(top[n], sum[n], sinks[head]);
            }
            out[at] = values;
        }
    }
}

@compute @workgroup_size(THREADS)
fn main(
    @builtin(workgroup_id) id: vec3u,
    @builtin(num_workgroups) grid: vec3u,
    @builtin(local_invocation_index) thread: u32,
) {
    if (step.rows == 0u) {
        return;
    }
    let kv_head = id.x;
    let first = id.z * VECTORS;
    var block = first_block(row_of(first));
    var last = last_block(row_of(first + VECTORS - 1u));
    let joins = grid.y == 1u;
    if (!joins) {
        // If only the GPU knows the position, there may be more workgroups than blocks.
        let own = first_block(0u) + id.y;
        if (own < block || own > last) {
            return;
        }
        block = own;
        last = own;
    }
    for (; block <= last; block++) {
        attend(kv_head, block, first, thread);
        if (joins) {
            join_block(kv_head, block, first, thread);
        } else {
            leave_block(kv_head, block, first, thread);
        }
        workgroupBarrier();
    }
}
