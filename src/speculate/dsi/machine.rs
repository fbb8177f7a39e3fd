//! State machine: tasks in flight, effects of events, and the next actions.

use super::chain::{Change, DsiChain};
use super::{Action, Counts, DsiOptions, Event, Feed, TaskId};
use crate::error::{Error, Result};

/// A verification in flight. It returns ids for positions `first + 1 ..= first + valid`.
#[derive(Debug, Clone, Copy)]
struct VerifyTask {
    id: TaskId,
    server: usize,
    first: usize,
    /// Ids that still count, because they depend on no replaced token.
    valid: usize,
}

#[derive(Debug, Clone, Copy)]
struct DraftState {
    id: TaskId,
    left: usize,
}

#[derive(Debug, Clone, Copy)]
struct ServerState {
    /// `true`: it can take a task. A cancelled task stays with it until it reports that it is free.
    is_free: bool,
    /// Tokens of its copy of the text that are still valid.
    told: usize,
}

/// Distributed speculative inference of one text. The [module](super) has the rules.
#[derive(Debug)]
pub struct Dsi {
    chain: DsiChain,
    lookahead: usize,
    patience: usize,
    servers: Vec<ServerState>,
    /// Number of leading positions that the target was given as input.
    fed: usize,
    /// Start of the block of draft tokens that is being filled. A smaller task, given to an idle target, does not move it.
    block: usize,
    tasks: Vec<VerifyTask>,
    drafting: Option<DraftState>,
    /// True if the drafter has no proposal for the current text.
    dry: bool,
    /// Tokens of the drafter's copy of the text that are still valid.
    told: usize,
    next: TaskId,
    done: bool,
    counts: Counts,
}

