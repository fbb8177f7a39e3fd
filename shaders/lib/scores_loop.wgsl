// A workgroup has fewer threads than positions that stand first: on processors, where SwiftShader fills workgroup memory with zeros
// again for every four threads.
fn find_all_scores(kv_head: u32, block: u32, first: u32, at: Places, thread: u32, is_long: bool) {
    for (var t = thread; t < APART; t += THREADS) {
        find_scores(kv_head, block, first, at, t, is_long);
    }
}
