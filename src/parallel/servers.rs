//! Instances of a target and a drafter on threads of their own, and the loop that lets them write a text: reports become
//! events of the state machine, its actions become orders.

use super::Instance;
use super::threads::{Role, Thread, start};
use super::worker::{Build, Order, Report};
use crate::decode::Draft;
use crate::error::{Error, Result};
use crate::sample::Sampling;
use crate::session::Sink;
use crate::speculate::dsi::{Action, Dsi, DsiOptions, Event, Feed, TaskId};
use crate::speculate::{Accepted, Distributed, Drafter, Origin, PromptLookup, Stats};
use std::collections::{HashMap, VecDeque};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How often somebody looks whether there is still a target to wait for.
const LOOK: Duration = Duration::from_millis(500);

/// Threads with an instance each. Their caches stay from text to text.
pub struct Servers {
    targets: Vec<Sender<Order>>,
    drafter: Option<Sender<Order>>,
    /// Those of the targets first.
    handles: Vec<JoinHandle<()>>,
}

/// Who drafts.
pub enum Guess {
    /// Nobody: one token per target forward.
    Nothing,
    /// The text so far, on the caller's thread.
    Lookup(PromptLookup),
    /// The draft model.
    Model,
}

/// How a text is to be written.
pub struct Plan {
    /// How all instances choose their tokens: the same seed, the same text.
    pub sampling: Sampling,
    /// Draft tokens that make a verify task, 1 to [`crate::decode::MAX_DRAFT`].
    pub lookahead: usize,
    /// Who drafts.
    pub guess: Guess,
    /// Tokens that end a text.
    pub ends: Vec<u32>,
    /// Positions of the targets' caches.
    pub capacity: usize,
}

impl Servers {
    /// Starts a thread for each target, and one for the drafter, and waits until all of them are ready. Without a drafter
    /// where building it fails: then it says why.
    ///
    /// # Errors
    /// What building a target reports.
    pub fn start<T: Instance + 'static>(
        targets: Vec<Build<T>>,
        drafter: Option<Build<T>>,
    ) -> Result<(Self, Option<Error>)> {
        let mut servers = Self { targets: Vec::new(), drafter: None, handles: Vec::new() };
        let mut started = Vec::new();
        let roles = (0..).map(Role::Server).zip(targets).chain(drafter.map(|build| (Role::Drafter, build)));
        for (role, build) in roles {
            let Thread { orders, built, handle } = start(role, build)?;
            servers.handles.push(handle);
            started.push((role, orders, built));
        }
        let mut without_drafter = None;
        for (role, orders, built) in started {
            let failed = || Error::DeviceLost { reason: "its driver failed while a model was loaded".into() };
            match (built.recv().unwrap_or_else(|_| Err(failed())), role) {
                (Ok(()), Role::Server(_)) => servers.targets.push(orders),
                (Ok(()), Role::Drafter) => servers.drafter = Some(orders),
                (Err(error), Role::Server(_)) => return Err(error),
                (Err(error), Role::Drafter) => without_drafter = Some(error),
            }
        }
        Ok((servers, without_drafter))
    }

    /// Target instances.
    pub fn sp_degree(&self) -> usize {
        self.targets.len()
    }

    /// Whether a draft model is there.
    pub fn has_drafter(&self) -> bool {
        self.drafter.is_some()
    }

    /// Writes a text behind a prompt of one token or more: what plain decoding would write. A server whose device is lost
    /// sets itself up again, and meanwhile the others go on.
    ///
    /// # Errors
    /// [`Error::ContextFull`] before anything is computed; [`Error::BadOption`]; what the sink reports; what a target
    /// reports, where another instance would report it too, or where no server is left.
    pub fn write(&mut self, prompt: &[u32], plan: Plan, sink: &mut impl Sink) -> Result<Stats> {
        if prompt.len() >= plan.capacity {
            return Err(Error::ContextFull { need: prompt.len(), limit: plan.capacity });
        }
        let room = sink.room().min(plan.capacity - prompt.len() + 1);
        let machine = Dsi::new(prompt, DsiOptions::pair(plan.lookahead, self.sp_degree(), room, &plan.ends))?;
        let (report, reports) = channel();
        for thread in self.targets.iter().chain(&self.drafter) {
            let order = Order::Begin { sampling: plan.sampling.clone(), report: report.clone() };
            // A thread that is gone is missed below.
            let _ = thread.send(order);
        }
        let gone = vec![false; self.sp_degree()];
        let stats = Stats { num_prompt_tokens: prompt.len(), ..Stats::default() };
        let distributed = Distributed { sp_degree: self.sp_degree(), lookahead: plan.lookahead, ..Default::default() };
        let text = Text {
            servers: self,
            machine,
            guess: plan.guess,
            copy: Vec::new(),
            holders: HashMap::new(),
            own: VecDeque::new(),
            gone,
            round: (0, 0),
            began: Instant::now(),
            stats,
            distributed,
        };
        drop(report);
        text.write(&reports, sink)
    }
}

