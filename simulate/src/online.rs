//! The simulation on threads that really wait, so that times include scheduling. One thread for the drafter, one for each server, and one
//! for the state machine. Latencies are in milliseconds.

use super::offline::{Lookaheads, PROMPT, id, options, time};
use super::{Cell, Draws, Pass, pearl, plain, si};
use foretoken::Result;
use foretoken::dsi::{Action, Dsi, Event, TaskId};
use serde::Serialize;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

/// Times of a text, in milliseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct OnlineTimes {
    /// Time to the first token.
    pub ttft: f64,
    /// Per token after the first one.
    pub tpot: f64,
    /// Total time.
    pub total: f64,
}

/// Mean times of the schedules.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Measured {
    /// Plain decoding.
    pub plain: OnlineTimes,
    /// Sequential speculation.
    pub si: OnlineTimes,
    /// Distributed speculation.
    pub dsi: OnlineTimes,
    /// Overlap of one block, PEARL-like.
    pub pearl: OnlineTimes,
}

/// Runs all schedules on the same draws, in real time.
///
/// # Errors
/// [`Error::BadOption`](foretoken::Error::BadOption).
pub fn measure(cell: &Cell, lookaheads: Lookaheads, draws: &Draws) -> Result<Measured> {
    let with = |lookahead| Cell { lookahead, ..*cell };
    for lookahead in [lookaheads.si, lookaheads.dsi, lookaheads.pearl] {
        with(lookahead).validate()?;
    }
    let mut runs = Vec::new();
    for agreements in draws.agreements(cell.acceptance) {
        runs.push(Measured {
            plain: watch(cell, |wait| plain(cell, wait)),
            si: watch(cell, |wait| si(&with(lookaheads.si), &agreements, wait)),
            dsi: dsi(&with(lookaheads.dsi), &agreements)?,
            pearl: watch(cell, |wait| pearl(&with(lookaheads.pearl), &agreements, wait)),
        });
    }
    let mean = |of: fn(&Measured) -> OnlineTimes| {
        let share =
            |value: fn(OnlineTimes) -> f64| runs.iter().map(|run| value(of(run))).sum::<f64>() / runs.len() as f64;
        OnlineTimes {
            ttft: share(|times| times.ttft),
            tpot: share(|times| times.tpot),
            total: share(|times| times.total),
        }
    };
    Ok(Measured {
        plain: mean(|run| run.plain),
        si: mean(|run| run.si),
        dsi: mean(|run| run.dsi),
        pearl: mean(|run| run.pearl),
    })
}

fn times(began: Instant, first: Option<Instant>, tokens: usize) -> OnlineTimes {
    let since = |end: Instant| end.duration_since(began).as_secs_f64() * 1e3;
    let total = since(Instant::now());
    let ttft = first.map_or(total, since);
    let tpot = if tokens > 1 { (total - ttft) / (tokens - 1) as f64 } else { 0.0 };
    OnlineTimes { ttft, tpot, total }
}

fn milliseconds(value: f64) -> Duration {
    Duration::from_secs_f64(value.max(0.0) / 1e3)
}

/// Measures a schedule of rounds.
fn watch(cell: &Cell, schedule: impl FnOnce(&mut dyn FnMut(Pass))) -> OnlineTimes {
    let (began, mut first) = (Instant::now(), None);
    schedule(&mut |Pass { draft, verify, overlapped }| {
        if overlapped {
            thread::scope(|scope| {
                scope.spawn(|| thread::sleep(milliseconds(draft)));
                thread::sleep(milliseconds(verify));
            });
        } else {
            thread::sleep(milliseconds(draft));
            thread::sleep(milliseconds(verify));
        }
        first.get_or_insert_with(Instant::now);
    });
    times(began, first, cell.tokens)
}

enum Order {
    Draft { task: TaskId, position: usize, most: usize, reads_prompt: bool },
    Verify { task: TaskId, position: usize, rows: usize, reads_prompt: bool },
    Cancel { task: TaskId },
}

enum OnlineReport {
    Drafted { task: TaskId, position: usize },
    Verified { server: usize, task: TaskId, position: usize, rows: usize },
    Free { server: usize },
}

