const FOURS = BLOCK / 4u;
const LANES = min(THREADS / 4u, 8u);  // threads that add a vector's shares, independent of the number of vectors
const PLACES = max(FOURS, COLUMNS);  // per vector: of four scores, or of four elements of values
const LOWEST = -3.0e38;

var<workgroup> shares: array<vec4f, VECTORS * PLACES>;  // scores; then exp(score - top); finally values
var<workgroup> lanes: array<f32, VECTORS * LANES>;
var<workgroup> block_top: array<f32, VECTORS>;
var<workgroup> block_sum: array<f32, VECTORS>;

fn bounded(scores: vec4f) -> vec4f {
    if (heads.cap == 0.0) {
        return scores;
    }
    let ratio = scores / heads.cap;
    return or_broken(heads.cap * tanh(clamp(ratio, vec4f(-15.0), vec4f(15.0))), scores);
}

fn leave_scores(n: u32, row: u32, four: u32, position: vec4u, scores: vec4f) {
    let at = vec4u(step.position + row);
    let seen = (position <= vec4u(last_seen(row))) & (position + heads.window > at);
    shares[n * PLACES + four] = select(vec4f(LOWEST), bounded(scores * heads.scale), seen);
}

// Adds four values, weighted by their shares.
fn weigh(sum: vec4f, p: vec4f, v: mat4x4f) -> vec4f {
    return fma(vec4f(p.w), v[3], fma(vec4f(p.z), v[2], fma(vec4f(p.y), v[1], fma(vec4f(p.x), v[0], sum))));
}

// Makes the shares of non-finite scores NaN, so that an overflow in the KV cache cannot change a text silently. It tests bits,
// because compilers may assume that comparisons have no such operands.
fn or_broken(share: vec4f, score: vec4f) -> vec4f {
    let bits = bitcast<vec4u>(score);
    let is_broken = (bits & vec4u(0x7f800000u)) == vec4u(0x7f800000u);
    return bitcast<vec4f>(select(bitcast<vec4u>(share), bits | vec4u(0x7fc00000u), is_broken));
}

fn find_shares(count: u32, thread: u32) {
    let vector = thread / LANES;
    let lane = thread % LANES;
    var top = LOWEST;
    if (vector < VECTORS) {
        for (var t = lane; t < count; t += LANES) {
            let four = shares[vector * PLACES + t];
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
        for (var t = lane; t < count; t += LANES) {
            let four = shares[vector * PLACES + t];
            let p = or_broken(select(vec4f(), exp(four - top), four > vec4f(LOWEST)), four);
            shares[vector * PLACES + t] = p;
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
}
