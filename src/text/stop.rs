//! Stop strings over a stream of text pieces: generation ends when one of them is complete, and it is never shown.

/// Watches a stream of text for stop strings.
///
/// The stop string that is complete first wins, the longest of those that end together; so the result does not depend on
/// how the text was cut into pieces.
#[derive(Debug, Clone)]
pub struct StopStrings {
    stops: Vec<String>,
    /// Text that could be the beginning of a stop string.
    held: String,
    stopped: bool,
}

impl StopStrings {
    /// Watches for any of `stops`; empty ones are ignored.
    pub fn new(mut stops: Vec<String>) -> Self {
        stops.retain(|stop| !stop.is_empty());
        Self { stops, held: String::new(), stopped: false }
    }

    /// Whether a text is one of them.
    pub fn contains(&self, text: &str) -> bool {
        self.stops.iter().any(|stop| stop == text)
    }

    /// The text that may be shown now, and whether a stop string was completed. It and all that follows is not shown.
    pub fn push(&mut self, text: &str) -> (String, bool) {
        if self.stopped {
            return (String::new(), true);
        }
        self.held.push_str(text);
        let found = self.stops.iter().filter_map(|stop| self.held.find(stop).map(|start| (start + stop.len(), start)));
        if let Some((_, start)) = found.min() {
            self.stopped = true;
            self.held.truncate(start);
            return (std::mem::take(&mut self.held), true);
        }
        let held = self.held.split_off(self.undecided());
        (std::mem::replace(&mut self.held, held), false)
    }

    /// The text that was held back; nothing when a stop string was completed.
    pub fn finish(&mut self) -> String {
        std::mem::take(&mut self.held)
    }

    /// Where the longest ending that could still grow into a stop string begins.
    fn undecided(&self) -> usize {
        let longest = self.stops.iter().map(String::len).max().unwrap_or(0);
        self.held
            .char_indices()
            .filter(|(at, _)| at + longest > self.held.len())
            .find(|(at, _)| self.held.get(*at..).is_some_and(|end| self.stops.iter().any(|stop| stop.starts_with(end))))
            .map_or(self.held.len(), |(at, _)| at)
    }
}
