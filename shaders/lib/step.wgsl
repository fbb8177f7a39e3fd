// Position of a forward pass. The draft model's sampler advances it, so a whole draft needs no CPU.
struct Step {
    position: u32,   // KV positions filled before this pass
    rows: u32,       // rows in this pass; 0: nothing to do
    token: u32,      // index in `round` of the first row's token id
    logit_row: u32,  // first row whose logits are needed
    out: u32,        // index in `round` for the first sampled id
    draft_row: u32,  // draft tokens between the pending token and the first such row; row for its logits
}
