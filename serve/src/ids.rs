//! Random ids of answers and calls, and the time.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::{SystemTime, UNIX_EPOCH};

/// Returns a random number. The standard library draws the keys of its hashes at random.
fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}

/// Returns an id of a tool call, in the form that Mistral's templates require: nine letters or digits.
pub(crate) fn call_id() -> String {
    let mut rest = random();
    let digits = std::iter::repeat_with(|| {
        let digit = char::from_digit((rest % 36) as u32, 36).unwrap_or('0');
        rest /= 36;
        digit
    });
    digits.take(9).collect()
}

/// Returns the id of an answer.
pub(crate) fn answer_id(prefix: &str) -> String {
    format!("{prefix}-{:016x}{:016x}", random(), random())
}

/// Returns the Unix time in seconds.
pub(crate) fn unix_time() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs())
}
