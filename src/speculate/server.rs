//! Policy of the adaptive schedule for a target on a server.

use super::budget::MAX_SAVED;
use super::{DRAFTERS, Origin};

/// Target forwards of credit that a drafter gains for each proposal whose first token the text confirmed. Each wrong first token takes as
/// much away.
const CREDIT: f64 = 0.4;

/// Policy for a server, which streams plain rounds without requests.
///
/// A draft interrupts the stream. This costs two round trips: one for the draft, one until the server streams again. So while the server
/// streams, the second is added to the cost of each candidate, and charged when the stream ends. A CPU drafter is trusted only after the
/// text confirmed its proposals: then it has a credit, since trials of a draft model may have used up the budget.
#[derive(Default)]
pub(super) struct ServerPolicy {
    /// Credit by [`Origin`].
    credits: [f64; DRAFTERS],
    /// True if the server streams, so that a draft would interrupt it.
    pub is_streaming: bool,
}

impl ServerPolicy {
    /// Returns the target forwards that a drafter may lose in addition to the budget.
    pub fn credit(&self, drafter: Origin) -> f64 {
        self.credits[drafter as usize]
    }

    /// Records whether the text confirmed the first token of a proposal.
    pub fn learn(&mut self, drafter: Origin, is_right: bool) {
        let credit = &mut self.credits[drafter as usize];
        *credit = (*credit + if is_right { CREDIT } else { -CREDIT }).clamp(0.0, MAX_SAVED);
    }
}
