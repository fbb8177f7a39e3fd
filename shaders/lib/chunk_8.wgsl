// Eight vec4s of weights in a chunk, without a loop: its counter would keep the compiler from loading ahead.
fn add_chunk(sums: Sums, raws: Raws, rows: Rows, at: u32) -> Sums {
    let s0 = add_four(sums, raws, 0u, rows, at);
    let s1 = add_four(s0, raws, 1u, rows, at);
    let s2 = add_four(s1, raws, 2u, rows, at);
    let s3 = add_four(s2, raws, 3u, rows, at);
    let s4 = add_four(s3, raws, 4u, rows, at);
    let s5 = add_four(s4, raws, 5u, rows, at);
    let s6 = add_four(s5, raws, 6u, rows, at);
    return add_four(s6, raws, 7u, rows, at);
}
