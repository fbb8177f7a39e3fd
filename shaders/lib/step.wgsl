struct Step {
    position: u32,   // KV positions filled before this pass
    rows: u32,       // rows in this pass; 0: nothing to do
    token: u32,      // index in `round` of the first row's token id
    logit_row: u32,  // first row whose logits are needed
    out: u32,        // index in `round` for the first sampled id
    draft_row: u32,  // draft tokens between the pending token and the first such row; row for its logits
    // Recurrent states, as in src/target/rollback.rs.
    slot: u32,       // slot of the state to start from
    base: u32,       // tokens before this state
    save_slot: u32,  // slot of the state to save
    save_at: u32,    // tokens before the state to save, or UNSAVED
    masks: u32,      // last rows, which read the mask token
    missed: u32,     // tokens before the pending one that a draft reads again if its round is submitted ahead
    skipped: u32,    // rows from the pending token's on that guess nothing
    lead: u32,       // positions between a row and the token that it reads: 0, or 1 for an MTP layer
}

const UNSAVED = 0xffffffffu;