impl Servers {
    /// The next report. A thread that dies says so, but not where it dies between two texts.
    fn next(&self, reports: &Receiver<Report>) -> Result<Report> {
        loop {
            match reports.recv_timeout(LOOK) {
                Ok(report) => return Ok(report),
                Err(RecvTimeoutError::Timeout)
                    if !self.handles[..self.sp_degree()].iter().all(JoinHandle::is_finished) => {}
                Err(_) => return Err(Error::DeviceLost { reason: "the drivers of all targets failed".into() }),
            }
        }
    }
}

impl Drop for Servers {
    /// Waits for the threads: a driver may not outlive the program's end by a thread that still uses it.
    fn drop(&mut self) {
        self.targets.clear();
        self.drafter = None;
        for handle in self.handles.drain(..) {
            // What went wrong in it was reported.
            let _ = handle.join();
        }
    }
}

/// A text in progress.
struct Text<'a> {
    servers: &'a Servers,
    machine: Dsi,
    guess: Guess,
    /// The lookup's copy of the text.
    copy: Vec<u32>,
    /// Who has a task; those of the drafter are not in it.
    holders: HashMap<TaskId, usize>,
    /// Reports of the lookup.
    own: VecDeque<Report>,
    /// By server.
    gone: Vec<bool>,
    /// Of the tokens since the last one of the target's own: accepted ones, and draft tokens counted before.
    round: (usize, usize),
    began: Instant,
    stats: Stats,
    distributed: Distributed,
}

