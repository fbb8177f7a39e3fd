//! The simulation on threads that really wait, so that times include scheduling. One thread for the drafter, one for each server, and one
//! for the state machine. Latencies are in milliseconds.

use super::offline::{Lookaheads, Means, PROMPT, id, ids, options, position, time};
use super::{Cell, Draws, Pass, pearl, plain, si};
use foretoken::dsi::{Action, Dsi, Event, Feed, TaskId};
use foretoken::{Error, Result};
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

impl OnlineTimes {
    /// Adds a share of other times.
    fn add(&mut self, share: f64, times: Self) {
        self.ttft += share * times.ttft;
        self.tpot += share * times.tpot;
        self.total += share * times.total;
    }
}

/// Runs all schedules on the same draws, in real time.
///
/// # Errors
/// [`Error::BadOption`].
pub fn measure(cell: &Cell, lookaheads: Lookaheads, draws: &Draws) -> Result<Means<OnlineTimes>> {
    let [of_si, of_dsi, of_pearl] = lookaheads.cells(cell)?;
    let (mut means, share) = (Means::<OnlineTimes>::default(), 1.0 / draws.repeats() as f64);
    for agreements in draws.agreements(cell.acceptance) {
        means.plain.add(share, watch(cell, |wait| plain(cell, wait)));
        means.si.add(share, watch(cell, |wait| si(&of_si, &agreements, wait)));
        means.dsi.add(share, dsi(&of_dsi, &agreements)?);
        means.pearl.add(share, watch(cell, |wait| pearl(&of_pearl, &agreements, wait)));
    }
    Ok(means)
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
    schedule(&mut |Pass { draft, verify, overlapped, .. }| {
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
    /// Positions to draft or to verify.
    Work {
        task: TaskId,
        position: usize,
        count: usize,
        reads_prompt: bool,
    },
    Cancel {
        task: TaskId,
    },
}

fn work(task: TaskId, feed: &Feed, rows: usize, count: usize) -> Order {
    Order::Work { task, position: position(feed, rows), count, reads_prompt: feed.keep == 0 }
}

enum OnlineReport {
    Drafted { task: TaskId, position: usize },
    Verified { server: usize, task: TaskId, position: usize, rows: usize },
    Free { server: usize },
}

/// Measures distributed speculation of one text.
///
/// # Errors
/// [`Error::BadOption`].
pub fn dsi(cell: &Cell, agreements: &[bool]) -> Result<OnlineTimes> {
    cell.validate()?;
    let mut machine = Dsi::new(&PROMPT, options(cell, cell.patience(), vec![1])).map_err(Error::refused)?;
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
                    let ids = [id(position, 0, agreements[position])];
                    machine.handle(Event::Drafted { task, ids: &ids }, &mut actions);
                }
                OnlineReport::Verified { server, task, position, rows } => {
                    let event = Event::Verified { server, task, ids: &ids(position, rows) };
                    machine.handle(event, &mut actions);
                }
                OnlineReport::Free { server } => machine.handle(Event::Free { server }, &mut actions),
            }
            for action in actions {
                let (task, order) = match action {
                    Action::Draft { task, feed, most, .. } => (task, work(task, &feed, 1, most)),
                    Action::Verify { task, server, feed, rows } => {
                        holder.insert(task, server);
                        (task, work(task, &feed, rows, rows))
                    }
                    Action::Cancel { task } => (task, Order::Cancel { task }),
                    Action::Emit { .. } => {
                        first.get_or_insert_with(Instant::now);
                        continue;
                    }
                };
                let to = holder.get(&task).map_or(&drafter, |&server| &servers[server]);
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
        let Order::Work { task, position, count, reads_prompt } = order else {
            next = orders.recv();
            continue;
        };
        let now = Instant::now();
        if reads_prompt {
            has_read = now + milliseconds(cell.drafter.ttft - cell.drafter.tpot);
        }
        let mut ready = now.max(has_read);
        let mut position = position..position + count;
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
        let Order::Work { task, position, count: rows, reads_prompt } = order else {
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