/// Measures distributed speculation of one text.
///
/// # Errors
/// [`Error::BadOption`](foretoken::Error::BadOption).
pub fn dsi(cell: &Cell, agreements: &[bool]) -> Result<OnlineTimes> {
    cell.validate()?;
    let mut machine = Dsi::new(&PROMPT, options(cell, cell.patience()))?;
    let (report, reports) = channel();
    Ok(thread::scope(|scope| {
        let (drafter, orders) = channel();
        let to = report.clone();
        scope.spawn(move || draft(cell, &orders, &to));
        let servers: Vec<Sender<Order>> = (0..cell.sp_degree)
            .map(|server| {
                let (order, orders) = channel();
                let to = report.clone();
                scope.spawn(move || verify(cell, server, &orders, &to));
                order
            })
            .collect();
        let (began, mut first) = (Instant::now(), None);
        let mut holder = std::collections::HashMap::new();
        while let Ok(report) = reports.recv() {
            let mut actions = Vec::new();
            match report {
                OnlineReport::Drafted { task, position } => {
                    let ids = [id(position, agreements[position])];
                    machine.handle(Event::Drafted { task, ids: &ids }, &mut actions);
                }
                OnlineReport::Verified { server, task, position, rows } => {
                    let ids: Vec<u32> = (position..position + rows).map(|at| id(at, true)).collect();
                    machine.handle(Event::Verified { server, task, ids: &ids }, &mut actions);
                }
                OnlineReport::Free { server } => machine.handle(Event::Free { server }, &mut actions),
            }
            for action in actions {
                let (to, order) = match action {
                    Action::Draft { task, feed, most } => {
                        let position = feed.keep + feed.tokens.len() - PROMPT.len();
                        (&drafter, Order::Draft { task, position, most, reads_prompt: feed.keep == 0 })
                    }
                    Action::Verify { task, server, feed, rows } => {
                        holder.insert(task, server);
                        let position = feed.keep + feed.tokens.len() - rows;
                        (&servers[server], Order::Verify { task, position, rows, reads_prompt: feed.keep == 0 })
                    }
                    Action::Cancel { task } => {
                        (holder.get(&task).map_or(&drafter, |&server| &servers[server]), Order::Cancel { task })
                    }
                    Action::Emit { .. } => {
                        first.get_or_insert_with(Instant::now);
                        continue;
                    }
                };
                // Threads only end after the text, so no order is lost.
                let _ = to.send(order);
            }
            if machine.is_done() {
                break;
            }
        }
        // The threads end when their order channels close.
        times(began, first, cell.tokens)
    }))
}

/// Runs the drafter: waits for each token, until another order arrives.
fn draft(cell: &Cell, orders: &Receiver<Order>, report: &Sender<OnlineReport>) {
    let tpot = milliseconds(cell.drafter.tpot);
    let mut has_read = Instant::now();
    let mut next = orders.recv();
    while let Ok(order) = next {
        let Order::Draft { task, position, most, reads_prompt } = order else {
            next = orders.recv();
            continue;
        };
        let now = Instant::now();
        if reads_prompt {
            has_read = now + milliseconds(cell.drafter.ttft - cell.drafter.tpot);
        }
        let mut ready = now.max(has_read);
        let mut position = position..position + most;
        next = loop {
            let Some(at) = position.next() else {
                break orders.recv();
            };
            ready += tpot;
            match orders.recv_timeout(ready.saturating_duration_since(Instant::now())) {
                Err(RecvTimeoutError::Timeout) => {
                    // After the end there is no receiver.
                    let _ = report.send(OnlineReport::Drafted { task, position: at });
                }
                Ok(order) => break Ok(order),
                Err(RecvTimeoutError::Disconnected) => return,
            }
        };
    }
}

/// Runs a server: waits for each task, until it is cancelled. A prompt is always read to its end.
fn verify(cell: &Cell, server: usize, orders: &Receiver<Order>, report: &Sender<OnlineReport>) {
    // After the end there is no receiver.
    let tell = |what| drop(report.send(what));
    tell(OnlineReport::Free { server });
    while let Ok(order) = orders.recv() {
        let Order::Verify { task, position, rows, reads_prompt } = order else {
            continue;
        };
        let ready = Instant::now() + milliseconds(time(cell.target, usize::from(!reads_prompt)));
        loop {
            match orders.recv_timeout(ready.saturating_duration_since(Instant::now())) {
                Err(RecvTimeoutError::Timeout) => break tell(OnlineReport::Verified { server, task, position, rows }),
                Ok(Order::Cancel { task: cancelled }) if cancelled == task && !reads_prompt => {
                    break tell(OnlineReport::Free { server });
                }
                Ok(_) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }
}
