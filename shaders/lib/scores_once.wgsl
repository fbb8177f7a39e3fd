// A workgroup has a thread for each of the positions that stand first.
fn find_all_scores(kv_head: u32, block: u32, first: u32, at: Places, thread: u32, is_long: bool) {
    find_scores(kv_head, block, first, at, thread, is_long);
}
