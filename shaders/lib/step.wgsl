// Where a forward pass stands. The draft model's sampler moves it on by itself, so a whole draft needs no CPU.
struct Step {
    position: u32,   // KV positions filled before this pass
    rows: u32,       // rows in this pass; 0: nothing to do
    token: u32,      // index in `round` of the first row's token id
    logit_row: u32,  // first row whose logits are wanted
    out: u32,        // index in `round` for the first sampled id
    draft_row: u32,  // draft tokens between the pending token and the first wanted row: where its logits go
}
