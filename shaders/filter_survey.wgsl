@group(0) @binding(0) var<uniform> step: Step;
@group(0) @binding(1) var<uniform> dims: SampleDims;
@group(0) @binding(2) var<storage, read> logits: array<vec4f>;          // (rows, stride / 4)
@group(0) @binding(3) var<storage, read_write> largest: array<f32>;     // (rows, segments, THREADS)
@group(0) @binding(4) var<uniform> sampling: SamplingBlock;
@group(0) @binding(5) var<storage, read_write> segments: array<vec2f>;  // (rows, segments): largest, sum

fn weights(v: vec4f, top: f32) -> f32 {
    let p = select(exp(v - top), vec4f(), v < vec4f(LOWEST));
    return (p.x + p.y) + (p.z + p.w);
}

fn scaled_four(v: vec4f) -> vec4f {
    return vec4f(scaled(v.x), scaled(v.y), scaled(v.z), scaled(v.w));
}

fn top_of(v: vec4f) -> f32 {
    return max(max(v.x, v.y), max(v.z, v.w));
}

fn is_broken(v: vec4f) -> bool {
    return !(is_finite(v.x) && is_finite(v.y) && is_finite(v.z) && is_finite(v.w));
}

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(local_invocation_index) thread: u32) {
    if (step.rows == 0u) {
        return;
    }
    let row = step.draft_row + id.y;
    let raw_a = four_logits(row, first_id(id.x, thread, 0u));
    let raw_b = four_logits(row, first_id(id.x, thread, 1u));
    let raw_c = four_logits(row, first_id(id.x, thread, 2u));
    let raw_d = four_logits(row, first_id(id.x, thread, 3u));
    let broken = is_broken(raw_a) || is_broken(raw_b) || is_broken(raw_c) || is_broken(raw_d);
    let a = scaled_four(raw_a);
    let b = scaled_four(raw_b);
    let c = scaled_four(raw_c);
    let d = scaled_four(raw_d);
    let mine = max(max(top_of(a), top_of(b)), max(top_of(c), top_of(d)));
    let place = id.y * segment_count() + id.x;
    largest[place * THREADS + thread] = mine;
    let top = max_threads(mine, thread);
    let sum = sum_threads((weights(a, top) + weights(b, top)) + (weights(c, top) + weights(d, top)), 1.0, thread);
    workgroupBarrier();
    let faults = sum_threads(select(0.0, 1.0, broken), 1.0, thread);
    if (thread == 0u) {
        segments[place] = vec2f(top, select(sum, -1.0, faults > 0.0));
    }
}
