const NOT_DRAFTED = 0xfffffffeu;

struct Best {
    score: f32,  // logit plus noise
    token: u32,
    top: f32,    // the largest logit
    sum: f32,    // of exp(logit - top)
}

fn asks_for_confidence() -> bool {
    return (dims.advance & (ADVANCES | DECIDES)) == ADVANCES && sampling.confidence > 0.0;
}

// `logit`: logit of the token.
fn finish(row: u32, drafting: bool, best: Best, logit: f32) {
    let confident = !asks_for_confidence() || sampling.confidence * best.sum <= exp(logit - best.top);
    round[step.out + row] = select(NOT_DRAFTED, best.token, drafting);
    if (dims.advance > 0u) {
        // Rows that read the mask token guessed other tokens.
        let rows = select(step.rows, min(step.rows, 1u), step.masks > 0u);
        step.position += select(rows, 0u, (dims.advance & STAYS) != 0u);
        step.token = step.out;
        step.rows = select(0u, 1u, drafting && confident);
        step.logit_row = select(0u, step.logit_row, step.masks > 0u);
        step.out += 1u;
        step.draft_row += 1u;
        // Most of a draft may be rejected, so later passes save no state, and start from that of the first.
        if (step.save_at != UNSAVED) {
            step.slot = step.save_slot;
            step.base = step.save_at;
            step.save_at = UNSAVED;
        }
    }
}
