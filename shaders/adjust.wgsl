const THREADS = 64u;

@group(0) @binding(0) var<uniform> step: Step;
@group(0) @binding(1) var<uniform> dims: SampleDims;
@group(0) @binding(2) var<storage, read_write> logits: array<f32>;  // (rows, stride)
@group(0) @binding(3) var<storage, read> round: array<u32>;         // token ids of the round
@group(0) @binding(4) var<uniform> sampling: SamplingBlock;
@group(0) @binding(5) var<storage, read> seen: array<u32>;          // one bit per id of the text, pending included
// Number of biased tokens, then per biased token: id, first word of its sequences, last word + 1. Then the sequences: number of
// tokens before the biased token, bias, position from which the sequence ends, those tokens.
@group(0) @binding(6) var<storage, read> biases: array<u32>;
@group(0) @binding(7) var<storage, read> counts: array<u32>;        // how often each id was generated, pending included
@group(0) @binding(8) var<storage, read> text: array<u32>;          // tokens of the text, pending included

fn is_seen(id: u32) -> bool {
    return ((seen[id / 32u] >> (id % 32u)) & 1u) == 1u;
}

// Ids are the target's; the draft model's vocabulary may be smaller.
fn is_known(token: u32) -> bool {
    return token < dims.vocab;
}

fn token_at(at: u32, known: u32) -> u32 {
    if (at < known) {
        return text[at];
    }
    return round[dims.drafts + at - known];
}

fn lost(token: u32, next: u32) -> f32 {
    if (sampling.frequency_penalty == 0.0 && sampling.presence_penalty == 0.0) {
        return 0.0;
    }
    var count = counts[token];
    for (var i = dims.drafts; i < next; i++) {
        count += u32(round[i] == token);
    }
    return sampling.frequency_penalty * f32(count) + sampling.presence_penalty * f32(min(count, 1u));
}

fn penalise(base: u32, token: u32, next: u32) {
    if (!is_known(token)) {
        return;
    }
    let at = base + token;
    let logit = logits[at];
    let divided = select(logit / sampling.repetition_penalty, logit * sampling.repetition_penalty, logit < 0.0);
    logits[at] = select(divided - lost(token, next), logit, is_removed(logit));
}

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(local_invocation_index) thread: u32) {
    if (step.rows == 0u) {
        return;
    }
    let row = step.draft_row + id.x;
    let base = row * dims.stride;
    let next = dims.drafts + row;  // index in `round` of the token that this row decides
    let position = position_after(id.x);
    for (var i = thread; i < biases[0]; i += THREADS) {
        let token = biases[1u + 3u * i];
        let end = biases[3u + 3u * i];
        for (var at = biases[2u + 3u * i]; at < end; at += 3u + biases[at]) {
            let length = biases[at];
            var applies = is_known(token) && position < biases[at + 2u] && position >= length;
            for (var back = 0u; back < length && applies; back++) {
                applies = round[next - 1u - back] == biases[at + 2u + length - back];
            }
            if (applies) {
                let biased = logits[base + token] + bitcast<f32>(biases[at + 1u]);
                logits[base + token] = select(biased, REMOVED, is_removed(biased));
            }
        }
    }
    storageBarrier();
    if (sampling.repetition_penalty != 1.0 || sampling.presence_penalty != 0.0 || sampling.frequency_penalty != 0.0) {
        for (var word = thread; word * 32u < dims.vocab; word += THREADS) {
            for (var bits = seen[word]; bits != 0u; bits &= bits - 1u) {
                penalise(base, word * 32u + countTrailingZeros(bits), next);
            }
        }
        for (var i = dims.drafts + thread; i < next; i += THREADS) {
            let token = round[i];
            var fresh = is_known(token) && !is_seen(token);
            for (var before = dims.drafts; before < i && fresh; before++) {
                fresh = round[before] != token;
            }
            if (fresh) {
                penalise(base, token, next);
            }
        }
    }
    storageBarrier();
    if (sampling.no_repeat_ngram_size > 0u) {
        let before = sampling.no_repeat_ngram_size - 1u;
        let known = position - row;
        for (var end = before + thread; end < position; end += THREADS) {
            let token = token_at(end, known);
            var repeats = is_known(token);
            for (var back = 1u; back <= before && repeats; back++) {
                repeats = token_at(end - back, known) == token_at(position - back, known);
            }
            if (repeats) {
                logits[base + token] = REMOVED;
            }
        }
    }
}
