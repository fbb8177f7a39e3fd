const THREADS = SEGMENT / 16u;

fn first_id(segment: u32, thread: u32, n: u32) -> u32 {
    return segment * SEGMENT + (n * THREADS + thread) * 4u;
}

fn four_logits(row: u32, first: u32) -> vec4f {
    let inside = vec4u(first) + vec4u(0u, 1u, 2u, 3u) < vec4u(dims.vocab);
    return select(vec4f(REMOVED), logits[(row * dims.stride + min(first, dims.stride - 4u)) / 4u], inside);
}