impl Text<'_> {
    fn write(mut self, reports: &Receiver<Report>, sink: &mut impl Sink) -> Result<Stats> {
        while !self.machine.is_done() {
            let waited = Instant::now();
            let report = match self.own.pop_front() {
                Some(report) => report,
                None => self.servers.next(reports)?,
            };
            self.stats.times.verify += waited.elapsed().as_secs_f64();
            let heard = Instant::now();
            let mut actions = Vec::new();
            let mut handled = self.hear(report, &mut actions);
            if handled.is_ok() {
                handled = self.emit(&mut actions, sink);
            }
            if handled.is_err() {
                self.machine.stop(&mut actions);
            }
            self.carry_out(actions);
            handled?;
            self.stats.times.emit += heard.elapsed().as_secs_f64();
        }
        let counts = self.machine.counts();
        self.distributed.num_verify_tasks = counts.verified;
        self.distributed.num_cancelled_tasks = counts.cancelled;
        self.distributed.num_rejected_tokens = counts.rejected;
        let times = &mut self.stats.times;
        times.total = self.began.elapsed().as_secs_f64();
        if self.stats.num_emitted_tokens > 1 {
            times.tokens_per_second = (self.stats.num_emitted_tokens - 1) as f64 / (times.total - times.first_token);
        }
        self.stats.distributed = Some(self.distributed);
        Ok(self.stats)
    }

    /// A report is an event.
    fn hear(&mut self, report: Report, actions: &mut Vec<Action>) -> Result<()> {
        match &report {
            Report::Free { server } => self.machine.handle(Event::Free { server: *server }, actions),
            Report::Verified { server, task, ids, reused } => {
                if self.distributed.num_forwards == 0 {
                    self.stats.num_cached_tokens = (*reused).min(self.stats.num_prompt_tokens - 1);
                }
                self.distributed.num_forwards += 1;
                self.machine.handle(Event::Verified { server: *server, task: *task, ids }, actions);
            }
            Report::Drafted { task, ids } => self.machine.handle(Event::Drafted { task: *task, ids }, actions),
            Report::Lost { server, reason } => {
                self.distributed.num_lost += 1;
                self.stats.warnings.push(format!("target {server} is set up again ({reason})"));
                self.machine.handle(Event::Lost { server: *server }, actions);
            }
            Report::Gone { server, error } => {
                self.gone[*server] = true;
                if self.gone.iter().all(|&gone| gone) {
                    return Err(error.clone());
                }
                self.distributed.num_lost += 1;
                self.stats.warnings.push(format!("the text goes on without target {server} ({error})"));
                self.machine.handle(Event::Lost { server: *server }, actions);
            }
            Report::NoDrafter { error } => {
                self.stats.warnings.push(format!("the text goes on without the draft model ({error})"));
            }
            Report::Failed { error } => return Err(error.clone()),
        }
        Ok(())
    }

    /// Passes settled tokens on. None after the one at which the sink breaks.
    fn emit(&mut self, actions: &mut Vec<Action>, sink: &mut impl Sink) -> Result<()> {
        let drafted_by = match self.guess {
            Guess::Lookup(_) => Origin::Lookup,
            _ => Origin::DraftModel,
        };
        let emits = |action: &Action| matches!(action, Action::Emit { .. });
        let last = actions.iter().rposition(emits).filter(|_| self.machine.is_done());
        for at in 0..actions.len() {
            let Action::Emit { id, model } = actions[at] else { continue };
            let origin = if model == 0 { drafted_by } else { Origin::Target };
            let broke = sink.push(id, origin, last == Some(at))?.is_break();
            if self.stats.times.first_token == 0.0 {
                self.stats.times.first_token = self.began.elapsed().as_secs_f64();
            }
            // Whatever ends a text is the target's own.
            if model == 0 && !broke {
                self.round.0 += 1;
            } else {
                let (accepted, counted) = self.round;
                let drafted = self.machine.counts().drafted;
                self.stats.add_round(&Accepted { drafted: drafted - counted, accepted, ended: broke });
                self.round = (0, drafted);
            }
            if broke {
                self.machine.stop(actions);
                break;
            }
        }
        Ok(())
    }

    /// Actions are orders. A thread that is gone takes none, and has said so.
    fn carry_out(&mut self, actions: Vec<Action>) {
        for action in actions {
            match action {
                Action::Draft { task, feed, most } => self.draft(task, feed, most),
                Action::Verify { task, server, feed, rows } => {
                    self.holders.insert(task, server);
                    let _ = self.servers.targets[server].send(Order::Verify { task, feed, rows });
                }
                Action::Cancel { task } => {
                    let holder = self.holders.remove(&task).map(|server| &self.servers.targets[server]);
                    if let Some(to) = holder.or(self.servers.drafter.as_ref()) {
                        let _ = to.send(Order::Cancel { task });
                    }
                }
                Action::Emit { .. } => {}
            }
        }
    }

    fn draft(&mut self, task: TaskId, feed: Feed, most: usize) {
        let ids = match (&mut self.guess, &self.servers.drafter) {
            (Guess::Model, Some(drafter)) => match drafter.send(Order::Draft { task, feed, most }) {
                Ok(()) => return,
                Err(_) => Vec::new(),
            },
            (Guess::Lookup(lookup), _) => {
                if feed.keep < self.copy.len() {
                    self.copy.truncate(feed.keep);
                    // It forgets what it read of the rest.
                    lookup.draft(&self.copy, 1);
                }
                self.copy.extend(feed.tokens);
                let ids = match lookup.draft(&self.copy, most.saturating_add(1)).cut(most) {
                    Draft::Tokens(ids) => ids,
                    Draft::Model(_) => Vec::new(),
                };
                self.copy.extend_from_slice(&ids);
                ids
            }
            _ => Vec::new(),
        };
        self.own.push_back(Report::Drafted { task, ids });
    }
}
