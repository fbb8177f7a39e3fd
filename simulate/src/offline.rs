//! The DSI state machine on a simulated clock.

use super::rounds::total;
use super::{Cell, Draws, Latency, best_lookahead, pearl, plain, si};
use foretoken::dsi::{Action, Dsi, DsiOptions, Event, Feed, MAX_DRAFTERS, TaskId};
use foretoken::{Error, Result};
use serde::Serialize;

/// Means of the schedules: total latencies in the cell's unit, or other times.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Means<T = f64> {
    /// Plain decoding.
    pub plain: T,
    /// Sequential speculation.
    pub si: T,
    /// Distributed speculation.
    pub dsi: T,
    /// Overlap of one block, PEARL-like.
    pub pearl: T,
}

/// The lookaheads of the schedules.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Lookaheads {
    /// Lookahead of sequential speculation.
    pub si: usize,
    /// Lookahead of distributed speculation.
    pub dsi: usize,
    /// Lookahead of the PEARL-like overlap.
    pub pearl: usize,
}

impl Lookaheads {
    /// Returns equal lookaheads for all.
    pub fn all(lookahead: usize) -> Self {
        Self { si: lookahead, dsi: lookahead, pearl: lookahead }
    }

    /// Returns a good lookahead for each schedule: the fastest one in expectation; for the overlap, a block that takes as long as a
    /// verification.
    pub fn good(cell: &Cell) -> Self {
        let pearl = (cell.target.tpot / cell.drafter.tpot).round().clamp(1.0, 10_000.0) as usize;
        let si = best_lookahead(cell).0;
        Self { si, dsi: cell.with_best_lookahead().lookahead, pearl }
    }

    /// Returns the cells of sequential speculation, distributed speculation and overlap.
    pub(super) fn cells(self, cell: &Cell) -> Result<[Cell; 3]> {
        let cells = [self.si, self.dsi, self.pearl].map(|lookahead| Cell { lookahead, ..*cell });
        cells.iter().try_for_each(Cell::validate)?;
        Ok(cells)
    }
}

/// Simulates all schedules on the same draws.
///
/// # Errors
/// [`Error::BadOption`].
pub fn means(cell: &Cell, lookaheads: Lookaheads, draws: &Draws) -> Result<Means> {
    let [of_si, of_dsi, of_pearl] = lookaheads.cells(cell)?;
    let patience = of_dsi.patience();
    let mut sums = Means::default();
    for agreements in draws.agreements(cell.acceptance) {
        sums.plain += total(|wait| plain(cell, wait));
        sums.si += total(|wait| si(&of_si, &agreements, wait));
        sums.pearl += total(|wait| pearl(&of_pearl, &agreements, wait));
        sums.dsi += dsi(&of_dsi, patience, &agreements, &mut ())?;
    }
    let Means { plain, si, dsi, pearl } = sums;
    let [plain, si, dsi, pearl] = [plain, si, dsi, pearl].map(|sum: f64| sum / draws.repeats() as f64);
    Ok(Means { plain, si, dsi, pearl })
}

/// Simulates all schedules with their good lookaheads.
///
/// # Errors
/// [`Error::BadOption`].
pub fn best_means(cell: &Cell, draws: &Draws) -> Result<(Lookaheads, Means)> {
    let lookaheads = Lookaheads::good(cell);
    Ok((lookaheads, means(cell, lookaheads, draws)?))
}

/// A period of work on a task.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Span {
    /// Server that worked on it. `None`: the drafter.
    pub server: Option<usize>,
    /// Start time.
    pub from: f64,
    /// Time of the end or the cancellation.
    pub to: f64,
    /// First position that the task concerns. The first generated token has position 0.
    pub position: usize,
    /// Number of positions.
    pub count: usize,
    /// `true`: it was cancelled.
    pub cancelled: bool,
}

/// An observer of a run.
pub trait Watch {
    /// Called at the end of a span.
    fn span(&mut self, _span: Span) {}

    /// Called for each emitted token. `true`: an accepted draft token; `false`: the target's own.
    fn emitted(&mut self, _now: f64, _accepted: bool) {}
}

