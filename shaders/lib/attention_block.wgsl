const APART = FOURS;  // distance between the four positions

fn find_scores(kv_head: u32, block: u32, first: u32, at: Places, t: u32, is_long: bool) {
    let k = head_index(kv_head, block * BLOCK) + t * 4u;
    var s0 = Scores();
    var s1 = Scores();
    var s2 = Scores();
    var s3 = Scores();
    for (var c = 0u; c < heads.head_dim / 4u; c++) {
        let x = load_q(at, c);
        let here = k + c * (4u * BLOCK);
        let k0 = kv_load(here);
        if (is_long) {
            let k1 = kv_load(here + 4u * APART);
            let k2 = kv_load(here + 8u * APART);
            let k3 = kv_load(here + 12u * APART);
            s1 = score(s1, k1, x);
            s2 = score(s2, k2, x);
            s3 = score(s3, k3, x);
        }
        s0 = score(s0, k0, x);
    }
    leave_all_scores(s0, s1, s2, s3, first, t, vec4u(0u, 1u, 2u, 3u) * APART + (block * BLOCK + t));
}

fn attend(kv_head: u32, block: u32, first: u32, thread: u32) {
    let width = heads.head_dim / 4u;
    // Number of positions in the block that the last of these rows may see.
    let filled = min(BLOCK, last_seen(row_of(first + VECTORS - 1u)) + 1u - block * BLOCK);
    let is_long = filled > APART;
    if (thread < FOURS) {
        find_scores(kv_head, block, first, load_places(kv_head, first), thread, is_long);
    }
    workgroupBarrier();
    find_shares(FOURS, thread);

    // Strip s holds positions s, s + strips, ... of each 64. There are as many strips as the threads allow.
    let strips = THREADS / width;
    let v = head_index(heads.kv_heads + kv_head, block * BLOCK) + thread % width * 4u;
    var values = Fours();
    if (thread / width < strips) {
        for (var t = thread / width; t < min(filled, APART); t += strips) {
            var four = mat4x4f();
            four[0] = kv_load(v + t * heads.head_dim);
            if (is_long) {
                // Positions after the last one hold arbitrary data.
                four[1] = kv_load(v + min(t + APART, filled - 1u) * heads.head_dim);
                four[2] = kv_load(v + min(t + 2u * APART, filled - 1u) * heads.head_dim);
                four[3] = kv_load(v + min(t + 3u * APART, filled - 1u) * heads.head_dim);
            }
            values = add_values(values, load_shares(t), four);
        }
    }
    workgroupBarrier();
    leave_values(values, thread);
    workgroupBarrier();
}

fn block_values(n: u32, c: u32) -> vec4f {
    let width = heads.head_dim / 4u;
    var total = vec4f();
    for (var strip = 0u; strip < THREADS / width; strip++) {
        total = fma(shares[n * PLACES + strip * width + c], vec4f(heads.one), total);
    }
    return total;
}
