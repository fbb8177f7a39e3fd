// Sizes of an attention layer, and where its KV cache keeps what.
// K: (kv_heads, blocks, head_dim / 4, BLOCK) of 4 elements, so that neighbouring positions are neighbours in memory;
// V: (kv_heads, positions, head_dim / 4) of 4 elements. Both in one buffer, V behind K.
const BLOCK = 64u;  // positions per block: the grain of the KV split, a function of the position alone

struct HeadDims {
    heads: u32,
    kv_heads: u32,
    head_dim: u32,
    rotary: u32,    // leading elements of a head that rotate
    blocks: u32,    // blocks of positions that the cache holds
    q_stride: u32,  // elements per row of q
    window: u32,    // positions that a row sees, itself included
    scale: f32,     // of the scores
}

// Element index of element i of K at a position.
fn k_index(kv_head: u32, position: u32, i: u32) -> u32 {
    let line = (kv_head * heads.blocks + position / BLOCK) * (heads.head_dim / 4u) + i / 4u;
    return (line * BLOCK + position % BLOCK) * 4u + i % 4u;
}

// Element index of element i of V at a position.
fn v_index(kv_head: u32, position: u32, i: u32) -> u32 {
    let kv_size = heads.kv_heads * heads.blocks * BLOCK * heads.head_dim;
    return kv_size + (kv_head * heads.blocks * BLOCK + position) * heads.head_dim + i;
}
