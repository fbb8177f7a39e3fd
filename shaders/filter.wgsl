const THREADS = 128u;

// Modes of `find`: by count (top-k), by probability (top-p), and the lowest ids among equal logits.
const COUNT = 0u;
const MASS = 1u;
const TIES = 2u;

struct Row {
    base: u32,   // index of its first logit
    list: u32,   // index of its first id
    count: u32,  // number of ids
    top: f32,    // its largest logit
    floor: u32,  // rank below which tokens were removed; for TIES, the tied rank
}

@group(0) @binding(0) var<uniform> step: Step;
@group(0) @binding(1) var<uniform> dims: SampleDims;
@group(0) @binding(2) var<storage, read> logits: array<f32>;       // (rows, stride)
@group(0) @binding(3) var<storage, read_write> cuts: array<Cut>;   // (rows)
@group(0) @binding(4) var<uniform> sampling: SamplingBlock;
@group(0) @binding(5) var<storage, read> found: array<u32>;        // (rows, segments, SEGMENT)
@group(0) @binding(6) var<storage, read> counts: array<u32>;       // (rows, segments)
@group(0) @binding(7) var<storage, read_write> list: array<u32>;   // (rows, stride)

var<workgroup> kept_ties: u32;

fn logit_at(rank: u32) -> f32 {
    return bitcast<f32>(select(~rank, rank & 0x7fffffffu, rank >= 0x80000000u));
}

fn weigh(row: Row, kind: u32, i: u32) -> Element {
    let id = list[row.list + i];
    let logit = scaled(logits[row.base + id]);
    let at = rank(logit);
    if (kind == TIES) {
        return Element(~id, select(0.0, 1.0, at == row.floor));
    }
    let weight = select(1.0, exp(logit - row.top), kind == MASS);
    return Element(at, select(weight, 0.0, at < row.floor));
}

fn ties(row: Row, wanted: f32, thread: u32) -> u32 {
    var count = 0.0;
    for (var i = thread; i < row.count; i += THREADS) {
        count += weigh(row, TIES, i).weight;
    }
    gather(vec4f(count), vec4f(), vec4f(), vec4f(), thread);
    if (thread == 0u) {
        let all = column_sum(0u);
        kept_ties = select(0u, u32(max(wanted, 1.0)), max(wanted, 1.0) < all);
    }
    return workgroupUniformLoad(&kept_ties);
}

fn compact(first: u32, to: u32, thread: u32) -> u32 {
    var before = 0u;
    for (var segment = 0u; segment < segment_count(); segment++) {
        let count = counts[first + segment];
        if (segment % (THREADS / 4u) == thread / 4u) {
            for (var i = thread % 4u; i < count; i += 4u) {
                list[to + before + i] = found[(first + segment) * SEGMENT + i];
            }
        }
        before += count;
    }
    storageBarrier();
    return before;
}

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(local_invocation_index) thread: u32) {
    if (step.rows == 0u) {
        return;
    }
    let at = step.draft_row + id.x;
    let to = at * dims.stride;
    let top = cuts[at].top;
    let is_broken = cuts[at].sum < 0.0;
    let count = compact(id.x * segment_count(), to, thread);
    var row = Row(at * dims.stride, to, count, top, 0u);
    if (sampling.top_k > 0u && sampling.top_k < dims.vocab) {
        row.floor = find(row, COUNT, 0.0, f32(sampling.top_k), thread).key;
    }
    var last_id = dims.vocab;
    if (sampling.top_p < 1.0) {
        // Without top-k, the share refers to all tokens.
        let among_all = select(cuts[at].sum * sampling.top_p, 0.0, sampling.top_k > 0u && sampling.top_k < dims.vocab);
        let share = select(sampling.top_p, 0.0, among_all > 0.0);
        let found = find(row, MASS, share, among_all, thread);
        row.floor = found.key;
        let kept = ties(row, ceil(found.missing / exp(logit_at(found.key) - row.top)), thread);
        if (kept > 0u) {
            last_id = ~find(row, TIES, 0.0, f32(kept), thread).key;
        }
    }
    var sum = 0.0;
    for (var i = thread; i < count; i += THREADS) {
        let id = list[to + i];
        let logit = scaled(logits[row.base + id]);
        if (remains(Cut(top, 0.0, row.floor, last_id, 0u), logit, id)) {
            sum += exp(logit - top);
        } else {
            list[to + i] = id | GONE;
        }
    }
    sum = sum_threads(sum, 1.0, thread);
    if (thread == 0u) {
        cuts[at] = Cut(top, select(sum, -1.0, is_broken), row.floor, last_id, count);
    }
}
