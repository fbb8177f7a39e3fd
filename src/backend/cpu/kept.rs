//! Hidden states that a target keeps for its drafter, which runs in the same rounds.

use super::rows::Rows;
use std::sync::{Arc, Mutex, PoisonError};

/// Hidden states of the latest positions [positions, hidden]: those of position p are in row p modulo their number.
#[derive(Clone)]
pub(super) struct KeptRows(Arc<Mutex<Rows>>);

impl KeptRows {
    pub fn new(positions: usize, hidden: usize) -> Self {
        Self(Arc::new(Mutex::new(Rows::new(positions, hidden))))
    }

    /// Returns the states of `count` positions from `position` on.
    pub fn rows(&self, position: usize, count: usize) -> Rows {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut rows = Rows::new(count, kept.width);
        for row in 0..count {
            rows.row_mut(row).copy_from_slice(kept.row((position + row) % kept.len()));
        }
        rows
    }

    /// Replaces the states of positions from `position` on.
    pub fn replace(&self, position: usize, rows: &Rows) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let positions = kept.len();
        for row in 0..rows.len() {
            kept.row_mut((position + row) % positions).copy_from_slice(rows.row(row));
        }
    }
}
