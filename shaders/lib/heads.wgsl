const BLOCK = 256u;  // positions per block, the unit of the KV split; depends on the position alone

struct HeadDims {
    heads: u32,
    kv_heads: u32,
    head_dim: u32,
    rotary: u32,    // leading elements of a head that rotate
    q_stride: u32,  // elements per row of q
    window: u32,    // positions that a row sees, including its own
    q_table: u32,   // pairs in the rotary table before those for q; 0: q and k have the same table
    scale: f32,     // of the scores
    cap: f32,       // bound of the scores; 0: no bound
    whole: u32,     // 1: a row sees all rows of its pass; 0: those before it
    ahead: u32,     // positions between a row and the one by which it rotates
    one: f32,       // 1; compilers cannot reorder a sum by fma(summand, one, sum)
}

// Returns the last position that a row sees.
fn last_seen(row: u32) -> u32 {
    return step.position + select(row, step.rows - 1u, heads.whole == 1u);
}

fn head_index(head: u32, position: u32) -> u32 {
    return (position / BLOCK * 2u * heads.kv_heads + head) * BLOCK * heads.head_dim;
}

fn kv_index(head: u32, position: u32, i: u32) -> u32 {
    let in_k = (i / 4u * BLOCK + position % BLOCK) * 4u + i % 4u;
    let in_v = position % BLOCK * heads.head_dim + i;
    return head_index(head, position) + select(in_v, in_k, head < heads.kv_heads);
}

fn partial_index(block: u32, row: u32, head: u32) -> u32 {
    return (block * step.rows + row) * heads.heads + head;
}
