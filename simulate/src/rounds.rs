//! Schedules that work in rounds: plain decoding, sequential speculation, and speculation that drafts the next block while it verifies the
//! current one.

use super::{Cell, LOOKAHEADS};

/// Duration of a round.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pass {
    /// Tokens known before.
    pub position: usize,
    /// Draft tokens.
    pub drafts: usize,
    /// Time of drafting.
    pub draft: f64,
    /// Time of the target's forward.
    pub verify: f64,
    /// `true`: both run at the same time, and the round ends with the later one.
    pub overlapped: bool,
}

impl Pass {
    /// Returns the time from the start to the end of the round.
    pub fn total(&self) -> f64 {
        if self.overlapped { self.draft.max(self.verify) } else { self.draft + self.verify }
    }
}

/// Returns the total latency of a schedule.
pub(super) fn total(schedule: impl FnOnce(&mut dyn FnMut(Pass))) -> f64 {
    let mut total = 0.0;
    schedule(&mut |pass| total += pass.total());
    total
}

/// Forwards of a text. The first one of each model reads the prompt.
struct Forwards<'a> {
    cell: &'a Cell,
    drafted: bool,
    verified: bool,
}

impl<'a> Forwards<'a> {
    fn new(cell: &'a Cell) -> Self {
        Self { cell, drafted: false, verified: false }
    }

    fn pass(&mut self, position: usize, drafts: usize, overlapped: bool) -> Pass {
        let Cell { target, drafter, .. } = self.cell;
        let mut draft = drafts as f64 * drafter.tpot;
        if drafts > 0 && !std::mem::replace(&mut self.drafted, true) {
            draft += drafter.ttft - drafter.tpot;
        }
        let verify = if std::mem::replace(&mut self.verified, true) { target.tpot } else { target.ttft };
        Pass { position, drafts, draft, verify, overlapped }
    }
}

/// Runs plain decoding: one forward per token.
pub fn plain(cell: &Cell, wait: &mut dyn FnMut(Pass)) {
    let mut forwards = Forwards::new(cell);
    (0..cell.tokens).for_each(|known| wait(forwards.pass(known, 0, false)));
}

/// Returns how many of `drafts` draft tokens from position `from` on are accepted.
pub(super) fn accepted(agreements: &[bool], from: usize, drafts: usize) -> usize {
    agreements[from..from + drafts].iter().take_while(|&&agrees| agrees).count()
}

/// Runs sequential speculation as the authors' public simulator counts it: a verification yields the accepted tokens alone, so a forward
/// without drafts follows each rejection.
pub fn si_of_authors(cell: &Cell, agreements: &[bool], wait: &mut dyn FnMut(Pass)) {
    let (mut forwards, mut known) = (Forwards::new(cell), 0);
    while known < cell.tokens {
        let drafts = cell.lookahead.min(cell.tokens - known);
        wait(forwards.pass(known, drafts, false));
        let right = accepted(agreements, known, drafts);
        known += right;
        if right < drafts {
            wait(forwards.pass(known, 0, false));
            known += 1;
        }
    }
}

/// Runs sequential speculation: draft `lookahead` tokens, verify them, emit the accepted ones and one token of the target.
pub fn si(cell: &Cell, agreements: &[bool], wait: &mut dyn FnMut(Pass)) {
    let (mut forwards, mut known) = (Forwards::new(cell), 0);
    while known < cell.tokens {
        let drafts = cell.lookahead.min(cell.tokens - known - 1);
        wait(forwards.pass(known, drafts, false));
        known += accepted(agreements, known, drafts) + 1;
    }
}

/// Runs an overlap of one block, after PEARL (Liu et al. 2024, arXiv 2408.11850). While a block is drafted, the target verifies its first
/// token (pre-verify). If that token is right, the next block is drafted while the target verifies the rest (post-verify). A round waits
/// for both.
pub fn pearl(cell: &Cell, agreements: &[bool], wait: &mut dyn FnMut(Pass)) {
    let (mut forwards, mut known, mut block) = (Forwards::new(cell), 0, None);
    while known < cell.tokens {
        let verified = block.unwrap_or(0);
        let drafts = cell.lookahead.min((cell.tokens - 1).saturating_sub(known + verified));
        wait(forwards.pass(known, drafts, true));
        let right = accepted(agreements, known, verified);
        known += right;
        let first_is_right = drafts > 0 && agreements[known];
        block = match block {
            // The verified block is right, and all of the next one is yet to be verified.
            Some(verified) if right == verified && drafts > 0 => Some(drafts),
            None if first_is_right => {
                known += 1;
                Some(drafts - 1)
            }
            _ => {
                known += 1;
                None
            }
        };
    }
}

/// Returns the expected latency of [`si`], by recursion over the number of tokens left. A round with k draft tokens takes `k c + t`.
/// Exactly a of them are accepted with probability `p^a (1 - p)`, all of them with `p^k`.
pub fn expected_si(cell: &Cell) -> f64 {
    let Cell { target, drafter, acceptance: p, lookahead, tokens, .. } = *cell;
    // left[n]: latency for n tokens. sums[n]: sum of p^a left[n - 1 - a] over all a < k.
    let (mut left, mut sums) = (vec![0.0; tokens + 1], vec![0.0; tokens + 1]);
    let full = p.powi(lookahead.min(tokens) as i32);
    for n in 1..=tokens {
        let k = lookahead.min(n - 1);
        let beyond = if n > lookahead { full * left[n - 1 - lookahead] } else { 0.0 };
        sums[n] = left[n - 1] + p * sums[n - 1] - beyond;
        left[n] = k as f64 * drafter.tpot + target.tpot + (1.0 - p) * sums[n] + beyond;
    }
    let first_draft = if tokens > 1 { drafter.ttft - drafter.tpot } else { 0.0 };
    left[tokens] + target.ttft - target.tpot + first_draft
}

/// Returns the lookahead with the least expected latency of sequential speculation, and that latency.
pub fn best_lookahead(cell: &Cell) -> (usize, f64) {
    let expected = |lookahead| (lookahead, expected_si(&Cell { lookahead, ..*cell }));
    // A lookahead beyond the end of the text drafts the same tokens.
    let last = (*LOOKAHEADS.end()).min(cell.tokens.max(2) - 1);
    let first = expected(*LOOKAHEADS.start());
    let other = (*LOOKAHEADS.start() + 1..=last).map(expected);
    other.fold(first, |best, next| if next.1 < best.1 { next } else { best })
}
