//! State machine: tasks in flight, and effects of events.

mod assign;

use super::rank::Ranked;
use super::tree::{Change, DraftNode, DraftTree, NodeId, TextCopy, bits};
use super::{Action, Counts, DsiOptions, Event, Feed, InvalidOption, MAX_DRAFTERS, TaskId};
use std::collections::BinaryHeap;

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
        let entry = Ranked::new(&self.tree, node);
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
        self.begins.push(Ranked::new(&self.tree, self.tree.root_id()));
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
            self.begins.push(Ranked::new(&self.tree, id));
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
}
