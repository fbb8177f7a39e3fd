//! Assignment of tasks to servers and drafters.

use super::{
    Action, DraftInstance, DraftNode, DraftTask, Dsi, Feed, NodeId, Ranked, ServerState, TaskId, TextCopy, VerifyTask,
};

/// Logarithm of the ratio of probabilities from which a branch takes the server of another.
const CLEARLY: f64 = std::f64::consts::LN_2;

/// Probability below which a branch is not continued, if there are several drafters.
const RARE: f64 = 1e-4;

impl Dsi {
    pub(super) fn give_tasks(&mut self, actions: &mut Vec<Action>) {
        if !self.done {
            self.verify(actions);
            self.draft(actions);
        }
    }

    /// Assigns tasks to free servers as soon as `lookahead` tokens are available, or if the target is idle. The likeliest branch comes
    /// first.
    fn verify(&mut self, actions: &mut Vec<Action>) {
        let mut waiting = Vec::new();
        let mut stopping =
            self.servers.iter().filter(|server| !server.is_free).count().saturating_sub(self.tasks.len());
        let may_cancel = self.can_cancel && self.drafters.len() > 1;
        while may_cancel || self.servers.iter().any(|server| server.is_free) {
            let Some(begin) = self.begins.pop() else { break };
            if !self.is_current(begin) || !self.can_begin(begin.node) {
                continue;
            }
            let Some((nodes, ends_block)) = self.rows_from(begin.node) else {
                waiting.push(begin);
                continue;
            };
            if self.servers.iter().all(|server| !server.is_free) {
                waiting.push(begin);
                if stopping > 0 {
                    stopping -= 1;
                } else if !self.cancel_for(begin.node, actions) {
                    break;
                }
                continue;
            }
            let (first, end) = (self.tree.node(nodes[0]).position, nodes[nodes.len() - 1]);
            // The server that has most of the text.
            let drafted = self.tree.drafted(end);
            let free = (0..).zip(&self.servers).filter(|(_, server)| server.is_free);
            let shared = free.map(|(at, server)| (at, server.copy.shared(&self.tree, &drafted)));
            let Some((server, shared)) = shared.min_by_key(|(_, shared)| usize::MAX - shared) else { break };
            // All rows go through the target, even if the server has read them before.
            let keep = shared.min(first);
            let feed = Feed { keep, tokens: self.tree.tokens(keep, &drafted) };
            let task = self.number();
            self.servers[server] = ServerState { is_free: false, copy: TextCopy::new(&self.tree, drafted) };
            for &node in &nodes {
                self.tree.node_mut(node).is_fed = true;
                self.begins.extend(self.tree.children(node).map(|child| Ranked::new(&self.tree, child)));
            }
            if ends_block {
                self.tree.end_block(end);
            }
            self.counts.verified += 1;
            actions.push(Action::Verify { task, server, feed, rows: nodes.len() });
            self.tasks.push(VerifyTask { id: task, server, first, nodes });
        }
        waiting.into_iter().for_each(|begin| self.begins.push(begin));
    }

    /// Returns true if the target was not given a node yet, but was given all nodes before it.
    pub(super) fn can_begin(&self, id: NodeId) -> bool {
        let is_next = |node: &DraftNode| id == self.tree.root_id() || self.tree.node(node.parent).is_fed;
        self.is_unfed(id) && is_next(self.tree.node(id))
    }

    fn is_unfed(&self, id: NodeId) -> bool {
        self.tree.get(id).is_some_and(|node| !node.is_fed) && self.tree.is_continuable(id)
    }

    /// Returns the nodes of a verify task, and true if they end a block. `None`: it is better to wait for more draft tokens.
    fn rows_from(&self, begin: NodeId) -> Option<(Vec<NodeId>, bool)> {
        let tree = &self.tree;
        let (mut nodes, mut end) = (vec![begin], begin);
        let likeliest = |of: NodeId| {
            let unfed = tree.children(of).filter(|&child| self.is_unfed(child));
            unfed.max_by_key(|&child| Ranked::new(tree, child))
        };
        while let Some(next) = likeliest(end) {
            nodes.push(next);
            end = next;
        }
        let is_full = (tree.node(end).position + 1).saturating_sub(tree.node(end).block) >= self.lookahead;
        let is_enough = match self.is_idle() {
            true => self.is_worth(end, tree.node(begin).position + 1, self.patience),
            false => is_full,
        };
        let waits = !is_enough && self.grows(&nodes);
        nodes.truncate(self.lookahead.saturating_add(1));
        (!waits).then_some((nodes, is_full))
    }

    /// Cancels the least likely task, if a node is clearly likelier.
    fn cancel_for(&mut self, begin: NodeId, actions: &mut Vec<Action>) -> bool {
        let surprisal = |task: &VerifyTask| self.tree.get(task.nodes[0]).map_or(0.0, |node| node.surprisal);
        let least =
            (0..self.tasks.len()).max_by(|&a, &b| surprisal(&self.tasks[a]).total_cmp(&surprisal(&self.tasks[b])));
        let Some(at) = least.filter(|&at| surprisal(&self.tasks[at]) > self.tree.node(begin).surprisal + CLEARLY)
        else {
            return false;
        };
        let task = self.tasks.remove(at);
        self.counts.cancelled += 1;
        actions.push(Action::Cancel { task: task.id });
        task.nodes.iter().for_each(|&node| self.request_again(node));
        true
    }

