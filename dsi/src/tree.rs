//! The text in the state machine: settled tokens, then a tree of tokens that the target has yet to verify.

use std::collections::VecDeque;

/// Number of a node. Children have greater numbers than their parents.
pub(super) type NodeId = usize;

/// A token after the settled ones, or the last settled one, which is the root.
#[derive(Debug)]
pub(super) struct DraftNode {
    pub(super) token: u32,
    pub(super) position: usize,
    pub(super) parent: NodeId,
    /// Latest child, and the next older child of the same parent; 0: none.
    child: NodeId,
    sibling: NodeId,
    /// Drafters that proposed it, a bit each. None: it is the target's own.
    pub(super) drafters: u32,
    /// Drafters that continue it or were asked to, a bit each.
    pub(super) asked: u32,
    /// `true`: the target chose it after the tokens before it.
    is_verified: bool,
    /// `true`: the target was given it as input.
    pub(super) is_fed: bool,
    /// `true`: the target's token after it is known, and is its only child.
    pub(super) is_known: bool,
    /// Negative logarithm of the estimated probability that the tokens up to it are the target's.
    pub(super) surprisal: f64,
    /// Start of the block of draft tokens that is being filled after it.
    pub(super) block: usize,
}

/// Effect of a token of the target on the tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    /// The token was there, and is now verified.
    Confirmed,
    /// The token was added.
    Added(NodeId),
    /// Only other tokens were there. They and all tokens after them were removed.
    Replaced(NodeId),
}

/// Tokens of a text. One that ends the text has no children.
#[derive(Debug)]
pub(super) struct DraftTree {
    settled: Vec<u32>,
    /// Nodes by number; the first one has number `first`.
    nodes: VecDeque<Option<DraftNode>>,
    first: NodeId,
    root: NodeId,
    /// Number of nodes, without the root.
    count: usize,
    prompt: usize,
    limit: usize,
    ends: Vec<u32>,
}

impl DraftTree {
    /// Creates a tree from a prompt of one token or more, which is settled. `room`: tokens wanted.
    pub(super) fn new(prompt: &[u32], room: usize, ends: Vec<u32>) -> Self {
        let root = DraftNode {
            token: prompt[prompt.len() - 1],
            position: prompt.len() - 1,
            parent: 0,
            child: 0,
            sibling: 0,
            drafters: 0,
            asked: 0,
            is_verified: true,
            is_fed: false,
            is_known: false,
            surprisal: 0.0,
            block: prompt.len(),
        };
        Self {
            settled: prompt.to_vec(),
            nodes: VecDeque::from([Some(root)]),
            first: 0,
            root: 0,
            count: 0,
            prompt: prompt.len(),
            limit: prompt.len().saturating_add(room),
            ends,
        }
    }

    pub(super) fn root(&self) -> &DraftNode {
        self.node(self.root)
    }

    pub(super) fn root_id(&self) -> NodeId {
        self.root
    }

