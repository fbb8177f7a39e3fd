//! The state machine on a simulated clock.

use super::{Cell, Draws, Latency, best_lookahead, pearl, plain, si};
use crate::error::Result;
use crate::speculate::dsi::{Action, Dsi, DsiOptions, Event, TaskId, Verifier};
use serde::Serialize;

/// Mean total latencies of the schedules, in the cell's unit.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Means {
    /// Plain decoding.
    pub plain: f64,
    /// Sequential speculation.
    pub si: f64,
    /// Distributed speculation.
    pub dsi: f64,
    /// Overlap of one block, PEARL-like.
    pub pearl: f64,
}

/// The lookaheads of the schedules.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Lookaheads {
    /// Of sequential speculation.
    pub si: usize,
    /// Of distributed speculation.
    pub dsi: usize,
    /// Of the PEARL-like overlap.
    pub pearl: usize,
}

impl Lookaheads {
    /// The same for all.
    pub fn all(lookahead: usize) -> Self {
        Self { si: lookahead, dsi: lookahead, pearl: lookahead }
    }

    /// What suits each: for sequential speculation the fastest one in expectation, for distributed speculation the least
    /// that the servers keep up with, for the overlap a block that takes as long as a verification.
    pub fn good(cell: &Cell) -> Self {
        let pearl = (cell.target.tpot / cell.drafter.tpot).round().clamp(1.0, 10_000.0) as usize;
        let si = best_lookahead(cell).0;
        Self { si, dsi: cell.with_least_lookahead().lookahead, pearl }
    }
}

/// Simulates all schedules on the same draws.
///
/// # Errors
/// [`crate::Error::BadOption`].
pub fn means(cell: &Cell, lookaheads: Lookaheads, draws: &Draws) -> Result<Means> {
    for lookahead in [lookaheads.si, lookaheads.dsi, lookaheads.pearl] {
        Cell { lookahead, ..*cell }.validate()?;
    }
    let with = |lookahead| Cell { lookahead, ..*cell };
    let (mut sums, mut repeats) = (Means { plain: 0.0, si: 0.0, dsi: 0.0, pearl: 0.0 }, 0.0);
    for agreements in draws.agreements(cell.acceptance) {
        repeats += 1.0;
        plain(cell, &mut |pass| sums.plain += pass.total());
        si(&with(lookaheads.si), &agreements, &mut |pass| sums.si += pass.total());
        pearl(&with(lookaheads.pearl), &agreements, &mut |pass| sums.pearl += pass.total());
        let with_dsi = with(lookaheads.dsi);
        sums.dsi += dsi(&with_dsi, with_dsi.patience(), &agreements, &mut ())?;
    }
    let Means { plain, si, dsi, pearl } = sums;
    Ok(Means { plain: plain / repeats, si: si / repeats, dsi: dsi / repeats, pearl: pearl / repeats })
}

/// Simulates all schedules with their good lookaheads. Where distributed speculation would be faster with the one of
/// sequential speculation, it gets that: the servers that it has may be too few for tokens to spare.
///
/// # Errors
/// [`crate::Error::BadOption`].
pub fn best_means(cell: &Cell, draws: &Draws) -> Result<(Lookaheads, Means)> {
    let lookaheads = Lookaheads::good(cell);
    let found = means(cell, lookaheads, draws)?;
    if found.dsi <= found.si {
        return Ok((lookaheads, found));
    }
    let others = Lookaheads { dsi: lookaheads.si, ..lookaheads };
    let other = means(cell, others, draws)?;
    Ok(if other.dsi < found.dsi { (others, other) } else { (lookaheads, found) })
}

/// Something that was being done.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Span {
    /// Who did it; none: the drafter.
    pub server: Option<usize>,
    /// When it began.
    pub from: f64,
    /// When it ended, or was cancelled.
    pub to: f64,
    /// The first position that it was about; the first generated token has position 0.
    pub position: usize,
    /// Positions that it was about.
    pub count: usize,
    /// It was cancelled.
    pub cancelled: bool,
}

/// Who hears what happens in a run.
pub trait Watch {
    /// A span is over.
    fn span(&mut self, _span: Span) {}

    /// A token was emitted; accepted, or the target's own.
    fn emitted(&mut self, _now: f64, _accepted: bool) {}
}

impl Watch for () {}

/// What the machine runs on in a simulation: the options for one text.
pub(super) fn options(cell: &Cell, patience: usize) -> DsiOptions {
    let Cell { lookahead, sp_degree, tokens, .. } = *cell;
    let target = Verifier { lookahead, sp_degree, patience, depth: 1 };
    DsiOptions { verifiers: vec![target], room: tokens, ends: Vec::new() }
}

/// The target's token at a position; a wrong draft token is one more.
pub(super) fn id(position: usize, right: bool) -> u32 {
    position as u32 * 2 + u32::from(!right)
}

/// The one token of a simulated prompt.
pub(super) const PROMPT: [u32; 1] = [u32::MAX];