impl Watch for () {}

/// A drafter and its draws.
#[derive(Debug, Clone, Copy)]
pub struct SimulatedDrafter<'a> {
    /// Duration of its forwards.
    pub latency: Latency,
    /// Tasks that it can do at the same time.
    pub instances: usize,
    /// `true`: its token at this position is right, if the tokens before it are.
    pub agreements: &'a [bool],
}

/// Returns the state machine's options for one text of a simulation.
pub(super) fn options(cell: &Cell, patience: usize, drafters: Vec<usize>) -> DsiOptions {
    let Cell { lookahead, sp_degree, tokens, .. } = *cell;
    DsiOptions { lookahead, sp_degree, patience, room: tokens, ends: Vec::new(), drafters, can_cancel: true }
}

/// Returns a drafter's token at a position. All have the same right one, and wrong ones of their own.
pub(super) fn id(position: usize, drafter: usize, right: bool) -> u32 {
    position as u32 * (MAX_DRAFTERS as u32 + 1) + if right { 0 } else { drafter as u32 + 1 }
}

/// Returns the target's tokens from a position on.
pub(super) fn ids(position: usize, count: usize) -> Vec<u32> {
    (position..position + count).map(|at| id(at, 0, true)).collect()
}

/// The only token of a simulated prompt.
pub(super) const PROMPT: [u32; 1] = [u32::MAX];

/// Returns the first position of a task whose rows are the last ones of its text. A draft follows one row.
pub(super) fn position(feed: &Feed, rows: usize) -> usize {
    feed.keep + feed.tokens.len() - rows
}

/// Returns the time of a forward. If `keep` is 0, it reads the prompt.
pub(super) fn time(latency: Latency, keep: usize) -> f64 {
    if keep == 0 { latency.ttft } else { latency.tpot }
}

struct Running {
    task: TaskId,
    span: Span,
}

struct DraftRun {
    task: TaskId,
    drafter: usize,
    from: f64,
    ready: f64,
    position: usize,
    left: usize,
}

struct Simulation<'a, W> {
    cell: &'a Cell,
    drafters: &'a [SimulatedDrafter<'a>],
    watch: &'a mut W,
    machine: Dsi,
    now: f64,
    drafts: Vec<DraftRun>,
    /// Times at which the instances of drafters have read the prompt.
    have_read: Vec<f64>,
    servers: Vec<Option<Running>>,
    actions: Vec<Action>,
}

/// Runs distributed speculation for one text and returns its total latency. Draft token i is right if `agreements[i]`. An idle target waits
/// for `patience` draft tokens ([`Cell::patience`] returns a good number). Cancelling takes no time, except that a server always reads the
/// prompt to its end.
///
/// # Errors
/// [`Error::BadOption`].
pub fn dsi(cell: &Cell, patience: usize, agreements: &[bool], watch: &mut impl Watch) -> Result<f64> {
    dsi_of(cell, patience, &[SimulatedDrafter { latency: cell.drafter, instances: 1, agreements }], watch)
}

