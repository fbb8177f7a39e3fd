//! The distributed decode loop: receive a report, handle it, adapt the lookahead, emit tokens, send commands.

use super::instances::{Command, Instances, Report, Role};
use crate::error::{Error, Result};
use crate::sample::Sampling;
use crate::session::{Sink, unless_cancelled};
use crate::speculate::{Accepted, Distributed, Drafter, Origin, Stats, Tuner};
use crate::target::Draft;
use foretoken_dsi::{Action, Dsi, DsiOptions, Event, Feed, TaskId};
use std::collections::{HashMap, VecDeque};
use std::ops::ControlFlow;
use web_time::Instant;

/// Source of drafts.
pub enum Guess {
    /// A drafter on the coordinator, which takes no time.
    Text(Box<dyn Drafter>),
    /// The draft model.
    Model,
}

/// Settings of a run.
pub struct RunOptions {
    /// Sampling of all instances. Equal seeds give equal texts.
    pub sampling: Sampling,
    /// Draft tokens of a verify task, 1 to [`crate::target::MAX_DRAFT`]. If measurements adapt it: the initial value.
    pub lookahead: usize,
    /// Maximum for the adapted lookahead. `None`: `lookahead` stays as it is.
    pub longest: Option<usize>,
    /// Sources of drafts. None: one token per target forward. All continue the text; where they disagree, the draft branches.
    pub guesses: Vec<Guess>,
    /// Tokens that end a text.
    pub ends: Vec<u32>,
    /// Positions of the targets' caches.
    pub capacity: usize,
}

/// Maximum wait of the target for the drafter, in units of the expected drafting time.
const LATE: f64 = 2.0;

/// Generates the text after a prompt of one token or more: the text of plain decoding. `tuner` has measurements of earlier texts with this
/// drafter, and gets new ones. An instance whose device is lost sets itself up again; meanwhile the others continue.
///
/// # Errors
/// [`Error::ContextFull`] before anything is computed; [`Error::BadOption`]; errors of the sink. Errors of a target, if any instance would
/// repeat them or no instance is left.
pub async fn run(
    instances: &mut dyn Instances,
    prompt: &[u32],
    options: RunOptions,
    tuner: &mut Tuner,
    sink: &mut impl Sink,
) -> Result<Stats> {
    if prompt.len() >= options.capacity {
        return Err(Error::ContextFull { need: prompt.len() + 1, limit: options.capacity });
    }
    let (room, sp_degree) = (sink.room().min(options.capacity - prompt.len() + 1), instances.sp_degree());
    let (lookahead, ends) = (options.lookahead, options.ends.clone());
    let drafters = vec![1; options.guesses.len()];
    let machine =
        DsiOptions { lookahead, sp_degree, patience: 0, room, ends, drafters, can_cancel: instances.can_cancel() };
    let machine = Dsi::new(prompt, machine).map_err(Error::refused)?;
    let stats = Stats { num_prompt_tokens: prompt.len(), ..Stats::default() };
    let distributed = Distributed { sp_degree, ..Default::default() };
    instances.begin(&options.sampling, &options.sampling);
    let run = RunLoop {
        instances,
        machine,
        tuner,
        drafts: false,
        patience: 0,
        has_news: true,
        copies: vec![Vec::new(); options.guesses.len()],
        has_model: options.guesses.iter().any(|guess| matches!(guess, Guess::Model)),
        model_task: None,
        holders: HashMap::new(),
        options,
        own: VecDeque::new(),
        gone: vec![false; sp_degree],
        prefilled: 0,
        round: (0, 0),
        began: Instant::now(),
        forwards: MeasuredLatency::default(),
        draft_steps: MeasuredLatency::default(),
        stats,
        distributed,
    };
    run.run_rounds(sink).await
}

/// The loop. Reports become events of the state machine, and its actions become commands. Each turn takes the steps receive, handle,
/// tune, emit and send.
struct RunLoop<'a> {
    instances: &'a mut dyn Instances,
    machine: Dsi,
    options: RunOptions,
    tuner: &'a mut Tuner,
    /// `true`: the drafter has answered since the last wait for it timed out; the draft model, if there is one.
    drafts: bool,
    /// Draft tokens that an idle target waits for, while the drafter answers.
    patience: usize,
    /// `true`: a target forward was measured since lookahead and patience were chosen.
    has_news: bool,
    /// Copies of the text, for the drafters on the coordinator.
    copies: Vec<Vec<u32>>,
    /// `true`: there is a draft model, and it can draft.
    has_model: bool,
    /// Latest task of the draft model.
    model_task: Option<TaskId>,
    /// Instance and text length of each verify task in flight.
    holders: HashMap<TaskId, (usize, usize)>,
    /// Reports of the drafters on the coordinator.
    own: VecDeque<Report>,
    /// `true`: the instance cannot continue. One per instance.
    gone: Vec<bool>,
    /// Prompt tokens that the fastest instance has read.
    prefilled: usize,
    /// Accepted tokens since the target's last token, and the drafted count at that token.
    round: (usize, usize),
    began: Instant,
    forwards: MeasuredLatency,
    draft_steps: MeasuredLatency,
    stats: Stats,
    distributed: Distributed,
}

