//! Detection of stop strings in a stream of text. Generation ends when a stop string is complete; stop strings are never shown.

/// Detector of stop strings in a stream of text.
///
/// The stop string that ends first counts; of several, the longest. So the result does not depend on how the text is split into pieces.
#[derive(Debug, Clone)]
pub struct StopStrings {
    stops: Vec<String>,
    /// Text that could be the beginning of a stop string.
    held: String,
    stopped: bool,
}

impl StopStrings {
    /// Creates a detector for any of `stops`; empty strings are ignored.
    pub fn new(mut stops: Vec<String>) -> Self {
        stops.retain(|stop| !stop.is_empty());
        Self { stops, held: String::new(), stopped: false }
    }

    /// Returns true if `text` is a stop string.
    pub fn contains(&self, text: &str) -> bool {
        self.stops.iter().any(|stop| stop == text)
    }

    /// Returns the text that may be shown now, and true if a stop string is complete. The stop string and everything after it is not shown.
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

    /// Returns the text that was held back; empty if a stop string was completed.
    pub fn finish(&mut self) -> String {
        std::mem::take(&mut self.held)
    }

    /// Returns the position of the longest suffix that could still become a stop string.
    fn undecided(&self) -> usize {
        let longest = self.stops.iter().map(String::len).max().unwrap_or(0);
        self.held
            .char_indices()
            .filter(|(at, _)| at + longest > self.held.len())
            .find(|(at, _)| self.held.get(*at..).is_some_and(|end| self.stops.iter().any(|stop| stop.starts_with(end))))
            .map_or(self.held.len(), |(at, _)| at)
    }
}