/// Runs distributed speculation with several drafters, as [`dsi`]. The cell's own drafter has no part in it.
///
/// # Errors
/// [`Error::BadOption`].
pub fn dsi_of(cell: &Cell, patience: usize, drafters: &[SimulatedDrafter<'_>], watch: &mut impl Watch) -> Result<f64> {
    cell.validate()?;
    let instances: Vec<usize> = drafters.iter().map(|drafter| drafter.instances).collect();
    let machine = Dsi::new(&PROMPT, options(cell, patience, instances.clone())).map_err(Error::refused)?;
    let servers = (0..cell.sp_degree).map(|_| None).collect();
    let (drafts, have_read, actions) = (Vec::new(), vec![0.0; instances.iter().sum()], Vec::new());
    let mut run = Simulation { cell, drafters, watch, machine, now: 0.0, drafts, have_read, servers, actions };
    for server in 0..cell.sp_degree {
        run.handle(Event::Free { server });
    }
    while !run.machine.is_done() && run.step() {}
    Ok(run.now)
}

impl<W: Watch> Simulation<'_, W> {
    /// Processes the next event. At equal times, draft tokens come first. Returns false if there are no more events.
    fn step(&mut self) -> bool {
        let ends = self.servers.iter().enumerate().filter_map(|(at, task)| Some((at, task.as_ref()?.span.to)));
        let next = ends.min_by(|a, b| a.1.total_cmp(&b.1));
        let drafted = (0..self.drafts.len()).min_by(|&a, &b| self.drafts[a].ready.total_cmp(&self.drafts[b].ready));
        match (drafted, next) {
            (Some(at), next) if next.is_none_or(|(_, end)| self.drafts[at].ready <= end) => self.drafted(at),
            (_, Some((server, end))) => {
                self.now = end;
                self.verified(server);
            }
            _ => return false,
        }
        true
    }

    fn drafted(&mut self, at: usize) {
        let DraftRun { task, drafter, from, ready, position, left } = self.drafts.remove(at);
        self.now = ready;
        self.watch.span(Span { server: None, from, to: ready, position, count: 1, cancelled: false });
        let SimulatedDrafter { latency, agreements, .. } = self.drafters[drafter];
        if left > 1 {
            let ready = ready + latency.tpot;
            self.drafts.push(DraftRun { task, drafter, from: self.now, ready, position: position + 1, left: left - 1 });
        }
        self.handle(Event::Drafted { task, ids: &[id(position, drafter, agreements[position])] });
    }

    fn verified(&mut self, server: usize) {
        if let Some(Running { task, span }) = self.servers[server].take() {
            self.watch.span(span);
            let ids = ids(span.position, span.count);
            let event =
                if span.cancelled { Event::Free { server } } else { Event::Verified { server, task, ids: &ids } };
            self.handle(event);
        }
    }

    fn handle(&mut self, event: Event<'_>) {
        self.machine.handle(event, &mut self.actions);
        let mut free = Vec::new();
        for action in std::mem::take(&mut self.actions) {
            match action {
                Action::Draft { task, drafter, instance, feed, most } => {
                    let position = position(&feed, 1);
                    let Latency { ttft, tpot } = self.drafters[drafter].latency;
                    if feed.keep == 0 {
                        self.have_read[instance] = self.now + ttft - tpot;
                    }
                    let ready = self.now.max(self.have_read[instance]) + tpot;
                    self.drafts.push(DraftRun { task, drafter, from: self.now, ready, position, left: most });
                }
                Action::Verify { task, server, feed, rows } => {
                    let position = position(&feed, rows);
                    let to = self.now + time(self.cell.target, feed.keep);
                    let (server_of, from) = (Some(server), self.now);
                    let span = Span { server: server_of, from, to, position, count: rows, cancelled: false };
                    self.servers[server] = Some(Running { task, span });
                }
                Action::Cancel { task } => free.extend(self.cancel(task)),
                Action::Emit { drafter, .. } => self.watch.emitted(self.now, drafter.is_some()),
            }
        }
        for server in free {
            self.handle(Event::Free { server });
        }
    }

    /// Cancels a task. Returns the server that becomes free.
    fn cancel(&mut self, task: TaskId) -> Option<usize> {
        let now = self.now;
        if let Some(at) = self.drafts.iter().position(|draft| draft.task == task) {
            let DraftRun { from, position, .. } = self.drafts.remove(at);
            self.watch.span(Span { server: None, from, to: now, position, count: 1, cancelled: true });
            return None;
        }
        let held = |running: &&mut Option<Running>| running.as_ref().is_some_and(|running| running.task == task);
        let running = self.servers.iter_mut().find(held)?;
        let span = &mut running.as_mut()?.span;
        span.cancelled = true;
        let reads_prompt = span.to - span.from > self.cell.target.tpot * (1.0 + 1e-9);
        if reads_prompt {
            return None;
        }
        span.to = now;
        let (span, server) = (*span, span.server);
        *running = None;
        self.watch.span(span);
        server
    }
}
