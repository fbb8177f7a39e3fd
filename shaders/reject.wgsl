const THREADS = SEGMENT / 16u;

@group(0) @binding(3) var<storage, read> round: array<u32>;        // token ids of the round
@group(0) @binding(8) var<storage, read_write> draws: array<Draws>;  // (rows, segments)

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(local_invocation_index) thread: u32) {
    let row = id.y;
    let x = round[dims.drafts + row];
    let drafted = is_drafted(row, x);
    let position = position_after(row);
    let end = min((id.x + 1u) * SEGMENT, token_count(row));
    var best = Draws(0.0, dims.vocab, 0.0, dims.vocab);
    for (var i = id.x * SEGMENT + thread; i < end; i += THREADS) {
        let token = token_at(row, i);
        if (token >= GONE) {
            continue;
        }
        let wait = exponential(random(dims.stream, position, token));
        let at = p_of(row, token);
        var left = at;
        if (drafted) {
            left -= q_of(row, token, x);
        }
        if (left / wait > best.rest) {
            best.rest = left / wait;
            best.rest_id = token;
        }
        if (at / wait > best.whole) {
            best.whole = at / wait;
            best.whole_id = token;
        }
    }
    best = best_draws(best, thread);
    if (thread == 0u) {
        draws[row * segment_count() + id.x] = best;
    }
}