/// Mean duration of instances' work, except their first forwards, which read the prompt.
#[derive(Default)]
struct MeasuredLatency {
    /// `true`: the instance has done its first forward. One per instance.
    began: Vec<bool>,
    sum: f64,
    count: usize,
}

impl MeasuredLatency {
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

    fn mean(&self) -> f64 {
        self.sum / self.count.max(1) as f64
    }
}

impl RunLoop<'_> {
    async fn run_rounds(mut self, sink: &mut impl Sink) -> Result<Stats> {
        while !self.machine.is_done() {
            let report = self.receive(sink).await;
            let received = Instant::now();
            let mut actions = Vec::new();
            let handled = self.handle(report, &mut actions, sink);
            self.tune(&mut actions);
            let emitted = handled.and_then(|()| self.emit(&mut actions, sink));
            if emitted.is_err() {
                self.machine.stop(&mut actions);
            }
            self.send(actions);
            emitted?;
            self.stats.times.emit += received.elapsed().as_secs_f64();
        }
        Ok(self.finish())
    }

    /// Waits for the next report. `None`: none came in time. Breaks if the sink breaks the wait.
    async fn receive(&mut self, sink: &mut impl Sink) -> ControlFlow<(), Result<Option<Report>>> {
        let began = Instant::now();
        let report = match self.own.pop_front() {
            Some(report) => ControlFlow::Continue(Ok(Some(report))),
            None => {
                let limit = self.limit();
                unless_cancelled(sink, self.instances.report(limit)).await
            }
        };
        self.stats.times.verify += began.elapsed().as_secs_f64();
        report
    }

    /// Returns the maximum wait for a report, in seconds. `None`: no limit.
    fn limit(&self) -> Option<f64> {
        let waits = self.drafts && self.patience > 0 && self.machine.is_idle();
        waits.then(|| LATE * self.patience as f64 * self.tuner.drafter_latency())
    }

    fn tune(&mut self, actions: &mut Vec<Action>) {
        if std::mem::take(&mut self.has_news) {
            let (shortest, longest) =
                self.options.longest.map_or((self.options.lookahead, self.options.lookahead), |longest| (1, longest));
            let best = self.tuner.best(self.distributed.sp_degree, shortest, longest);
            (self.options.lookahead, self.patience) = best.unwrap_or((self.options.lookahead, 0));
        }
        self.machine.tune(self.options.lookahead, if self.drafts { self.patience } else { 0 }, actions);
    }

    /// Passes a report to the state machine as an event.
    fn handle(
        &mut self,
        report: ControlFlow<(), Result<Option<Report>>>,
        actions: &mut Vec<Action>,
        sink: &mut impl Sink,
    ) -> Result<()> {
        let ControlFlow::Continue(report) = report else {
            self.machine.stop(actions);
            return Ok(());
        };
        let Some(report) = report? else {
            self.drafts = false;
            return Ok(());
        };
        match report {
            Report::Prefilled { done } => {
                let of = self.stats.num_prompt_tokens - 1;
                self.prefilled = self.prefilled.max(done.min(of));
                if sink.prefilled(self.prefilled, of).is_break() {
                    self.machine.stop(actions);
                }
            }
            Report::Free { server } => self.machine.handle(Event::Free { server }, actions),
            Report::Verified { server, task, ids, reused, seconds, traffic } => {
                self.stats.add_traffic(&traffic);
                self.measure_forward(server, task, reused, seconds);
                self.machine.handle(Event::Verified { server, task, ids: &ids }, actions);
            }
            Report::Drafted { task, ids, seconds } => {
                let is_model = self.model_task == Some(task);
                if !ids.is_empty() && is_model == self.has_model {
                    self.measure_step(is_model, seconds);
                }
                self.machine.handle(Event::Drafted { task, ids: &ids }, actions);
            }
            Report::Lost { server, reason } => {
                self.lose(server, format!("target {server} is set up again ({reason})"), actions);
            }
            Report::Gone { server, error } => {
                self.gone[server] = true;
                if self.gone.iter().all(|&gone| gone) {
                    return Err(error);
                }
                self.lose(server, format!("the text goes on without target {server} ({error})"), actions);
            }
            Report::NoDrafter { error } => {
                (self.has_model, self.drafts) = (false, false);
                self.own.extend(self.model_task.map(|task| Report::Drafted { task, ids: Vec::new(), seconds: 0.0 }));
                self.stats.warnings.push(format!("the text goes on without the draft model ({error})"));
            }
            Report::Failed { error } => return Err(error),
        }
        Ok(())
    }

    fn measure_forward(&mut self, server: usize, task: TaskId, reused: usize, seconds: f64) {
        if self.distributed.num_forwards == 0 {
            self.stats.num_cached_tokens = reused.min(self.stats.num_prompt_tokens - 1);
        }
        self.distributed.num_forwards += 1;
        let counts = self.forwards.add(server, seconds);
        if let Some((_, end)) = self.holders.remove(&task).filter(|_| counts) {
            self.tuner.forward(end.saturating_sub(reused), seconds);
            self.has_news = true;
        }
    }

    fn measure_step(&mut self, is_model: bool, seconds: f64) {
        self.drafts = true;
        if !is_model || self.draft_steps.add(0, seconds) {
            self.tuner.step(seconds);
        }
    }

    /// Continues without a target instance, for now or for the rest of the text.
    fn lose(&mut self, server: usize, warning: String, actions: &mut Vec<Action>) {
        self.distributed.num_lost += 1;
        self.stats.warnings.push(warning);
        self.machine.handle(Event::Lost { server }, actions);
    }

    /// Passes verified tokens to the sink, up to the token at which the sink breaks.
    fn emit(&mut self, actions: &mut Vec<Action>, sink: &mut impl Sink) -> Result<()> {
        let emits = |action: &Action| matches!(action, Action::Emit { .. });
        let last = actions.iter().rposition(emits).filter(|_| self.machine.is_done());
        for at in 0..actions.len() {
            let Action::Emit { id, drafter } = actions[at] else { continue };
            let origin = match drafter.map(|drafter| &self.options.guesses[drafter]) {
                Some(Guess::Text(drafter)) => drafter.origin(),
                Some(Guess::Model) => Origin::DraftModel,
                None => Origin::Target,
            };
            let broke = sink.push(id, origin, last == Some(at))?.is_break();
            if self.stats.times.first_token == 0.0 {
                self.stats.times.first_token = self.began.elapsed().as_secs_f64();
            }
            // The token that ends a text counts as the target's own.
            if drafter.is_some() && !broke {
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

    /// Sends actions as commands.
    fn send(&mut self, actions: Vec<Action>) {
        for action in actions {
            match action {
                Action::Draft { task, drafter, feed, most, .. } => self.draft(task, drafter, feed, most),
                Action::Verify { task, server, feed, rows } => {
                    self.holders.insert(task, (server, feed.keep + feed.tokens.len()));
                    self.instances.send(Role::Target(server), Command::Verify { task, feed, rows });
                }
                Action::Cancel { task } => {
                    let to = self.holders.remove(&task).map_or(Role::Drafter, |(server, _)| Role::Target(server));
                    self.instances.send(to, Command::Cancel { task });
                }
                Action::Emit { .. } => {}
            }
        }
    }

    fn draft(&mut self, task: TaskId, drafter: usize, feed: Feed, most: usize) {
        let ids = match &mut self.options.guesses[drafter] {
            Guess::Model if self.has_model => {
                self.model_task = Some(task);
                return self.instances.send(Role::Drafter, Command::Draft { task, feed, most });
            }
            Guess::Model => Vec::new(),
            Guess::Text(text_drafter) => {
                let copy = &mut self.copies[drafter];
                if feed.keep < copy.len() {
                    copy.truncate(feed.keep);
                    // Makes the drafter forget the removed tokens.
                    text_drafter.draft(copy, 1);
                }
                copy.extend(feed.tokens);
                let ids = match text_drafter.draft(copy, most.saturating_add(1)).cut(most) {
                    Draft::Tokens(ids) => ids,
                    Draft::Model(_) => Vec::new(),
                };
                copy.extend_from_slice(&ids);
                ids
            }
        };
        self.own.push_back(Report::Drafted { task, ids, seconds: 0.0 });
        // An empty report ends the draft.
        self.own.push_back(Report::Drafted { task, ids: Vec::new(), seconds: 0.0 });
    }

    /// Returns the statistics of the text.
    fn finish(mut self) -> Stats {
        let counts = self.machine.counts();
        let times = &mut self.stats.times;
        times.total = self.began.elapsed().as_secs_f64();
        if self.stats.num_emitted_tokens > 1 {
            times.tokens_per_second = (self.stats.num_emitted_tokens - 1) as f64 / (times.total - times.first_token);
        }
        self.stats.distributed = Some(Distributed {
            lookahead: self.options.lookahead,
            num_verify_tasks: counts.verified,
            num_cancelled_tasks: counts.cancelled,
            num_rejected_tokens: counts.rejected,
            target_latency: self.forwards.mean(),
            drafter_latency: self.draft_steps.mean(),
            ..self.distributed
        });
        self.stats
    }
}
