// Attention of VECTORS query vectors over one block of 256 positions: four at a time for each thread, so that four loads are under way.
// Query vectors that share a KV head share each K and V read. What one gets does not depend on how many there are.
const APART = 64u;                    // positions between the four
const LANES = min(THREADS / 4u, 8u);  // threads that add up a vector's shares
const LOWEST = -3.0e38;

// (VECTORS, APART): scores of positions t, t + 64, t + 128, t + 192; then exp(score - top); at last values, by strips.
var<workgroup> shares: array<vec4f, VECTORS * APART>;
var<workgroup> lanes: array<f32, VECTORS * LANES>;
var<workgroup> block_top: array<f32, VECTORS>;
var<workgroup> block_sum: array<f32, VECTORS>;

fn leave_scores(n: u32, row: u32, block: u32, t: u32, scores: vec4f) {
    let position = vec4u(0u, 1u, 2u, 3u) * APART + (block * BLOCK + t);
    let at = vec4u(step.position + row);
    let seen = (position <= at) & (position + heads.window > at);
    shares[n * APART + t] = select(vec4f(LOWEST), scores * heads.scale, seen);
}

// Four values, weighed by the n-th vector's shares.
fn add_values(sum: vec4f, n: u32, t: u32, v: mat4x4f) -> vec4f {
    let p = shares[n * APART + t];
    return fma(vec4f(p.w), v[3], fma(vec4f(p.z), v[2], fma(vec4f(p.y), v[1], fma(vec4f(p.x), v[0], sum))));
}

fn leave_values(n: u32, thread: u32, values: vec4f) {
    shares[n * APART + thread] = values;
}

// Scores of position t of the block, and of those 64, 128 and 192 behind it.
fn find_scores(kv_head: u32, block: u32, first: u32, at: Places, t: u32, is_long: bool) {
    let width = heads.head_dim / 4u;
    let k = head_index(kv_head, block * BLOCK) + t * 4u;
    var s0 = Scores();
    var s1 = Scores();
    var s2 = Scores();
    var s3 = Scores();
    for (var c = 0u; c < width; c++) {
        let x = load_q(at, c);
        let here = k + c * (4u * BLOCK);
        let k0 = kv_load(here);
        if (is_long) {
            let k1 = kv_load(here + 4u * APART);
            let k2 = kv_load(here + 8u * APART);
            let k3 = kv_load(here + 12u * APART);
            s1 = score(s1, k1, x);
            s2 = score(s2, k2, x);
            s3 = score(s3, k3, x);
        }
        s0 = score(s0, k0, x);
    }
    leave_all_scores(s0, s1, s2, s3, first, block, t);
}

// Leaves tops and sums in workgroup memory, and the values in strips for `block_values`.
fn attend(kv_head: u32, block: u32, first: u32, thread: u32) {
    let width = heads.head_dim / 4u;
    // Positions that the last of these rows may see.
    let filled = min(BLOCK, step.position + row_of(first + VECTORS - 1u) + 1u - block * BLOCK);
    let is_long = filled > APART;
    let at = load_places(kv_head, first);
    find_all_scores(kv_head, block, first, at, thread, is_long);
    workgroupBarrier();

    let vector = thread / LANES;
    let lane = thread % LANES;
    var top = LOWEST;
    if (vector < VECTORS) {
        for (var t = lane; t < APART; t += LANES) {
            let four = shares[vector * APART + t];
            top = max(top, max(max(four.x, four.y), max(four.z, four.w)));
        }
        lanes[thread] = top;
    }
    workgroupBarrier();
    if (vector < VECTORS) {
        for (var i = 0u; i < LANES; i++) {
            top = max(top, lanes[vector * LANES + i]);
        }
    }
    workgroupBarrier();
    if (vector < VECTORS) {
        let one = vec4f(heads.one);
        var sum = 0.0;
        for (var t = lane; t < APART; t += LANES) {
            let four = shares[vector * APART + t];
            let p = select(vec4f(), exp(four - top), four > vec4f(LOWEST));
            shares[vector * APART + t] = p;
            sum = fma(p.w, one.w, fma(p.z, one.z, fma(p.y, one.y, fma(p.x, one.x, sum))));
        }
        lanes[thread] = sum;
        if (lane == 0u) {
            block_top[vector] = top;
        }
    }
    workgroupBarrier();
    if (thread < VECTORS) {
        var total = 0.0;
        for (var i = 0u; i < LANES; i++) {
            total = fma(lanes[thread * LANES + i], heads.one, total);
        }
        block_sum[thread] = total;
    }

    // Strip s of the positions of each 64: s, s + strips, ...; as many strips as there are threads for.
    let strips = THREADS / width;
    let v = head_index(heads.kv_heads + kv_head, block * BLOCK) + thread % width * 4u;
    var values = Values();
    if (thread / width < strips) {
        for (var t = thread / width; t < min(filled, APART); t += strips) {
            var four = mat4x4f();
            four[0] = kv_load(v + t * heads.head_dim);
            if (is_long) {
                // What lies behind the last position may be anything.
                four[1] = kv_load(v + min(t + APART, filled - 1u) * heads.head_dim);
                four[2] = kv_load(v + min(t + 2u * APART, filled - 1u) * heads.head_dim);
                four[3] = kv_load(v + min(t + 3u * APART, filled - 1u) * heads.head_dim);
            }
            values = add_all_values(values, t, four);
        }
    }
    workgroupBarrier();
    leave_all_values(values, thread);
    workgroupBarrier();
}

// Elements 4c..4c+4 of vector n's block values: the strips, added in order.
fn block_values(n: u32, c: u32) -> vec4f {
    let width = heads.head_dim / 4u;
    var total = vec4f();
    for (var strip = 0u; strip < THREADS / width; strip++) {
        total = fma(shares[n * APART + strip * width + c], vec4f(heads.one), total);
    }
    return total;
}
