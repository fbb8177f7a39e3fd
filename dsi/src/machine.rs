//! State machine: tasks in flight, effects of events, and the next actions.

use super::tree::{Change, DraftTree, Node, NodeId, TextCopy, bits};
use super::{Action, Counts, DsiOptions, Event, Feed, InvalidOption, MAX_DRAFTERS, TaskId};
use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// Logarithm of the ratio of probabilities from which a branch takes the server of another.
const CLEARLY: f64 = std::f64::consts::LN_2;

/// Probability below which a branch is not continued, if there are several drafters.
const RARE: f64 = 1e-4;

/// A verification in flight. It returns a token for each node.
#[derive(Debug)]
struct VerifyTask {
    id: TaskId,
    server: usize,
    /// Position of the first node.
    first: usize,
    /// Nodes, one after the other, whose results still count.
    nodes: Vec<NodeId>,
}

#[derive(Debug, Clone, Copy)]
struct DraftTask {
    id: TaskId,
    /// Node after which the next token is drafted.
    after: NodeId,
    left: usize,
}

/// An instance of a drafter.
#[derive(Debug)]
struct DraftInstance {
    drafter: usize,
    copy: TextCopy,
    task: Option<DraftTask>,
}

#[derive(Debug, Clone, Default)]
struct ServerState {
    /// `true`: it can take a task. A cancelled task stays with it until it reports that it is free.
    is_free: bool,
    copy: TextCopy,
}

/// A node in a heap, the likeliest first; of equal ones the earliest.
#[derive(Debug, Clone, Copy)]
struct Ranked {
    surprisal: f64,
    node: NodeId,
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

/// State of a drafter, of all its instances.
#[derive(Debug, Clone, Default)]
struct DrafterState {
    /// Nodes that it could continue, among others.
    open: BinaryHeap<Ranked>,
    /// Verified draft tokens: right ones, and all.
    right: f64,
    verified: f64,
}

impl DrafterState {
    /// Returns the estimated probability that its token is right.
    fn chance(&self) -> f64 {
        (self.right + 1.0) / (self.verified + 2.0)
    }
}

/// Distributed speculative inference of one text. The [crate](super) has the rules.
#[derive(Debug)]
pub struct Dsi {
    tree: DraftTree,
    lookahead: usize,
    patience: usize,
    can_cancel: bool,
    servers: Vec<ServerState>,
    drafters: Vec<DrafterState>,
    instances: Vec<DraftInstance>,
    /// Nodes with which the next verify tasks could begin, among others.
    begins: BinaryHeap<Ranked>,
    tasks: Vec<VerifyTask>,
    next: TaskId,
    done: bool,
    counts: Counts,
}

impl Dsi {
    /// Creates a machine for a text whose prompt has one token or more. Nothing happens before the first event: the [`Event::Free`] of each
    /// server, as soon as it is ready.
    ///
    /// # Errors
    /// Names the first invalid option.
    pub fn new(prompt: &[u32], options: DsiOptions) -> Result<Self, InvalidOption> {
        let bad = |option, value: usize, allowed: String| Err(InvalidOption { option, value, allowed });
        let DsiOptions { lookahead, sp_degree, patience, room, ends, drafters, can_cancel } = options;
        if prompt.is_empty() {
            return bad("prompt", 0, "one token or more".into());
        }
        for (option, value) in [("lookahead", lookahead), ("sp_degree", sp_degree)] {
            if value == 0 {
                return bad(option, value, "1 or more".into());
            }
        }
        if patience > lookahead {
            return bad("patience", patience, format!("0 to lookahead ({lookahead})"));
        }
        if drafters.len() > MAX_DRAFTERS || drafters.contains(&0) {
            let allowed = format!("0 to {MAX_DRAFTERS}, each with one instance or more");
            return bad("drafters", drafters.len(), allowed);
        }
        let instances = (0..).zip(&drafters).flat_map(|(drafter, &count)| std::iter::repeat_n(drafter, count));
        let mut machine = Self {
            tree: DraftTree::new(prompt, room, ends),
            lookahead,
            patience,
            can_cancel,
            servers: vec![ServerState::default(); sp_degree],
            instances: instances
                .map(|drafter| DraftInstance { drafter, copy: TextCopy::default(), task: None })
                .collect(),
            drafters: vec![DrafterState::default(); drafters.len()],
            begins: BinaryHeap::new(),
            tasks: Vec::new(),
            next: 0,
            done: room == 0,
            counts: Counts::default(),
        };
        machine.open(machine.tree.root_id());
        Ok(machine)
    }

