//! Policy of the adaptive schedule for a target on a server.

/// Policy for a server, which streams plain rounds without requests.
///
/// A draft interrupts the stream. This costs two round trips: one for the draft, one until the server streams again. So while the server
/// streams, the second is added to the cost of each candidate, and charged when the stream ends.
#[derive(Default)]
pub(super) struct ServerPolicy {
    /// True if the server streams, so that a draft would interrupt it.
    pub is_streaming: bool,
}

impl ServerPolicy {
    /// Returns the cost until the server streams again after a draft. `waiting`: cost of a round trip.
    pub fn interruption(&self, waiting: f64) -> f64 {
        if self.is_streaming { waiting } else { 0.0 }
    }
}
