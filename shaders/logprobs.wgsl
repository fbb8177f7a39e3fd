const THREADS = 64u;

@group(0) @binding(0) var<uniform> step: Step;
@group(0) @binding(1) var<uniform> dims: SampleDims;
@group(0) @binding(2) var<storage, read> logits: array<f32>;        // (rows, stride)
@group(0) @binding(3) var<storage, read_write> round: array<u32>;   // token ids of the round, and the results
@group(0) @binding(4) var<uniform> sampling: SamplingBlock;         // top_k: number of most likely tokens
@group(0) @binding(5) var<storage, read> cuts: array<Cut>;          // (rows)
@group(0) @binding(6) var<storage, read> found: array<u32>;         // (rows, segments, SEGMENT)
@group(0) @binding(7) var<storage, read> counts: array<u32>;        // (rows, segments)

fn logprob(row: u32, token: u32) -> u32 {
    let logit = logits[row * dims.stride + min(token, dims.vocab - 1u)];
    return bitcast<u32>((logit - cuts[row].top) - log(cuts[row].sum));
}

fn next_best(row: u32, logit: f32, token: u32, thread: u32) -> u32 {
    var best = dims.vocab;
    var most = REMOVED;
    for (var segment = 0u; segment < segment_count(); segment++) {
        let place = row * segment_count() + segment;
        for (var i = thread; i < counts[place]; i += THREADS) {
            let other = found[place * SEGMENT + i];
            let at = logits[row * dims.stride + other];
            let is_behind = at < logit || (at == logit && other > token) || token == dims.vocab;
            if (is_behind && (best == dims.vocab || at > most || (at == most && other < best))) {
                best = other;
                most = at;
            }
        }
    }
    return best_of_threads(most, best, thread);
}

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(local_invocation_index) thread: u32) {
    let row = id.x;
    let to = dims.logprobs + row * (2u + 2u * sampling.top_k);
    if (thread == 0u) {
        round[to] = logprob(row, round[step.out + row]);
        round[to + 1u] = logprob(row, round[dims.drafts + row]);
    }
    var token = dims.vocab;
    var logit = REMOVED;
    for (var i = 0u; i < min(sampling.top_k, arrayLength(&round)); i++) {
        token = next_best(row, logit, token, thread);
        logit = best_score;
        if (thread == 0u) {
            round[to + 2u + 2u * i] = token;
            round[to + 3u + 2u * i] = logprob(row, token);
        }
    }
}
