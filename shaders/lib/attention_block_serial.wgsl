fn find_scores(kv_head: u32, block: u32, first: u32, at: Places, eight: u32) {
    let k = head_index(kv_head, block * BLOCK) + eight * 32u;
    var s0 = Scores();
    var s1 = Scores();
    var s2 = Scores();
    var s3 = Scores();
    var s4 = Scores();
    var s5 = Scores();
    var s6 = Scores();
    var s7 = Scores();
    for (var c = 0u; c < heads.head_dim / 4u; c++) {
        let x = load_q(at, c);
        let here = k + c * (4u * BLOCK);
        s0 = score(s0, kv_load(here), x);
        s1 = score(s1, kv_load(here + 4u), x);
        s2 = score(s2, kv_load(here + 8u), x);
        s3 = score(s3, kv_load(here + 12u), x);
        s4 = score(s4, kv_load(here + 16u), x);
        s5 = score(s5, kv_load(here + 20u), x);
        s6 = score(s6, kv_load(here + 24u), x);
        s7 = score(s7, kv_load(here + 28u), x);
    }
    let position = vec4u(0u, 1u, 2u, 3u) + (block * BLOCK + eight * 8u);
    leave_all_scores(s0, s1, s2, s3, first, eight * 2u, position);
    leave_all_scores(s4, s5, s6, s7, first, eight * 2u + 1u, position + 4u);
}

fn load_values(v: u32, position: vec4u) -> mat4x4f {
    let at = v + position * heads.head_dim;
    return mat4x4f(kv_load(at.x), kv_load(at.y), kv_load(at.z), kv_load(at.w));
}

fn attend(kv_head: u32, block: u32, first: u32, thread: u32) {
    // Number of positions in the block that the last of these rows may see.
    let filled = min(BLOCK, last_seen(row_of(first + VECTORS - 1u)) + 1u - block * BLOCK);
    let places = load_places(kv_head, first);
    for (var eight = thread; eight < (filled + 7u) / 8u; eight += THREADS) {
        find_scores(kv_head, block, first, places, eight);
    }
    workgroupBarrier();
    let fours = (filled + 3u) / 4u;
    find_shares(fours, thread);

    // Threads past the last elements repeat them.
    let c = min(vec2u(thread * 2u, thread * 2u + 1u), vec2u(heads.head_dim / 4u - 1u));
    let v = head_index(heads.kv_heads + kv_head, block * BLOCK) + c * 4u;
    var a = Fours();
    var b = Fours();
    for (var four = 0u; four < fours; four++) {
        let p = load_shares(four);
        // Positions after the last one hold arbitrary data.
        let position = min(vec4u(0u, 1u, 2u, 3u) + four * 4u, vec4u(filled - 1u));
        a = add_values(a, p, load_values(v.x, position));
        b = add_values(b, p, load_values(v.y, position));
    }
    workgroupBarrier();
    leave_values(a, c.x);
    leave_values(b, c.y);
    workgroupBarrier();
}

fn block_values(n: u32, c: u32) -> vec4f {
    return shares[n * PLACES + c];
}
