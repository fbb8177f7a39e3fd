//! The loop of an instance: a target instance runs verify tasks; the drafter drafts until its next command.

use super::instance::{ModelInstance, Read};
use super::instances::{Command, Report, Role};
use crate::error::{Error, Result};
use crate::target::yield_now;
use foretoken_dsi::TaskId;
use futures_channel::mpsc::UnboundedReceiver;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::ops::ControlFlow;
use std::pin::pin;
use std::task::Poll;
use web_time::Instant;

/// A queue of commands that can be searched for cancellations.
pub struct Inbox {
    commands: UnboundedReceiver<Command>,
    waiting: VecDeque<Command>,
}

impl Inbox {
    /// Wraps a channel of commands.
    pub fn new(commands: UnboundedReceiver<Command>) -> Self {
        Self { commands, waiting: VecDeque::new() }
    }

    /// Returns the next command. `None`: the channel is closed.
    async fn next(&mut self) -> Option<Command> {
        match self.waiting.pop_front() {
            Some(command) => Some(command),
            None => self.commands.recv().await.ok(),
        }
    }

    fn has_more(&mut self) -> bool {
        self.waiting.extend(std::iter::from_fn(|| self.commands.try_recv().ok()));
        !self.waiting.is_empty()
    }

    /// Returns true if the result of a task is no longer needed: the task was cancelled, or another text has begun.
    fn is_void(&mut self, task: TaskId) -> bool {
        let voids = |command: &Command| match command {
            Command::Cancel { task: cancelled } => *cancelled == task,
            Command::Begin { .. } => true,
            _ => false,
        };
        self.has_more() && self.waiting.iter().any(voids)
    }

    /// Waits until `is_void` returns true: the result of a task is no longer needed.
    async fn voided(&mut self, is_void: impl Fn(&mut Self) -> bool) {
        while !is_void(self) {
            match self.commands.recv().await {
                Ok(command) => self.waiting.push_back(command),
                // The channel is closed, so the result has no receiver.
                Err(_) => return,
            }
        }
    }
}

/// Returns the result of `work`. `None`: `stopped` was ready first.
async fn unless<T>(stopped: impl Future<Output = ()>, work: impl Future<Output = T>) -> Option<T> {
    let (mut stopped, mut work) = (pin!(stopped), pin!(work));
    poll_fn(|context| match work.as_mut().poll(context) {
        Poll::Ready(done) => Poll::Ready(Some(done)),
        Poll::Pending => stopped.as_mut().poll(context).map(|()| None),
    })
    .await
}

/// Callback for reports, called with the number of the text.
pub type OnReport = Box<dyn FnMut(u64, Report)>;

/// Carries out commands until the channel is closed.
pub async fn run_instance(role: Role, instance: ModelInstance, inbox: Inbox, on_report: OnReport) {
    match role {
        Role::Target(server) => TargetLoop { server, instance, inbox, on_report, text: 0 }.answer_calls().await,
        Role::Drafter => run_drafter(instance, inbox, on_report).await,
    }
}

/// The loop of a target instance.
struct TargetLoop {
    /// Number of the instance.
    server: usize,
    instance: ModelInstance,
    inbox: Inbox,
    on_report: OnReport,
    /// Number of the text.
    text: u64,
}

impl TargetLoop {
    async fn answer_calls(&mut self) {
        while let Some(command) = self.inbox.next().await {
            let done = match command {
                Command::Begin { text, sampling } => {
                    self.text = text;
                    self.instance.begin(sampling).await.map(|()| Report::Free { server: self.server })
                }
                Command::Verify { task, feed, rows } => {
                    self.instance.feed(feed);
                    self.verify(task, rows).await
                }
                // The task of this command was already answered.
                Command::Cancel { .. } | Command::Draft { .. } => continue,
            };
            match done {
                Ok(report) => self.report(report),
                Err(error) => self.fail(error).await,
            }
        }
    }

    fn report(&mut self, report: Report) {
        (self.on_report)(self.text, report);
    }