/// The time of a forward: one that is told the text from its beginning reads the prompt.
pub(super) fn time(latency: Latency, keep: usize) -> f64 {
    if keep == 0 { latency.ttft } else { latency.tpot }
}

struct Running {
    task: TaskId,
    span: Span,
}

struct Drafting {
    task: TaskId,
    from: f64,
    ready: f64,
    position: usize,
    left: usize,
}

struct Simulation<'a, W> {
    cell: &'a Cell,
    agreements: &'a [bool],
    watch: &'a mut W,
    machine: Dsi,
    now: f64,
    drafter: Option<Drafting>,
    /// When the drafter has read the prompt.
    drafter_has_read: f64,
    servers: Vec<Option<Running>>,
    actions: Vec<Action>,
}

/// Distributed speculation: the total latency of one text, when draft token i is right where `agreements[i]` says so
/// and an idle target waits for `patience` draft tokens ([`Cell::patience`] is a good number).
/// Cancelling takes no time, but a server that reads the prompt reads it to its end.
///
/// # Errors
/// [`crate::Error::BadOption`].
pub fn dsi(cell: &Cell, patience: usize, agreements: &[bool], watch: &mut impl Watch) -> Result<f64> {
    cell.validate()?;
    let machine = Dsi::new(&PROMPT, options(cell, patience))?;
    let servers = (0..cell.sp_degree).map(|_| None).collect();
    let actions = Vec::new();
    let (now, drafter, drafter_has_read) = (0.0, None, 0.0);
    let mut run = Simulation { cell, agreements, watch, machine, now, drafter, drafter_has_read, servers, actions };
    for server in 0..cell.sp_degree {
        run.hear(Event::Free { server });
    }
    while !run.machine.is_done() && run.step() {}
    Ok(run.now)
}

impl<W: Watch> Simulation<'_, W> {
    /// Goes on to the next event. At the same time, draft tokens come first. False when nothing is left to wait for.
    fn step(&mut self) -> bool {
        let ends = self.servers.iter().enumerate().filter_map(|(at, task)| Some((at, task.as_ref()?.span.to)));
        let next = ends.min_by(|a, b| a.1.total_cmp(&b.1));
        match (self.drafter.take(), next) {
            (Some(drafting), next) if next.is_none_or(|(_, end)| drafting.ready <= end) => self.drafted(drafting),
            (drafter, Some((server, end))) => {
                self.drafter = drafter;
                self.now = end;
                self.verified(server);
            }
            _ => return false,
        }
        true
    }

    fn drafted(&mut self, drafting: Drafting) {
        let Drafting { task, from, ready, position, left } = drafting;
        self.now = ready;
        self.watch.span(Span { server: None, from, to: ready, position, count: 1, cancelled: false });
        if left > 1 {
            let ready = ready + self.cell.drafter.tpot;
            self.drafter = Some(Drafting { task, from: self.now, ready, position: position + 1, left: left - 1 });
        }
        let right = self.agreements[position];
        self.hear(Event::Drafted { task, ids: &[id(position, right)] });
    }

    fn verified(&mut self, server: usize) {
        if let Some(Running { task, span }) = self.servers[server].take() {
            self.watch.span(span);
            let ids: Vec<u32> = (span.position..span.position + span.count).map(|at| id(at, true)).collect();
            let event =
                if span.cancelled { Event::Free { server } } else { Event::Verified { server, task, ids: &ids } };
            self.hear(event);
        }
    }

    fn hear(&mut self, event: Event<'_>) {
        self.machine.handle(event, &mut self.actions);
        let mut free = Vec::new();
        for action in std::mem::take(&mut self.actions) {
            match action {
                Action::Draft { task, feed, most } => {
                    let position = feed.keep + feed.tokens.len() - PROMPT.len();
                    let Latency { tpot, .. } = self.cell.drafter;
                    if feed.keep == 0 {
                        self.drafter_has_read = self.now + time(self.cell.drafter, 0) - tpot;
                    }
                    let ready = self.now.max(self.drafter_has_read) + tpot;
                    self.drafter = Some(Drafting { task, from: self.now, ready, position, left: most });
                }
                Action::Verify { task, server, feed, rows } => {
                    let position = feed.keep + feed.tokens.len() - rows;
                    let to = self.now + time(self.cell.target, feed.keep);
                    let (server_of, from) = (Some(server), self.now);
                    let span = Span { server: server_of, from, to, position, count: rows, cancelled: false };
                    self.servers[server] = Some(Running { task, span });
                }
                Action::Cancel { task } => free.extend(self.cancel(task)),
                Action::Emit { model, .. } => self.watch.emitted(self.now, model == 0),
            }
        }
        for server in free {
            self.hear(Event::Free { server });
        }
    }

    /// The server that is free now.
    fn cancel(&mut self, task: TaskId) -> Option<usize> {
        let now = self.now;
        if let Some(Drafting { from, position, .. }) = self.drafter.take_if(|drafting| drafting.task == task) {
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
