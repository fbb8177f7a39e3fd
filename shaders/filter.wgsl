// Temperature, top-k, top-p and min-p, in place: logits are divided by the temperature, and removed tokens marked.
// One workgroup per row.
const THREADS = 128u;

// What `find` looks for: by count (top-k), by probability (top-p), and the lowest ids among equal logits.
const COUNT = 0u;
const MASS = 1u;
const TIES = 2u;

struct Row {
    base: u32,   // where it begins
    top: f32,    // its largest logit
    floor: u32,  // rank below which tokens were removed; for TIES, the rank of interest
}

struct Element {
    key: u32,
    weight: f32,
}

@group(0) @binding(0) var<uniform> step: Step;
@group(0) @binding(1) var<uniform> dims: SampleDims;
@group(0) @binding(2) var<storage, read_write> logits: array<f32>;  // (rows, stride)
@group(0) @binding(4) var<uniform> sampling: SamplingBlock;

var<workgroup> kept_ties: u32;

// A number that orders logits as they are ordered, equal zeros included.
fn rank(logit: f32) -> u32 {
    let bits = bitcast<u32>(select(logit, 0.0, logit == 0.0));
    return select(bits | 0x80000000u, ~bits, bits >= 0x80000000u);
}

fn logit_at(rank: u32) -> f32 {
    return bitcast<f32>(select(~rank, rank & 0x7fffffffu, rank >= 0x80000000u));
}

fn weigh(row: Row, kind: u32, i: u32) -> Element {
    let logit = logits[row.base + i];
    let at = rank(logit);
    if (kind == TIES) {
        return Element(~i, select(0.0, 1.0, at == row.floor));
    }
    let weight = select(1.0, exp(logit - row.top), kind == MASS);
    return Element(at, select(weight, 0.0, at < row.floor || is_removed(logit)));
}

fn top_of(base: u32, thread: u32) -> f32 {
    var top = REMOVED;
    for (var i = thread; i < dims.vocab; i += THREADS) {
        let logit = logits[base + i];
        if (!is_removed(logit)) {
            logits[base + i] = logit / sampling.temperature;
            top = max(top, logit / sampling.temperature);
        }
    }
    return max_threads(top, thread);
}

// How many tokens have the last kept logit, and how many of them are needed.
fn ties(row: Row, wanted: f32, thread: u32) -> u32 {
    var count = 0.0;
    for (var i = thread; i < dims.vocab; i += THREADS) {
        count += weigh(row, TIES, i).weight;
    }
    gather(vec4f(count), vec4f(), vec4f(), vec4f(), thread);
    if (thread == 0u) {
        let all = column_sum(0u);
        kept_ties = select(0u, u32(max(wanted, 1.0)), max(wanted, 1.0) < all);
    }
    return workgroupUniformLoad(&kept_ties);
}

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(local_invocation_index) thread: u32) {
    if (step.rows == 0u) {
        return;
    }
    let base = (step.draft_row + id.x) * dims.stride;
    var row = Row(base, top_of(base, thread), 0u);
    if (sampling.top_k > 0u && sampling.top_k < dims.vocab) {
        row.floor = find(row, COUNT, 0.0, f32(sampling.top_k), thread).key;
    }
    var last_id = dims.vocab;
    if (sampling.top_p < 1.0) {
        let found = find(row, MASS, sampling.top_p, 0.0, thread);
        row.floor = found.key;
        let kept = ties(row, ceil(found.missing / exp(logit_at(found.key) - row.top)), thread);
        if (kept > 0u) {
            last_id = ~find(row, TIES, 0.0, f32(kept), thread).key;
        }
    }
    for (var i = thread; i < dims.vocab; i += THREADS) {
        let logit = logits[base + i];
        let at = rank(logit);
        let unlikely = exp(logit - row.top) < sampling.min_p;
        if (is_finite(logit) && (at < row.floor || (at == row.floor && i > last_id) || unlikely)) {
            logits[base + i] = REMOVED;
        }
    }
}
