// What both ways to take a block of positions do with its scores.
const FOURS = BLOCK / 4u;
const LANES = min(THREADS / 4u, 8u);  // threads that add up a vector's shares, however many vectors there are
const LOWEST = -3.0e38;

var<workgroup> shares: array<vec4f, VECTORS * FOURS>;  // scores; then exp(score - top); at last values
var<workgroup> lanes: array<f32, VECTORS * LANES>;
var<workgroup> block_top: array<f32, VECTORS>;
var<workgroup> block_sum: array<f32, VECTORS>;

// Scores of four positions, where the row sees them.
fn leave_scores(n: u32, row: u32, four: u32, position: vec4u, scores: vec4f) {
    let at = vec4u(step.position + row);
    let seen = (position <= at) & (position + heads.window > at);
    shares[n * FOURS + four] = select(vec4f(LOWEST), scores * heads.scale, seen);
}

// Adds four values, weighed by their shares.
fn weigh(sum: vec4f, p: vec4f, v: mat4x4f) -> vec4f {
    return fma(vec4f(p.w), v[3], fma(vec4f(p.z), v[2], fma(vec4f(p.y), v[1], fma(vec4f(p.x), v[0], sum))));
}

// Makes the shares of scores that are not finite NaN, by their bits: comparisons may assume that there are no such numbers. Else an
// overflow in the KV cache would change a text silently.
fn or_broken(share: vec4f, score: vec4f) -> vec4f {
    let bits = bitcast<vec4u>(score);
    let is_broken = (bits & vec4u(0x7f800000u)) == vec4u(0x7f800000u);
    return bitcast<vec4f>(select(bitcast<vec4u>(share), bits | vec4u(0x7fc00000u), is_broken));
}

// Turns `count` scores of four positions into shares; leaves each vector's top and sum.
fn find_shares(count: u32, thread: u32) {
    let vector = thread / LANES;
    let lane = thread % LANES;
    var top = LOWEST;
    if (vector < VECTORS) {
        for (var t = lane; t < count; t += LANES) {
            let four = shares[vector * FOURS + t];
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
            let four = shares[vector * FOURS + t];
            let p = or_broken(select(vec4f(), exp(four - top), four > vec4f(LOWEST)), four);
            shares[vector * FOURS + t] = p;
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
