//! The loop in which instances write a text: reports become events of the state machine, its actions become orders.

use super::crew::{Crew, Order, Report, Role};
use crate::error::{Error, Result};
use crate::sample::Sampling;
use crate::session::{Sink, unless_cancelled};
use crate::speculate::dsi::{Action, Dsi, DsiOptions, Event, Feed, TaskId, Tuner};
use crate::speculate::{Accepted, Distributed, Drafter, Origin, PromptLookup, Stats};
use crate::target::Draft;
use std::collections::{HashMap, VecDeque};
use std::ops::ControlFlow;
use web_time::Instant;

/// Source of drafts.
pub enum Guess {
    /// No drafts: one token per target forward.
    Nothing,
    /// Lookup in the text so far, on the coordinator.
    Lookup(PromptLookup),
    /// The draft model.
    Model,
}

/// Settings of a text.
pub struct Plan {
    /// Sampling of all instances. Equal seeds give equal texts.
    pub sampling: Sampling,
    /// Draft tokens of a verify task, 1 to [`crate::target::MAX_DRAFT`]. If measurements adapt it: the initial value.
    pub lookahead: usize,
    /// Maximum for the adapted lookahead. `None`: `lookahead` stays as it is.
    pub longest: Option<usize>,
    /// Source of drafts.
    pub guess: Guess,
    /// Tokens that end a text.
    pub ends: Vec<u32>,
    /// Positions of the targets' caches.
    pub capacity: usize,
}

/// Maximum wait of the target for the drafter, in units of the expected drafting time.
const LATE: f64 = 2.0;

/// Writes a text after a prompt of one token or more: the text of plain decoding. `tuner` has measurements of earlier texts with this
/// drafter, and gets new ones. An instance whose device is lost sets itself up again; meanwhile the others continue.
///
/// # Errors
/// [`Error::ContextFull`] before anything is computed; [`Error::BadOption`]; errors of the sink. Errors of a target, if any instance would
/// repeat them or no instance is left.
pub async fn write(
    crew: &mut dyn Crew,
    prompt: &[u32],
    plan: Plan,
    tuner: &mut Tuner,
    sink: &mut impl Sink,
) -> Result<Stats> {
    if prompt.len() >= plan.capacity {
        return Err(Error::ContextFull { need: prompt.len() + 1, limit: plan.capacity });
    }
    let (room, sp_degree) = (sink.room().min(plan.capacity - prompt.len() + 1), crew.sp_degree());
    let machine = Dsi::new(prompt, DsiOptions::pair(plan.lookahead, sp_degree, room, &plan.ends))?;
    let stats = Stats { num_prompt_tokens: prompt.len(), ..Stats::default() };
    let distributed = Distributed { sp_degree, ..Default::default() };
    crew.begin(&plan.sampling, &plan.sampling);
    let text = Text {
        crew,
        machine,
        guess: plan.guess,
        lookahead: plan.lookahead,
        longest: plan.longest,
        tuner,
        drafts: false,
        copy: Vec::new(),
        holders: HashMap::new(),
        own: VecDeque::new(),
        gone: vec![false; sp_degree],
        prefilled: 0,
        round: (0, 0),
        began: Instant::now(),
        forwards: Latency::default(),
        draft_steps: Latency::default(),
        stats,
        distributed,
    };
    text.write(sink).await
}

/// A text in progress.
struct Text<'a> {
    crew: &'a mut dyn Crew,
    machine: Dsi,
    guess: Guess,
    lookahead: usize,
    longest: Option<usize>,
    tuner: &'a mut Tuner,
    /// `true`: the drafter has answered since the last wait for it timed out.
    drafts: bool,
    /// The lookup's copy of the text.
    copy: Vec<u32>,
    /// Instance and text length of each verify task in flight.
    holders: HashMap<TaskId, (usize, usize)>,
    /// Reports of the lookup.
    own: VecDeque<Report>,
    /// `true`: the instance cannot continue. One per instance.
    gone: Vec<bool>,
    /// Prompt tokens that the fastest instance has read.
    prefilled: usize,
    /// Accepted tokens since the target's last token, and the drafted count at that token.
    round: (usize, usize),
    began: Instant,
    forwards: Latency,
    draft_steps: Latency,
    stats: Stats,
    distributed: Distributed,
}

/// Mean duration of instances' work, except their first forwards, which read the prompt.
#[derive(Default)]
struct Latency {
    /// `true`: the instance has done its first forward. One per instance.
    began: Vec<bool>,
    sum: f64,
    count: usize,
}

impl Latency {
    /// Adds a duration. Returns false for an instance's first one, which is not counted.
    fn add(&mut self, instance: usize, seconds: f64) -> bool {
        self.began.resize(self.began.len().max(instance + 1), false);
        let counts = std::mem::replace(&mut self.began[instance], true);
        if counts {
            self.sum += seconds;
            self.count += 1;
        }
        counts
    }

    /// Returns the mean in seconds; 0 without values.
    fn mean(&self) -> f64 {
        self.sum / self.count.max(1) as f64
    }
}

