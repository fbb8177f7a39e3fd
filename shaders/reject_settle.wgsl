const THREADS = 64u;
const ACCEPTANCE = 2u;  // random stream of the acceptance test

@group(0) @binding(3) var<storage, read_write> round: array<u32>;  // token ids of the round
@group(0) @binding(8) var<storage, read> draws: array<Draws>;      // (rows, segments)

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(local_invocation_index) thread: u32) {
    let row = id.x;
    let count = segment_count();
    var best = Draws(0.0, dims.vocab, 0.0, dims.vocab);
    for (var i = thread; i < count; i += THREADS) {
        let other = draws[row * count + i];
        if (other.rest > best.rest) {
            best.rest = other.rest;
            best.rest_id = other.rest_id;
        }
        if (other.whole > best.whole) {
            best.whole = other.whole;
            best.whole_id = other.whole_id;
        }
    }
    best = best_draws(best, thread);
    if (thread > 0u) {
        return;
    }
    var token = select(best.rest_id, best.whole_id, best.rest_id == dims.vocab);
    let x = round[dims.drafts + row];
    if (is_drafted(row, x)) {
        let chance = f32(random(ACCEPTANCE, position_after(row), 0u).x >> 8u) / 16777216.0;
        if (chance * q_of(row, x, x) < p_of(row, x)) {
            token = x;
        }
    }
    if (cuts[row].sum < 0.0) {
        token = NOT_FINITE;
    }
    round[step.out + row] = token;
}