    /// Handles an event and appends the resulting actions to `actions`. Events of unknown tasks and servers change nothing.
    pub fn handle(&mut self, event: Event<'_>, actions: &mut Vec<Action>) {
        match event {
            Event::Drafted { task, ids } => self.drafted(task, ids, actions),
            Event::Verified { server, task, ids } => {
                self.free(server);
                self.verified(task, ids, actions);
            }
            Event::Free { server } => self.free(server),
            Event::Lost { server } => self.lost(server),
        }
        self.give_tasks(actions);
    }

    /// Sets the draft tokens of a verify task (at least one), and the draft tokens that an idle target waits for.
    pub fn tune(&mut self, lookahead: usize, patience: usize, actions: &mut Vec<Action>) {
        self.lookahead = lookahead.max(1);
        self.patience = patience.min(self.lookahead);
        self.give_tasks(actions);
    }

    /// Returns true if no verify task is in flight, so that a target waits for the drafters.
    pub fn is_idle(&self) -> bool {
        self.tasks.is_empty()
    }

    /// Ends the text here, at a stop string or at the caller's request. Everything in flight is cancelled.
    pub fn stop(&mut self, actions: &mut Vec<Action>) {
        self.done = true;
        self.cancel_drafting(actions, |_, _| true);
        self.cancel_tasks(actions, |_| true);
    }

    /// Returns true if the text is complete. Then nothing is in flight.
    pub fn is_done(&self) -> bool {
        self.done
    }

    /// Counts the tasks in flight whose results are needed, including drafting.
    pub fn in_flight(&self) -> usize {
        self.tasks.len() + self.instances.iter().filter(|instance| instance.task.is_some()).count()
    }

    /// Returns the counts so far.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    fn free(&mut self, server: usize) {
        if let Some(server) = self.servers.get_mut(server) {
            server.is_free = true;
        }
    }

    /// Lets drafters and target continue a node that is new, or has another probability.
    fn open(&mut self, node: NodeId) {
        let entry = ranked(&self.tree, node);
        if self.can_begin(node) {
            self.begins.push(entry);
        }
        self.drafters.iter_mut().for_each(|drafter| drafter.open.push(entry));
    }

    /// Returns true if a node of a heap is in the tree, and has the same probability there.
    fn is_current(&self, Ranked { surprisal, node }: Ranked) -> bool {
        self.tree.get(node).is_some_and(|node| node.surprisal == surprisal)
    }

    fn drafted(&mut self, id: TaskId, ids: &[u32], actions: &mut Vec<Action>) {
        let holds = |instance: &DraftInstance| instance.task.is_some_and(|task| task.id == id);
        let Some(at) = self.instances.iter().position(holds) else {
            return;
        };
        let Some(DraftTask { mut after, mut left, .. }) = self.instances[at].task.take() else {
            return;
        };
        let (drafter, bit) = (self.instances[at].drafter, 1 << self.instances[at].drafter);
        let has_ended = ids.is_empty() || ids.len() >= left;
        let mut is_useful = true;
        for &token in ids.iter().take(left) {
            let Self { tree, drafters, .. } = self;
            tree.node_mut(after).asked |= bit;
            let (node, changed) = tree.draft(after, token, drafter, |by| drafters[by].chance());
            changed.into_iter().for_each(|node| self.open(node));
            self.instances[at].copy.push(token);
            self.counts.drafted += 1;
            (after, left) = (node, left - 1);
            // Else the draft has ended the text, the target's next token is known, or another instance of the drafter continues it.
            let node = self.tree.node(after);
            is_useful = self.tree.draftable(after) > 0 && !node.is_known && node.asked & bit == 0;
            if !is_useful {
                break;
            }
        }
        if has_ended {
            return;
        }
        self.instances[at].task = Some(DraftTask { id, after, left });
        if is_useful {
            self.tree.node_mut(after).asked |= bit;
        } else {
            self.cancel_drafting(actions, |_, task| task.id == id);
        }
    }

