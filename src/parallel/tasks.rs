//! Instances as tasks of the thread that writes, because what they wait for is elsewhere.

use super::crew::{Crew, Order, Report, Role};
use super::serve::{Inbox, work};
use super::worker::Worker;
use crate::device::Engine;
use crate::error::Result;
use crate::remote::{Later, Transport};
use crate::sample::Sampling;
use futures_channel::mpsc::{UnboundedReceiver, UnboundedSender, unbounded};
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// Instances at work, as long as a report is waited for.
pub struct Tasks {
    /// That of the drafter last.
    tasks: Vec<Task>,
    sp_degree: usize,
    /// Number of the text.
    text: u64,
    tell: UnboundedSender<(u64, Report)>,
    reports: UnboundedReceiver<(u64, Report)>,
    clock: Rc<dyn Transport>,
}

struct Task {
    orders: UnboundedSender<Order>,
    work: Later<'static, ()>,
}

impl Tasks {
    /// Without an instance; pauses are those of `clock`.
    pub fn new(clock: Rc<dyn Transport>) -> Self {
        let (tell, reports) = unbounded();
        Self { tasks: Vec::new(), sp_degree: 0, text: 0, tell, reports, clock }
    }

    /// With one more: the servers of the target in their order, then the drafter, if there is one.
    pub fn add(&mut self, role: Role, worker: Worker<Engine>) {
        let (orders, inbox) = unbounded();
        let tell = self.tell.clone();
        // The receiver lives as long as the tasks do.
        let tell = Box::new(move |text, report| drop(tell.unbounded_send((text, report))));
        self.tasks.push(Task { orders, work: Box::pin(work(role, worker, Inbox::new(inbox), tell)) });
        self.sp_degree += usize::from(role != Role::Drafter);
    }
}

impl Crew for Tasks {
    fn sp_degree(&self) -> usize {
        self.sp_degree
    }

    fn has_drafter(&self) -> bool {
        self.tasks.len() > self.sp_degree
    }

    fn begin(&mut self, sampling: &Sampling, drafting: &Sampling) {
        self.text += 1;
        for (at, task) in self.tasks.iter().enumerate() {
            let sampling = if at < self.sp_degree { sampling } else { drafting };
            let _ = task.orders.unbounded_send(Order::Begin { text: self.text, sampling: sampling.clone() });
        }
    }

    fn order(&mut self, to: Role, order: Order) {
        let at = match to {
            Role::Server(server) => server,
            Role::Drafter => self.sp_degree,
        };
        let Some(Task { orders, work }) = self.tasks.get_mut(at) else { return };
        let _ = orders.unbounded_send(order);
        // A request is sent at once, or broken off, also behind the last report; the drafter computes here, and waits for its turn.
        if to != Role::Drafter {
            let _ = work.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        }
    }

    fn report(&mut self, within: Option<f64>) -> Later<'_, Result<Option<Report>>> {
        Box::pin(async move {
            // What has come from servers is heard before the drafter computes.
            Ok(match self.next_report(self.sp_degree, Some(0.0)).await {
                None => self.next_report(self.tasks.len(), within).await,
                report => report,
            })
        })
    }
}

impl Tasks {
    /// The next report while the first `count` tasks go on; none where it does not come within so many seconds.
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