    /// Verifies the last `rows` tokens of the text, unless the task is cancelled.
    async fn verify(&mut self, task: TaskId, rows: usize) -> Result<Report> {
        let Self { server, instance, inbox, on_report, text } = self;
        let server = *server;
        if inbox.is_void(task) {
            return Ok(Report::Free { server });
        }
        let began = Instant::now();
        let read = if instance.breaks_off() {
            let mut prefilled = |done| {
                on_report(*text, Report::Prefilled { done });
                flow(true)
            };
            let is_void = |inbox: &mut Inbox| inbox.is_void(task);
            let read = unless(inbox.voided(is_void), instance.read_text(rows, &mut prefilled)).await;
            read.unwrap_or_else(|| {
                instance.break_off();
                Ok(None)
            })
        } else {
            let mut prefilled = |done| {
                on_report(*text, Report::Prefilled { done });
                flow(!inbox.is_void(task))
            };
            instance.read_text(rows, &mut prefilled).await
        };
        let seconds = began.elapsed().as_secs_f64();
        Ok(match read? {
            Some(Read { ids, reused, traffic }) => Report::Verified { server, task, ids, reused, seconds, traffic },
            None => Report::Free { server },
        })
    }

    /// Reports an error. If the device is lost, builds the instance again.
    async fn fail(&mut self, error: Error) {
        let server = self.server;
        if self.instance.can_return(&error) {
            self.report(Report::Lost { server, reason: error.to_string() });
            let back = self.instance.rebuild().await;
            self.report(back.map_or_else(|error| Report::Gone { server, error }, |()| Report::Free { server }));
        } else if self.instance.is_gone() || leaves_open(&error) {
            self.instance.give_up();
            self.report(Report::Gone { server, error });
        } else {
            self.report(Report::Failed { error });
        }
    }
}

/// Runs the loop of the drafter.
async fn run_drafter(mut instance: ModelInstance, mut inbox: Inbox, mut on_report: OnReport) {
    let mut text = 0;
    while let Some(command) = inbox.next().await {
        let failed = match command {
            Command::Begin { text: next, sampling } => {
                text = next;
                instance.begin(sampling).await.err()
            }
            Command::Draft { task, feed, most } => {
                instance.feed(feed);
                let report = |ids, seconds| on_report(text, Report::Drafted { task, ids, seconds });
                draft_tokens(&mut instance, &mut inbox, most, report).await
            }
            Command::Cancel { .. } | Command::Verify { .. } => None,
        };
        if let Some(error) = failed
            && !(instance.can_return(&error) && instance.rebuild().await.is_ok())
        {
            instance.give_up();
            on_report(text, Report::NoDrafter { error });
        }
    }
}

/// Drafts token by token, until another command arrives.
async fn draft_tokens(
    instance: &mut ModelInstance,
    inbox: &mut Inbox,
    most: usize,
    mut report: impl FnMut(Vec<u32>, f64),
) -> Option<Error> {
    for _ in 0..most {
        let began = Instant::now();
        let step = if instance.breaks_off() {
            let Some(step) = unless(inbox.voided(Inbox::has_more), instance.step(&mut |_| flow(true))).await else {
                instance.break_off();
                break;
            };
            step
        } else {
            instance.step(&mut |_| flow(!inbox.has_more())).await
        };
        let (next, failed) = match step {
            Ok(next) => (next, None),
            Err(error) => (None, Some(error)),
        };
        report(next.into_iter().collect(), began.elapsed().as_secs_f64());
        yield_now().await;
        if failed.is_some() || next.is_none() {
            return failed;
        }
        if inbox.has_more() {
            break;
        }
    }
    None
}

fn flow(continues: bool) -> ControlFlow<()> {
    if continues { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
}

/// Returns true if another instance may succeed after this error.
fn leaves_open(error: &Error) -> bool {
    let of_device = matches!(error, Error::DeviceLost { .. } | Error::OutOfGpuMemory { .. } | Error::Internal { .. });
    of_device || matches!(error, Error::Network { .. } | Error::Overloaded { .. })
}