    fn verified(&mut self, id: TaskId, ids: &[u32], actions: &mut Vec<Action>) {
        let Some(at) = self.tasks.iter().position(|task| task.id == id) else {
            return;
        };
        let VerifyTask { nodes, .. } = self.tasks.remove(at);
        // Missing tokens have to be requested again.
        nodes.iter().skip(ids.len()).for_each(|&node| self.request_again(node));
        for (&node, &token) in nodes.iter().zip(ids) {
            // Nodes may be settled, or removed by a token before them.
            if self.tree.get(node).is_some() {
                self.rate(node, token);
                match self.tree.verify(node, token) {
                    Change::Confirmed => {}
                    Change::Added(node) => self.open(node),
                    Change::Replaced(node) => {
                        self.counts.rejected += 1;
                        self.open(node);
                    }
                }
            }
        }
        self.cancel_removed(actions);
        while let Some((id, drafters, last)) = self.tree.settle() {
            let drafter = (drafters != 0 && !last).then(|| drafters.trailing_zeros() as usize);
            self.counts.emitted += 1;
            self.counts.accepted += usize::from(drafter.is_some());
            actions.push(Action::Emit { id, drafter });
            if last {
                return self.stop(actions);
            }
        }
        self.begins.push(ranked(&self.tree, self.tree.root_id()));
    }

    /// Counts the draft tokens after a node as right or wrong.
    fn rate(&mut self, node: NodeId, token: u32) {
        let is_known = self.tree.node(node).is_known;
        for child in self.tree.children(node).filter(|_| !is_known).map(|child| self.tree.node(child)) {
            for drafter in bits(child.drafters) {
                self.drafters[drafter].verified += 1.0;
                self.drafters[drafter].right += f64::from(u8::from(child.token == token));
            }
        }
    }

    fn request_again(&mut self, id: NodeId) {
        if self.tree.get(id).is_some_and(|node| !node.is_known) {
            self.tree.node_mut(id).is_fed = false;
            self.begins.push(ranked(&self.tree, id));
        }
    }

    /// Cancels everything that continues removed tokens, or would draft a token that the target has chosen.
    fn cancel_removed(&mut self, actions: &mut Vec<Action>) {
        self.cancel_drafting(actions, |tree, task| tree.get(task.after).is_none_or(|node| node.is_known));
        let settled = self.tree.root().position;
        for task in &mut self.tasks {
            let is_gone = |(position, &node): (usize, &NodeId)| position >= settled && self.tree.get(node).is_none();
            if let Some(at) = (task.first..).zip(&task.nodes).position(is_gone) {
                task.nodes.truncate(at);
            }
        }
        self.cancel_tasks(actions, |task| task.nodes.is_empty());
    }

    fn cancel_drafting(&mut self, actions: &mut Vec<Action>, unwanted: impl Fn(&DraftTree, &DraftTask) -> bool) {
        for instance in &mut self.instances {
            if let Some(DraftTask { id, .. }) = instance.task.take_if(|task| unwanted(&self.tree, task)) {
                self.counts.cancelled += 1;
                actions.push(Action::Cancel { task: id });
            }
        }
    }

    fn cancel_tasks(&mut self, actions: &mut Vec<Action>, unwanted: impl Fn(&VerifyTask) -> bool) {
        for task in self.tasks.extract_if(.., |task| unwanted(task)) {
            self.counts.cancelled += 1;
            actions.push(Action::Cancel { task: task.id });
        }
    }

    fn lost(&mut self, index: usize) {
        let Some(server) = self.servers.get_mut(index) else {
            return;
        };
        *server = ServerState::default();
        let lost: Vec<VerifyTask> = self.tasks.extract_if(.., |task| task.server == index).collect();
        lost.iter().flat_map(|task| &task.nodes).for_each(|&node| self.request_again(node));
    }

    fn give_tasks(&mut self, actions: &mut Vec<Action>) {
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
                self.begins.extend(self.tree.children(node).map(|child| ranked(&self.tree, child)));
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
    fn can_begin(&self, id: NodeId) -> bool {
        let is_next = |node: &Node| id == self.tree.root_id() || self.tree.node(node.parent).is_fed;
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
            unfed.max_by_key(|&child| ranked(tree, child))
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

    fn drafting(&self) -> impl Iterator<Item = &DraftTask> {
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
            let is_open = |node: &Node| node.asked >> drafter & 1 == 0 && !node.is_known;
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

fn ranked(tree: &DraftTree, node: NodeId) -> Ranked {
    Ranked { surprisal: tree.node(node).surprisal, node }
}
