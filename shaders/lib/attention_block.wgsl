// Attention of up to 8 query vectors over one block of 64 positions; the arithmetic of every attention kernel.
// A query vector is one query head of one row; those that share a KV head share each K and V read.
const THREADS = 64u;
const VECTORS = 8u;
const LOWEST = -3.0e38;

@group(0) @binding(0) var<uniform> step: Step;
@group(0) @binding(1) var<uniform> heads: HeadDims;
@group(0) @binding(2) var<storage, read> q: array<vec4f>;  // (rows, q_stride / 4)

var<workgroup> scores: array<f32, VECTORS * BLOCK>;       // (VECTORS, BLOCK): scores, then exp(score - top)
var<workgroup> strips: array<vec4f, VECTORS * THREADS>;   // (VECTORS, strip, head_dim / 4): values summed by strips
var<workgroup> eighths: array<f32, THREADS>;              // (VECTORS, 8)
var<workgroup> block_top: array<f32, VECTORS>;
var<workgroup> block_sum: array<f32, VECTORS>;

// Which row and head the n-th query vector of a KV head is.
struct Query { row: u32, head: u32 }
fn query(kv_head: u32, n: u32) -> Query {
    let group = heads.heads / heads.kv_heads;
    let capped = min(n, step.rows * group - 1u);
    return Query(capped / group, kv_head * group + capped % group);
}

fn q_at(who: Query, c: u32) -> vec4f {
    return q[who.row * (heads.q_stride / 4u) + who.head * (heads.head_dim / 4u) + c];
}

// First and last block that a row sees.
fn first_block(row: u32) -> u32 {
    let seen = step.position + row + 1u;
    return (seen - min(seen, heads.window)) / BLOCK;
}
fn last_block(row: u32) -> u32 {
    return (step.position + row) / BLOCK;
}

// Leaves exp(score - top), tops and sums in workgroup memory, and the values in strips for `block_values`.
fn attend(kv_head: u32, block: u32, first: u32, thread: u32) {
    let width = heads.head_dim / 4u;
    let position = block * BLOCK + thread;
    let q0 = query(kv_head, first);
    let q1 = query(kv_head, first + 1u);
    let q2 = query(kv_head, first + 2u);
    let q3 = query(kv_head, first + 3u);
    let q4 = query(kv_head, first + 4u);
    let q5 = query(kv_head, first + 5u);
    let q6 = query(kv_head, first + 6u);
    let q7 = query(kv_head, first + 7u);
    var low = vec4f();
    var high = vec4f();
    for (var c = 0u; c < width; c++) {
        let k = kv_load(k_index(kv_head, position, c * 4u));
        low = mac4(low, k, transpose(mat4x4f(q_at(q0, c), q_at(q1, c), q_at(q2, c), q_at(q3, c))));
        high = mac4(high, k, transpose(mat4x4f(q_at(q4, c), q_at(q5, c), q_at(q6, c), q_at(q7, c))));
    }
    for (var n = 0u; n < VECTORS; n++) {
        let at = step.position + query(kv_head, first + n).row;
        let seen = position <= at && position + heads.window > at;
        let score = select(high[n & 3u], low[n & 3u], n < 4u) * heads.scale;
        scores[n * BLOCK + thread] = select(LOWEST, score, seen);
    }
    workgroupBarrier();

    // Eight threads per vector, eight positions each.
    let base = thread * 8u;
    var top = LOWEST;
    for (var i = 0u; i < 8u; i++) {
        top = max(top, scores[base + i]);
    }
    eighths[thread] = top;
    workgroupBarrier();
    let vector = thread / 8u;
    for (var i = 0u; i < 8u; i++) {
        top = max(top, eighths[vector * 8u + i]);
    }
    workgroupBarrier();
    var sum = 0.0;
    for (var i = 0u; i < 8u; i++) {
        let score = scores[base + i];
        let p = select(0.0, exp(score - top), score > LOWEST);
        scores[base + i] = p;
        sum += p;
    }
    eighths[thread] = sum;
    workgroupBarrier();
    if (thread < VECTORS) {
        var total = 0.0;
        for (var i = 0u; i < 8u; i++) {
            total += eighths[thread * 8u + i];
        }
        block_sum[thread] = total;
    }
    if (thread % 8u == 0u) {
        block_top[vector] = top;
    }

    // Strip s of the block's positions: s, s + strips, ...; as many strips as the workgroup has room for.
    let count = THREADS / width;
    let strip = thread / width;
    let c = thread % width;
    if (strip < count) {
        var v0 = vec4f();
        var v1 = vec4f();
        var v2 = vec4f();
        var v3 = vec4f();
        var v4 = vec4f();
        var v5 = vec4f();
        var v6 = vec4f();
        var v7 = vec4f();
        let filled = min(BLOCK, step.position + step.rows - block * BLOCK);
        for (var i = strip; i < filled; i += count) {
            let v = kv_load(v_index(kv_head, block * BLOCK + i, c * 4u));
            v0 = fma(vec4f(scores[i]), v, v0);
            v1 = fma(vec4f(scores[BLOCK + i]), v, v1);
            v2 = fma(vec4f(scores[2u * BLOCK + i]), v, v2);
            v3 = fma(vec4f(scores[3u * BLOCK + i]), v, v3);
            v4 = fma(vec4f(scores[4u * BLOCK + i]), v, v4);
            v5 = fma(vec4f(scores[5u * BLOCK + i]), v, v5);
            v6 = fma(vec4f(scores[6u * BLOCK + i]), v, v6);
            v7 = fma(vec4f(scores[7u * BLOCK + i]), v, v7);
        }
        strips[thread] = v0;
        strips[THREADS + thread] = v1;
        strips[2u * THREADS + thread] = v2;
        strips[3u * THREADS + thread] = v3;
        strips[4u * THREADS + thread] = v4;
        strips[5u * THREADS + thread] = v5;
        strips[6u * THREADS + thread] = v6;
        strips[7u * THREADS + thread] = v7;
    }
    workgroupBarrier();
}

// Elements 4c..4c+4 of vector n's block values: the strips, added in order.
fn block_values(n: u32, c: u32) -> vec4f {
    let width = heads.head_dim / 4u;
    var total = vec4f();
    for (var strip = 0u; strip < THREADS / width; strip++) {
        total += strips[n * THREADS + strip * width + c];
    }
    return total;
}
