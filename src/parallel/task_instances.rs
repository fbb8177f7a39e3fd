//! Instances as tasks on the coordinator's thread. They need no threads, because they mostly wait for servers.

use super::instance::ModelInstance;
use super::instance_loop::{Inbox, run_instance};
use super::instances::{Command, Instances, Report, Role};
use crate::backend::server::{Later, Transport};
use crate::error::Result;
use crate::sample::Sampling;
use futures_channel::mpsc::{UnboundedReceiver, UnboundedSender, unbounded};
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// Instances as tasks. They make progress while a report is waited for.
pub struct TaskInstances {
    /// Tasks of the targets in order, then the drafter's task.
    tasks: Vec<InstanceTask>,
    sp_degree: usize,
    /// Number of the text.
    text: u64,
    sender: UnboundedSender<(u64, Report)>,
    reports: UnboundedReceiver<(u64, Report)>,
    clock: Rc<dyn Transport>,
}

struct InstanceTask {
    commands: UnboundedSender<Command>,
    work: Later<'static, ()>,
}

impl TaskInstances {
    /// Creates it without instances. `clock` provides pauses.
    pub fn new(clock: Rc<dyn Transport>) -> Self {
        let (sender, reports) = unbounded();
        Self { tasks: Vec::new(), sp_degree: 0, text: 0, sender, reports, clock }
    }

    /// Adds an instance. Call it for the target instances in order, then for the drafter, if there is one.
    pub fn add(&mut self, role: Role, instance: ModelInstance) {
        let (commands, inbox) = unbounded();
        let sender = self.sender.clone();
        // The receiver lives as long as the tasks, so sending cannot fail.
        let on_report = Box::new(move |text, report| drop(sender.unbounded_send((text, report))));
        self.tasks.push(InstanceTask {
            commands,
            work: Box::pin(run_instance(role, instance, Inbox::new(inbox), on_report)),
        });
        self.sp_degree += usize::from(role != Role::Drafter);
    }
}

impl Instances for TaskInstances {
    fn sp_degree(&self) -> usize {
        self.sp_degree
    }

    fn has_drafter(&self) -> bool {
        self.tasks.len() > self.sp_degree
    }

    fn can_cancel(&self) -> bool {
        true
    }

    fn begin(&mut self, sampling: &Sampling, drafting: &Sampling) {
        self.text += 1;
        for (at, task) in self.tasks.iter().enumerate() {
            let sampling = if at < self.sp_degree { sampling } else { drafting };
            let _ = task.commands.unbounded_send(Command::Begin { text: self.text, sampling: sampling.clone() });
        }
    }

    fn send(&mut self, to: Role, command: Command) {
        let at = match to {
            Role::Target(server) => server,
            Role::Drafter => self.sp_degree,
        };
        let Some(InstanceTask { commands, work }) = self.tasks.get_mut(at) else { return };
        let _ = commands.unbounded_send(command);
        // A request is sent or aborted at once, even after the last report. The drafter computes on this thread, and runs only in `report`.
        if to != Role::Drafter {
            let _ = work.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        }
    }

    fn report(&mut self, within: Option<f64>) -> Later<'_, Result<Option<Report>>> {
        Box::pin(async move {
            // Answers of servers are handled before the drafter computes.
            Ok(match self.next_report(self.sp_degree, Some(0.0)).await {
                None => self.next_report(self.tasks.len(), within).await,
                report => report,
            })
        })
    }
}

impl TaskInstances {
    /// Returns the next report while the first `count` tasks run. `None`: none came within `within` seconds.
    async fn next_report(&mut self, count: usize, within: Option<f64>) -> Option<Report> {
        let mut late = within.map(|seconds| self.clock.pause(seconds));
        poll_fn(|context| {
            let mut received = || loop {
                match self.reports.try_recv() {
                    Ok((text, report)) if text == self.text => return Some(Poll::Ready(Some(report))),
                    Ok(_) => {}
                    Err(_) => return None,
                }
            };
            for task in &mut self.tasks[..count] {
                if let Some(report) = received() {
                    return report;
                }
                let _ = task.work.as_mut().poll(context);
            }
            let late = || late.as_mut().map_or(Poll::Pending, |late| late.as_mut().poll(context).map(|()| None));
            received().unwrap_or_else(late)
        })
        .await
    }
}