impl Dsi {
    /// Creates a machine for a text whose prompt has one token or more. Nothing happens before the first event: the [`Event::Free`] of each
    /// server, as soon as it is ready.
    pub fn new(prompt: &[u32], options: DsiOptions) -> Result<Self> {
        let bad = |option: &'static str, value: usize, allowed: String| {
            Err(Error::BadOption { option: option.into(), value: value.to_string(), allowed })
        };
        let DsiOptions { lookahead, sp_degree, patience, room, ends } = options;
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
        Ok(Self {
            chain: DsiChain::new(prompt, room, ends),
            lookahead,
            patience,
            servers: vec![ServerState { is_free: false, told: 0 }; sp_degree],
            fed: 0,
            block: prompt.len(),
            tasks: Vec::new(),
            drafting: None,
            dry: false,
            told: 0,
            next: 0,
            done: room == 0,
            counts: Counts::default(),
        })
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
        if !self.done {
            self.verify(actions);
            self.draft(actions);
        }
    }

    /// Sets the draft tokens of a verify task (at least one), and the draft tokens that an idle target waits for.
    pub fn tune(&mut self, lookahead: usize, patience: usize, actions: &mut Vec<Action>) {
        self.lookahead = lookahead.max(1);
        self.patience = patience.min(self.lookahead);
        if !self.done {
            self.verify(actions);
            self.draft(actions);
        }
    }

    /// Returns true if no verify task is in flight, so that a target waits for the drafter.
    pub fn is_idle(&self) -> bool {
        self.tasks.is_empty()
    }

    /// Ends the text here, at a stop string or at the caller's request. Everything in flight is cancelled.
    pub fn stop(&mut self, actions: &mut Vec<Action>) {
        self.done = true;
        self.cancel_drafting(actions);
        self.cancel_tasks(actions, |_| true);
    }

    /// Returns true if the text is complete. Then nothing is in flight.
    pub fn is_done(&self) -> bool {
        self.done
    }

    /// Counts the tasks in flight whose results are needed, including drafting.
    pub fn in_flight(&self) -> usize {
        self.tasks.len() + usize::from(self.drafting.is_some())
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

    fn drafted(&mut self, task: TaskId, ids: &[u32], actions: &mut Vec<Action>) {
        let Some(DraftState { left, .. }) = self.drafting.filter(|drafting| drafting.id == task) else {
            return;
        };
        let mut used = 0;
        for &id in ids.iter().take(left) {
            if self.chain.draftable() == 0 {
                break;
            }
            self.chain.draft(id);
            used += 1;
        }
        self.counts.drafted += used;
        self.told = self.chain.len();
        self.dry = ids.is_empty();
        let goes_on = !ids.is_empty() && ids.len() < left;
        self.drafting = goes_on.then(|| DraftState { id: task, left: left - used });
        // The draft has ended the text, or no more draft tokens can be used.
        if self.chain.draftable() == 0 {
            self.cancel_drafting(actions);
        }
    }

    fn verified(&mut self, id: TaskId, ids: &[u32], actions: &mut Vec<Action>) {
        let Some(at) = self.tasks.iter().position(|task| task.id == id) else {
            return;
        };
        let VerifyTask { first, valid, .. } = self.tasks.remove(at);
        // Missing ids have to be requested again.
        if ids.len() < valid {
            self.fed = self.fed.min(first + ids.len());
        }
        for (position, &id) in (first + 1..).zip(&ids[..valid.min(ids.len())]) {
            if position > self.chain.len() {
                break;
            }
            match self.chain.verify(position, id) {
                Change::Confirmed => {}
                Change::Added => self.start_drafter_again(actions),
                Change::Replaced => {
                    self.roll_back(position, actions);
                    break;
                }
            }
        }
        while let Some((id, is_draft, last)) = self.chain.settle() {
            self.counts.emitted += 1;
            self.counts.accepted += usize::from(is_draft);
            actions.push(Action::Emit { id, is_draft });
            if last {
                return self.stop(actions);
            }
        }
        // Another server may have verified all tokens of a task.
        let is_open = |task: &VerifyTask| (1..=task.valid).any(|row| self.chain.is_open(task.first + row));
        let closed: Vec<TaskId> = self.tasks.iter().filter(|task| !is_open(task)).map(|task| task.id).collect();
        self.cancel_tasks(actions, |task| closed.contains(&task.id));
    }

    /// Invalidates everything that was computed from the token replaced at `position` or from later tokens.
    fn roll_back(&mut self, position: usize, actions: &mut Vec<Action>) {
        self.counts.rejected += 1;
        self.cancel_tasks(actions, |task| task.first >= position);
        for task in &mut self.tasks {
            task.valid = task.valid.min(position - task.first);
        }
        self.fed = self.fed.min(position);
        self.block = self.block.min(position + 1);
        for server in &mut self.servers {
            server.told = server.told.min(position);
        }
        self.told = self.told.min(position);
        self.start_drafter_again(actions);
    }

    fn start_drafter_again(&mut self, actions: &mut Vec<Action>) {
        self.cancel_drafting(actions);
        self.told = self.told.min(self.chain.len() - 1);
        self.dry = false;
    }

    fn cancel_drafting(&mut self, actions: &mut Vec<Action>) {
        if let Some(DraftState { id, .. }) = self.drafting.take() {
            self.counts.cancelled += 1;
            actions.push(Action::Cancel { task: id });
        }
    }

    fn cancel_tasks(&mut self, actions: &mut Vec<Action>, unwanted: impl Fn(&VerifyTask) -> bool) {
        let counts = &mut self.counts;
        self.tasks.retain(|task| {
            let unwanted = unwanted(task);
            if unwanted {
                counts.cancelled += 1;
                actions.push(Action::Cancel { task: task.id });
            }
            !unwanted
        });
    }

    fn lost(&mut self, index: usize) {
        let Some(server) = self.servers.get_mut(index) else {
            return;
        };
        *server = ServerState { is_free: false, told: 0 };
        let fed = &mut self.fed;
        self.tasks.retain(|task| {
            if task.server == index {
                *fed = (*fed).min(task.first);
            }
            task.server != index
        });
    }

    /// Assigns tasks to free servers as soon as `lookahead` tokens are available, or if the target is idle.
    fn verify(&mut self, actions: &mut Vec<Action>) {
        loop {
            // The one that has most of the text.
            let free = self.servers.iter().enumerate().filter(|(_, server)| server.is_free);
            let Some((server, &ServerState { told, .. })) = free.min_by_key(|(_, server)| usize::MAX - server.told)
            else {
                break;
            };
            let first = self.first();
            let end = self.chain.continuable();
            let waiting = end.saturating_sub(first);
            let full_block = end.saturating_sub(self.block) >= self.lookahead;
            let enough = if self.is_idle() { waiting > self.patience } else { full_block };
            let no_more = self.drafting.is_none() && (self.dry || self.chain.draftable() == 0);
            if waiting == 0 || !enough && !no_more {
                break;
            }
            let rows = waiting.min(self.lookahead.saturating_add(1));
            let end = first + rows;
            // All rows go through the target, even if the server has read them before.
            let keep = told.min(first);
            let feed = Feed { keep, tokens: self.chain.ids(keep, end) };
            let task = self.number();
            self.servers[server] = ServerState { is_free: false, told: end };
            self.fed = end;
            if full_block {
                self.block = end;
            }
            self.tasks.push(VerifyTask { id: task, server, first, valid: rows });
            self.counts.verified += 1;
            actions.push(Action::Verify { task, server, feed, rows });
        }
    }

    /// Gives the drafter a task, unless enough draft tokens are waiting for the target.
    fn draft(&mut self, actions: &mut Vec<Action>) {
        let most = self.wanted().min(self.chain.draftable());
        if self.drafting.is_some() || self.dry || most == 0 {
            return;
        }
        let (task, end) = (self.number(), self.chain.len());
        let feed = Feed { keep: self.told, tokens: self.chain.ids(self.told, end) };
        self.told = end;
        self.drafting = Some(DraftState { id: task, left: most });
        actions.push(Action::Draft { task, feed, most });
    }

    /// Returns how many draft tokens may be added now. `lookahead + 1` may wait for a server. All unsettled tokens must fit into the servers
    /// and that queue, however long the slowest server takes.
    fn wanted(&self) -> usize {
        let (block, length) = (self.lookahead.saturating_add(1), self.chain.len());
        let most = self.servers.len().saturating_add(1).saturating_mul(block);
        let waiting = length.saturating_sub(self.first());
        block.saturating_sub(waiting).min(most.saturating_sub(length - self.chain.settled()))
    }

    /// Returns the position of the first token of the next task: the next token is neither known nor requested.
    fn first(&self) -> usize {
        self.fed.max(self.chain.settled() - 1)
    }

    fn number(&mut self) -> TaskId {
        self.next += 1;
        self.next
    }
}