impl Text<'_> {
    async fn write(mut self, sink: &mut impl Sink) -> Result<Stats> {
        while !self.machine.is_done() {
            let waited = Instant::now();
            let report = match self.own.pop_front() {
                Some(report) => ControlFlow::Continue(Ok(Some(report))),
                None => unless_cancelled(sink, self.crew.report(self.limit())).await,
            };
            self.stats.times.verify += waited.elapsed().as_secs_f64();
            let heard = Instant::now();
            let mut actions = Vec::new();
            let mut handled = Ok(());
            match report {
                ControlFlow::Continue(Ok(Some(report))) => handled = self.hear(report, &mut actions, sink),
                ControlFlow::Continue(Ok(None)) => self.drafts = false,
                ControlFlow::Continue(Err(error)) => handled = Err(error),
                ControlFlow::Break(()) => self.machine.stop(&mut actions),
            }
            self.tune(&mut actions);
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
        self.distributed.lookahead = self.lookahead;
        self.distributed.num_verify_tasks = counts.verified;
        self.distributed.num_cancelled_tasks = counts.cancelled;
        self.distributed.num_rejected_tokens = counts.rejected;
        self.distributed.target_latency = self.forwards.mean();
        self.distributed.drafter_latency = self.draft_steps.mean();
        let times = &mut self.stats.times;
        times.total = self.began.elapsed().as_secs_f64();
        if self.stats.num_emitted_tokens > 1 {
            times.tokens_per_second = (self.stats.num_emitted_tokens - 1) as f64 / (times.total - times.first_token);
        }
        self.stats.distributed = Some(self.distributed);
        Ok(self.stats)
    }

    /// Returns the maximum wait for a report, in seconds. `None`: no limit.
    fn limit(&self) -> Option<f64> {
        let patience = self.patience();
        let waits = patience > 0 && self.machine.is_idle();
        waits.then(|| LATE * patience as f64 * self.tuner.drafter_latency())
    }

    fn patience(&self) -> usize {
        if self.drafts { self.tuner.patience(self.distributed.sp_degree).min(self.lookahead) } else { 0 }
    }

    fn tune(&mut self, actions: &mut Vec<Action>) {
        if let Some(longest) = self.longest
            && let Some(lookahead) = self.tuner.lookahead(self.distributed.sp_degree)
        {
            self.lookahead = lookahead.clamp(1, longest);
        }
        self.machine.tune(self.lookahead, self.patience(), actions);
    }

    /// Passes a report to the state machine as an event.
    fn hear(&mut self, report: Report, actions: &mut Vec<Action>, sink: &mut impl Sink) -> Result<()> {
        match &report {
            Report::Prefilled { done } => {
                let of = self.stats.num_prompt_tokens - 1;
                self.prefilled = self.prefilled.max((*done).min(of));
                if sink.prefilled(self.prefilled, of).is_break() {
                    self.machine.stop(actions);
                }
            }
            Report::Free { server } => self.machine.handle(Event::Free { server: *server }, actions),
            Report::Verified { server, task, ids, reused, seconds, traffic } => {
                self.stats.add_traffic(traffic);
                if self.distributed.num_forwards == 0 {
                    self.stats.num_cached_tokens = (*reused).min(self.stats.num_prompt_tokens - 1);
                }
                self.distributed.num_forwards += 1;
                let counts = self.forwards.add(*server, *seconds);
                if let Some((_, end)) = self.holders.remove(task).filter(|_| counts) {
                    self.tuner.forward(end.saturating_sub(*reused), *seconds);
                }
                self.machine.handle(Event::Verified { server: *server, task: *task, ids }, actions);
            }
            Report::Drafted { task, ids, seconds } => {
                if !ids.is_empty() {
                    self.drafts = true;
                    let counts = matches!(self.guess, Guess::Lookup(_)) || self.draft_steps.add(0, *seconds);
                    if counts {
                        self.tuner.step(*seconds);
                    }
                }
                self.machine.handle(Event::Drafted { task: *task, ids }, actions);
            }
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
                self.guess = Guess::Nothing;
                self.drafts = false;
                self.stats.warnings.push(format!("the text goes on without the draft model ({error})"));
            }
            Report::Failed { error } => return Err(error.clone()),
        }
        Ok(())
    }

    /// Passes verified tokens to the sink, up to the token at which the sink breaks.
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
            // The token that ends a text counts as the target's own.
            if model == 0 && !broke {
                self.round.0 += 1;
            } else {
                let (accepted, counted) = self.round;
                let drafted = self.machine.counts().drafted;
                if !broke {
                    self.tuner.round(drafted - counted, accepted);
                }
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

    /// Sends actions as orders.
    fn carry_out(&mut self, actions: Vec<Action>) {
        for action in actions {
            match action {
                Action::Draft { task, feed, most } => self.draft(task, feed, most),
                Action::Verify { task, server, feed, rows } => {
                    self.holders.insert(task, (server, feed.keep + feed.tokens.len()));
                    self.crew.order(Role::Server(server), Order::Verify { task, feed, rows });
                }
                Action::Cancel { task } => {
                    let to = self.holders.remove(&task).map_or(Role::Drafter, |(server, _)| Role::Server(server));
                    self.crew.order(to, Order::Cancel { task });
                }
                Action::Emit { .. } => {}
            }
        }
    }

    fn draft(&mut self, task: TaskId, feed: Feed, most: usize) {
        let ids = match &mut self.guess {
            Guess::Model => return self.crew.order(Role::Drafter, Order::Draft { task, feed, most }),
            Guess::Lookup(lookup) => {
                if feed.keep < self.copy.len() {
                    self.copy.truncate(feed.keep);
                    // Makes the lookup forget the removed tokens.
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
            Guess::Nothing => Vec::new(),
        };
        self.own.push_back(Report::Drafted { task, ids, seconds: 0.0 });
        // An empty report ends the draft.
        self.own.push_back(Report::Drafted { task, ids: Vec::new(), seconds: 0.0 });
    }
}
