//! Nodes in order of their probability.

use super::tree::{DraftTree, NodeId};
use std::cmp::Ordering;

/// A node in a heap, the likeliest first; of equal ones the earliest.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ranked {
    pub(super) surprisal: f64,
    pub(super) node: NodeId,
}

impl Ord for Ranked {
    fn cmp(&self, other: &Self) -> Ordering {
        other.surprisal.total_cmp(&self.surprisal).then(other.node.cmp(&self.node))
    }
}

impl PartialOrd for Ranked {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Eq for Ranked {}

impl PartialEq for Ranked {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Ranked {
    /// Returns a node with its current probability.
    pub(super) fn new(tree: &DraftTree, node: NodeId) -> Self {
        Self { surprisal: tree.node(node).surprisal, node }
    }
}