    /// Returns true if as many tokens of a branch, those from a position on, can be expected to be right as of `count` tokens of the best
    /// drafter.
    fn is_worth(&self, end: NodeId, from: usize, count: usize) -> bool {
        let chance = |drafter: usize| self.drafters[drafter].chance();
        let (mut chances, mut node) = (Vec::new(), end);
        while self.tree.node(node).position >= from && node != self.tree.root_id() {
            let is_draft = self.tree.node(node).drafters != 0;
            chances.push(if is_draft { self.tree.probability(node, chance) } else { 1.0 });
            node = self.tree.node(node).parent;
        }
        let best = (0..self.drafters.len()).map(chance).fold(0.0, f64::max);
        let expected_of_best = expected(std::iter::repeat_n(best, count));
        expected(chances.into_iter().rev()) >= expected_of_best * (1.0 - 1e-9)
    }

    /// Returns true if a drafter continues a branch, or will. `nodes`: those that the target was not given.
    fn grows(&self, nodes: &[NodeId]) -> bool {
        let end = nodes[nodes.len() - 1];
        let is_asked = self.tree.node(end).asked.count_ones() as usize == self.drafters.len();
        let is_drafted = || self.drafting().any(|task| nodes.contains(&task.after));
        self.tree.draftable(end) > 0 && (!is_asked && self.wanted(end) > 0 || is_drafted())
    }

    pub(super) fn drafting(&self) -> impl Iterator<Item = &DraftTask> {
        self.instances.iter().filter_map(|instance| instance.task.as_ref())
    }

    /// Gives drafters tasks, unless enough draft tokens are waiting for the target. The likeliest branch comes first.
    fn draft(&mut self, actions: &mut Vec<Action>) {
        let mut has_none = 0;
        for at in 0..self.instances.len() {
            let DraftInstance { drafter, task: None, .. } = self.instances[at] else { continue };
            if has_none >> drafter & 1 == 1 {
                continue;
            }
            let Some(after) = self.next_open(drafter) else {
                has_none |= 1 << drafter;
                continue;
            };
            let (task, left) = (self.number(), self.wanted(after));
            self.tree.node_mut(after).asked |= 1 << drafter;
            let drafted = self.tree.drafted(after);
            let keep = self.instances[at].copy.shared(&self.tree, &drafted);
            let feed = Feed { keep, tokens: self.tree.tokens(keep, &drafted) };
            let copy = TextCopy::new(&self.tree, drafted);
            self.instances[at] = DraftInstance { drafter, copy, task: Some(DraftTask { id: task, after, left }) };
            actions.push(Action::Draft { task, drafter, instance: at, feed, most: left });
        }
    }

    /// Returns the likeliest node that a drafter can continue now.
    fn next_open(&mut self, drafter: usize) -> Option<NodeId> {
        let mut waiting = Vec::new();
        let found = loop {
            let Some(ranked) = self.drafters[drafter].open.pop() else { break None };
            let is_open = |node: &DraftNode| node.asked >> drafter & 1 == 0 && !node.is_known;
            if !self.is_current(ranked) || !self.tree.get(ranked.node).is_some_and(is_open) {
                continue;
            }
            if self.tree.draftable(ranked.node) == 0 {
                continue;
            }
            if self.wanted(ranked.node) > 0 {
                break Some(ranked.node);
            }
            waiting.push(ranked);
            if self.is_rare(ranked.node) {
                break None;
            }
        };
        waiting.into_iter().for_each(|node| self.drafters[drafter].open.push(node));
        found
    }

    fn is_rare(&self, id: NodeId) -> bool {
        let probability = || (self.tree.root().surprisal - self.tree.node(id).surprisal).exp();
        self.drafters.len() > 1 && probability() < RARE
    }

    /// Returns how many draft tokens may be added after a node now. `lookahead + 1` may wait for a server. All unsettled tokens must fit into
    /// the servers and that queue, however long the slowest server takes; with several drafters, that many for each.
    fn wanted(&self, id: NodeId) -> usize {
        if self.is_rare(id) {
            return 0;
        }
        let (tree, block) = (&self.tree, self.lookahead.saturating_add(1));
        let (mut waiting, mut at) = (0, id);
        while !tree.node(at).is_fed && waiting < block {
            waiting += 1;
            if at == tree.root_id() {
                break;
            }
            at = tree.node(at).parent;
        }
        let most = self.servers.len().saturating_add(1).saturating_mul(block);
        let branch = most.saturating_sub(tree.node(id).position - tree.root().position);
        let all = most.saturating_mul(self.drafters.len()).saturating_sub(tree.count());
        (block - waiting).min(branch).min(all).min(tree.draftable(id))
    }

    fn number(&mut self) -> TaskId {
        self.next += 1;
        self.next
    }
}

/// Returns the expected number of leading right tokens, from the chance of each if those before it are right.
fn expected(chances: impl Iterator<Item = f64>) -> f64 {
    let (mut all, mut sum) = (1.0, 0.0);
    for chance in chances {
        all *= chance;
        sum += all;
    }
    sum
}
