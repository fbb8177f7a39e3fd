const THREADS = 128u;
const SURVEYED = SEGMENT / 16u;  // logits that the survey keeps per segment
const MARGIN = 0.001;  // far larger than the error of logarithms and sums

struct Row {
    base: u32,   // index of its first surveyed logit
    count: u32,  // number of surveyed logits
}

@group(0) @binding(0) var<uniform> step: Step;
@group(0) @binding(1) var<uniform> dims: SampleDims;
@group(0) @binding(2) var<storage, read> largest: array<f32>;       // (rows, segments, SURVEYED)
@group(0) @binding(3) var<storage, read> segments: array<vec2f>;    // (rows, segments): largest, sum
@group(0) @binding(4) var<uniform> sampling: SamplingBlock;
@group(0) @binding(5) var<storage, read_write> cuts: array<Cut>;    // (rows)

fn weigh(row: Row, kind: u32, i: u32) -> Element {
    let logit = largest[row.base + i];
    return Element(rank(logit), select(1.0, 0.0, is_removed(logit)));
}

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(local_invocation_index) thread: u32) {
    if (step.rows == 0u) {
        return;
    }
    let count = segment_count();
    let base = id.x * count;
    var most = REMOVED;
    for (var i = thread; i < count; i += THREADS) {
        most = max(most, segments[base + i].x);
    }
    let top = max_threads(most, thread);
    var mine = 0.0;
    var broken = 0.0;
    for (var i = thread; i < count; i += THREADS) {
        let segment = segments[base + i];
        mine += segment.y * exp(segment.x - top);
        broken += select(0.0, 1.0, segment.y < 0.0);
    }
    let sum = sum_threads(mine, 1.0, thread);
    workgroupBarrier();
    let faults = sum_threads(broken, 1.0, thread);
    var floor = 0u;
    let row = Row(base * SURVEYED, count * SURVEYED);
    if (sampling.top_k > 0u && sampling.top_k < min(dims.vocab, row.count)) {
        // At least top_k of the surveyed logits, and therefore of the tokens, are at or above this rank.
        floor = find(row, 0u, 0.0, f32(sampling.top_k), thread).key;
    } else if (sampling.top_p < 1.0) {
        // Tokens less likely than this bound have a total probability below 1 - top_p.
        floor = rank(top + log((1.0 - sampling.top_p) * sum / f32(dims.vocab)) - MARGIN);
    }
    if (sampling.min_p > 0.0 && sampling.top_p >= 1.0) {
        // Top-p precedes min-p and counts tokens that min-p will remove.
        floor = max(floor, rank(top + log(sampling.min_p) - MARGIN));
    }
    if (thread == 0u) {
        cuts[step.draft_row + id.x] = Cut(top, select(sum, -1.0, faults > 0.0), floor, dims.vocab, 0u);
    }
}
