@group(0) @binding(0) var<uniform> step: Step;
@group(0) @binding(1) var<uniform> dims: SampleDims;
@group(0) @binding(2) var<storage, read> logits: array<vec4f>;      // (rows, stride / 4)
@group(0) @binding(3) var<storage, read> cuts: array<Cut>;          // (rows)
@group(0) @binding(4) var<uniform> sampling: SamplingBlock;
@group(0) @binding(5) var<storage, read_write> found: array<u32>;   // (rows, segments, SEGMENT)
@group(0) @binding(6) var<storage, read_write> counts: array<u32>;  // (rows, segments)

var<workgroup> before: array<u32, THREADS>;  // number of ids of the threads up to this one

fn is_wanted(logit: f32, floor: u32) -> u32 {
    return u32(!is_removed(logit) && rank(scaled(logit)) >= floor);
}

fn wanted(four: vec4f, floor: u32) -> vec4u {
    return vec4u(is_wanted(four.x, floor), is_wanted(four.y, floor), is_wanted(four.z, floor), is_wanted(four.w, floor));
}

fn total(four: vec4u) -> u32 {
    return (four.x + four.y) + (four.z + four.w);
}

fn leave(four: vec4u, first: u32, at: u32) -> u32 {
    var next = at;
    for (var i = 0u; i < 4u; i++) {
        if (four[i] > 0u) {
            found[next] = first + i;
            next++;
        }
    }
    return next;
}

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(local_invocation_index) thread: u32) {
    if (step.rows == 0u) {
        return;
    }
    let row = step.draft_row + id.y;
    let floor = cuts[row].floor;
    let a = wanted(four_logits(row, first_id(id.x, thread, 0u)), floor);
    let b = wanted(four_logits(row, first_id(id.x, thread, 1u)), floor);
    let c = wanted(four_logits(row, first_id(id.x, thread, 2u)), floor);
    let d = wanted(four_logits(row, first_id(id.x, thread, 3u)), floor);
    let mine = (total(a) + total(b)) + (total(c) + total(d));
    before[thread] = mine;
    workgroupBarrier();
    for (var distance = 1u; distance < THREADS; distance *= 2u) {
        var more = 0u;
        if (thread >= distance) {
            more = before[thread - distance];
        }
        workgroupBarrier();
        before[thread] += more;
        workgroupBarrier();
    }
    let place = id.y * segment_count() + id.x;
    var at = place * SEGMENT + before[thread] - mine;
    at = leave(a, first_id(id.x, thread, 0u), at);
    at = leave(b, first_id(id.x, thread, 1u), at);
    at = leave(c, first_id(id.x, thread, 2u), at);
    at = leave(d, first_id(id.x, thread, 3u), at);
    if (thread == THREADS - 1u) {
        counts[place] = before[thread];
    }
}
