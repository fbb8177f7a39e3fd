//! The loop of an instance: a target instance runs verify tasks; the drafter drafts until its next order.

use super::Instance;
use super::crew::{Order, Report, Role};
use super::worker::{Read, Worker, yield_now};
use crate::error::Error;
use crate::speculate::dsi::TaskId;
use futures_channel::mpsc::UnboundedReceiver;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::ops::ControlFlow;
use std::pin::pin;
use std::task::Poll;
use web_time::Instant;

/// A queue of orders that can be searched for cancellations.
pub struct Inbox {
    orders: UnboundedReceiver<Order>,
    waiting: VecDeque<Order>,
}

impl Inbox {
    /// Wraps a channel of orders.
    pub fn new(orders: UnboundedReceiver<Order>) -> Self {
        Self { orders, waiting: VecDeque::new() }
    }

    /// Returns the next order. `None`: the channel is closed.
    async fn next(&mut self) -> Option<Order> {
        match self.waiting.pop_front() {
            Some(order) => Some(order),
            None => self.orders.recv().await.ok(),
        }
    }

    fn has_more(&mut self) -> bool {
        self.waiting.extend(std::iter::from_fn(|| self.orders.try_recv().ok()));
        !self.waiting.is_empty()
    }

    /// Returns true if the result of a task is no longer needed: the task was cancelled, or another text has begun.
    fn is_void(&mut self, task: TaskId) -> bool {
        let voids = |order: &Order| match order {
            Order::Cancel { task: cancelled } => *cancelled == task,
            Order::Begin { .. } => true,
            _ => false,
        };
        self.has_more() && self.waiting.iter().any(voids)
    }

    /// Waits until the result of a task is no longer needed.
    async fn voided(&mut self, task: TaskId) {
        while !self.is_void(task) {
            match self.orders.recv().await {
                Ok(order) => self.waiting.push_back(order),
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

/// Carries out orders until the channel is closed.
pub async fn work<T: Instance>(role: Role, worker: Worker<T>, inbox: Inbox, tell: OnReport) {
    match role {
        Role::Server(server) => serve(server, worker, inbox, tell).await,
        Role::Drafter => draft(worker, inbox, tell).await,
    }
}

async fn serve<T: Instance>(server: usize, mut worker: Worker<T>, mut inbox: Inbox, mut tell: OnReport) {
    let mut text = 0;
    while let Some(order) = inbox.next().await {
        let done = match order {
            Order::Begin { text: next, sampling } => {
                text = next;
                worker.begin(sampling).await.map(|()| Report::Free { server })
            }
            Order::Verify { task, feed, rows } => {
                worker.feed(feed);
                if inbox.is_void(task) {
                    Ok(Report::Free { server })
                } else {
                    let began = Instant::now();
                    let read = if worker.breaks_off() {
                        let goes_on = &mut |_| ControlFlow::Continue(());
                        let read = unless(inbox.voided(task), worker.read(rows, goes_on)).await;
                        read.unwrap_or_else(|| {
                            worker.break_off();
                            Ok(None)
                        })
                    } else {
                        let mut prefilled = |done| {
                            tell(text, Report::Prefilled { done });
                            flow(!inbox.is_void(task))
                        };
                        worker.read(rows, &mut prefilled).await
                    };
                    let seconds = began.elapsed().as_secs_f64();
                    read.map(|read| match read {
                        Some(Read { ids, reused, traffic }) => {
                            Report::Verified { server, task, ids, reused, seconds, traffic }
                        }
                        None => Report::Free { server },
                    })
                }
            }
            // The task of this order was already answered.
            Order::Cancel { .. } | Order::Draft { .. } => continue,
        };
        match done {
            Ok(report) => tell(text, report),
            Err(error) if worker.can_return(&error) => {
                tell(text, Report::Lost { server, reason: error.to_string() });
                let back = worker.rebuild().await;
                tell(text, back.map_or_else(|error| Report::Gone { server, error }, |()| Report::Free { server }));
            }
            Err(error) if worker.is_gone() || leaves_open(&error) => {
                worker.give_up();
                tell(text, Report::Gone { server, error });
            }
            Err(error) => tell(text, Report::Failed { error }),
        }
    }
}

async fn draft<T: Instance>(mut worker: Worker<T>, mut inbox: Inbox, mut tell: OnReport) {
    let mut text = 0;
    while let Some(order) = inbox.next().await {
        let failed = match order {
            Order::Begin { text: next, sampling } => {
                text = next;
                worker.begin(sampling).await.err()
            }
            Order::Draft { task, feed, most } => {
                worker.feed(feed);
                let tell = |ids, seconds| tell(text, Report::Drafted { task, ids, seconds });
                draft_tokens(&mut worker, &mut inbox, most, tell).await
            }
            Order::Cancel { .. } | Order::Verify { .. } => None,
        };
        if let Some(error) = failed
            && !(worker.can_return(&error) && worker.rebuild().await.is_ok())
        {
            worker.give_up();
            tell(text, Report::NoDrafter { error });
        }
    }
}

/// Drafts token by token, until another order arrives.
async fn draft_tokens<T: Instance>(
    worker: &mut Worker<T>,
    inbox: &mut Inbox,
    most: usize,
    mut tell: impl FnMut(Vec<u32>, f64),
) -> Option<Error> {
    for _ in 0..most {
        let began = Instant::now();
        let (next, failed) = match worker.step(&mut |_| flow(!inbox.has_more())).await {
            Ok(next) => (next, None),
            Err(error) => (None, Some(error)),
        };
        tell(next.into_iter().collect(), began.elapsed().as_secs_f64());
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

fn flow(goes_on: bool) -> ControlFlow<()> {
    if goes_on { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
}

/// Returns true if another instance may succeed after this error.
fn leaves_open(error: &Error) -> bool {
    let of_device = matches!(error, Error::DeviceLost { .. } | Error::OutOfGpuMemory { .. } | Error::Internal { .. });
    of_device || matches!(error, Error::Network { .. } | Error::Overloaded { .. })
}