    /// Counts tokens that are not settled, on all branches.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    pub(super) fn get(&self, id: NodeId) -> Option<&DraftNode> {
        self.nodes.get(id.checked_sub(self.first)?)?.as_ref()
    }

    /// Returns a node of the tree.
    pub(super) fn node(&self, id: NodeId) -> &DraftNode {
        self.get(id).expect("the node is in the tree")
    }

    /// Returns a node of the tree, to change it.
    pub(super) fn node_mut(&mut self, id: NodeId) -> &mut DraftNode {
        self.nodes[id - self.first].as_mut().expect("the node is in the tree")
    }

    /// Returns the tokens of a branch after the settled ones.
    pub(super) fn drafted(&self, to: NodeId) -> Vec<u32> {
        let (mut tokens, mut node) = (Vec::new(), self.node(to));
        while node.position >= self.settled.len() {
            tokens.push(node.token);
            node = self.node(node.parent);
        }
        tokens.reverse();
        tokens
    }

    /// Returns the tokens of the text from a position on. `drafted`: those that are not settled.
    pub(super) fn tokens(&self, from: usize, drafted: &[u32]) -> Vec<u32> {
        let settled = self.settled.get(from..).unwrap_or_default();
        settled.iter().chain(&drafted[from.saturating_sub(self.settled.len())..]).copied().collect()
    }

    /// Returns true if the target can be asked for the token after a node.
    pub(super) fn is_continuable(&self, id: NodeId) -> bool {
        let node = self.node(id);
        let ends = node.position >= self.prompt && self.ends.contains(&node.token);
        !ends && node.position + 1 < self.limit
    }

    /// Counts draft tokens that can be used after a node: the last wanted token is the target's own.
    pub(super) fn draftable(&self, id: NodeId) -> usize {
        if self.is_continuable(id) { self.limit - 2 - self.node(id).position } else { 0 }
    }

    /// Returns the children of a node.
    pub(super) fn children(&self, id: NodeId) -> impl Iterator<Item = NodeId> {
        let child = |id: NodeId| (id != 0).then_some(id);
        std::iter::successors(child(self.node(id).child), move |&at| child(self.node(at).sibling))
    }

    fn add(&mut self, parent: NodeId, token: u32, drafters: u32) -> NodeId {
        let id = self.first + self.nodes.len();
        let node = self.node_mut(parent);
        let &mut DraftNode { position, surprisal, block, .. } = node;
        let sibling = std::mem::replace(&mut node.child, id);
        self.nodes.push_back(Some(DraftNode {
            token,
            position: position + 1,
            parent,
            child: 0,
            sibling,
            drafters,
            asked: 0,
            is_verified: drafters == 0,
            is_fed: false,
            is_known: false,
            surprisal,
            block,
        }));
        self.count += 1;
        id
    }

    /// Adds a draft token after a node, or finds it. `chance(drafter)`: the probability that a drafter's token is right. Returns the token's
    /// node, and the nodes whose probability has changed.
    pub(super) fn draft(
        &mut self,
        parent: NodeId,
        token: u32,
        drafter: usize,
        chance: impl Fn(usize) -> f64,
    ) -> (NodeId, Vec<NodeId>) {
        let found = self.children(parent).find(|&child| self.node(child).token == token);
        let id = found.unwrap_or_else(|| self.add(parent, token, 1 << drafter));
        self.node_mut(id).drafters |= 1 << drafter;
        // Drafters that disagree make each other less likely.
        let (before, mut changed) = (self.node(parent).surprisal, Vec::new());
        let mut next = self.node(parent).child;
        while next != 0 {
            let child = next;
            next = self.node(child).sibling;
            let change = before - self.probability(child, &chance).ln() - self.node(child).surprisal;
            self.change_all(child, |child, node| {
                node.surprisal += change;
                changed.push(child);
            });
        }
        (id, changed)
    }

    /// Returns the probability that a draft token is right if those before it are, given what all drafters proposed in its place. They are
    /// independent of each other.
    pub(super) fn probability(&self, id: NodeId, chance: impl Fn(usize) -> f64) -> f64 {
        let children = || self.children(self.node(id).parent);
        let all = children().fold(0, |all, child| all | self.node(child).drafters);
        // The probability that these are right and all others wrong.
        let only = |right: u32| {
            let of = |drafter| if right >> drafter & 1 == 1 { chance(drafter) } else { 1.0 - chance(drafter) };
            bits(all).map(of).product::<f64>()
        };
        let any: f64 = children().map(|child| only(self.node(child).drafters)).sum();
        only(self.node(id).drafters) / (any + only(0))
    }

    /// Enters the target's token after a node.
    pub(super) fn verify(&mut self, parent: NodeId, token: u32) -> Change {
        let position = self.node(parent).position + 1;
        let node = self.node_mut(parent);
        if std::mem::replace(&mut node.is_known, true) {
            return Change::Confirmed;
        }
        node.is_fed = true;
        let mut next = std::mem::replace(&mut node.child, 0);
        let (mut right, mut block) = (None, None);
        while next != 0 {
            let child = next;
            next = self.node(child).sibling;
            if self.node(child).token == token {
                right = Some(child);
            } else {
                block = block.max(self.remove(child));
            }
        }
        if let Some(right) = right {
            self.node_mut(parent).child = right;
            let right = self.node_mut(right);
            (right.sibling, right.is_verified) = (0, true);
            return Change::Confirmed;
        }
        let id = self.add(parent, token, 0);
        if block.is_some_and(|block| block > position) {
            // The block that was being filled is gone: the next one begins after this token.
            self.node_mut(id).block = position + 1;
        }
        if block.is_none() { Change::Added(id) } else { Change::Replaced(id) }
    }

    /// Removes a branch. Returns the latest start of a block in it.
    fn remove(&mut self, id: NodeId) -> Option<usize> {
        let mut block = None;
        self.change_all(id, |_, node| block = block.max(Some(node.block)));
        // Children have greater numbers.
        for at in id..self.first + self.nodes.len() {
            let is_gone = |node: &DraftNode| at == id || self.get(node.parent).is_none();
            if self.get(at).is_some_and(is_gone) {
                self.nodes[at - self.first] = None;
                self.count -= 1;
            }
        }
        block
    }

    /// Changes a node and all nodes after it.
    fn change_all(&mut self, id: NodeId, mut change: impl FnMut(NodeId, &mut DraftNode)) {
        let (mut next, mut branches) = (id, Vec::new());
        while next != 0 {
            let node = self.node_mut(next);
            change(next, node);
            // A chain needs no list of its branches.
            if next != id && node.sibling != 0 {
                branches.push(node.sibling);
            }
            next = if node.child == 0 { branches.pop().unwrap_or(0) } else { node.child };
        }
    }

    /// Ends a block with a node. The next block begins after it.
    pub(super) fn end_block(&mut self, id: NodeId) {
        let block = self.node(id).position + 1;
        self.change_all(id, |_, node| node.block = block);
    }

    /// Settles the verified token after the root, if there is one. Returns it, the drafters that proposed it, and true if it is the last
    /// token.
    pub(super) fn settle(&mut self) -> Option<(u32, u32, bool)> {
        let next = self.children(self.root).find(|&child| self.node(child).is_verified)?;
        self.nodes[self.root - self.first] = None;
        self.root = next;
        self.count -= 1;
        while self.nodes.front().is_some_and(Option::is_none) {
            self.nodes.pop_front();
            self.first += 1;
        }
        let &DraftNode { token, drafters, .. } = self.root();
        self.settled.push(token);
        let last = self.settled.len() >= self.limit || self.ends.contains(&token);
        Some((token, drafters, last))
    }
}

/// Returns the drafters of a set of bits.
pub(super) fn bits(mut drafters: u32) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let next = (drafters != 0).then(|| drafters.trailing_zeros() as usize);
        drafters &= drafters.wrapping_sub(1);
        next
    })
}

/// A model's copy of the text.
#[derive(Debug, Clone, Default)]
pub(super) struct TextCopy {
    /// Leading tokens that were settled.
    settled: usize,
    /// Tokens after them.
    tail: Vec<u32>,
}

impl TextCopy {
    /// Copies a branch. `drafted`: its tokens after the settled ones.
    pub(super) fn new(tree: &DraftTree, drafted: Vec<u32>) -> Self {
        Self { settled: tree.settled.len(), tail: drafted }
    }

    /// Counts the leading tokens that a branch has too. `drafted`: its tokens after the settled ones.
    pub(super) fn shared(&self, tree: &DraftTree, drafted: &[u32]) -> usize {
        let branch = tree.settled[self.settled..].iter().chain(drafted);
        self.settled + self.tail.iter().zip(branch).take_while(|(own, token)| own == token).count()
    }

    /// Appends a token.
    pub(super) fn push(&mut self, token: u32) {
        self.tail.push(token);
    }
}
