//! The threads: a server of the target answers verify tasks; the drafter drafts until it hears otherwise.

use super::Instance;
use super::worker::{Build, Inbox, Order, Report, Worker};
use crate::error::{Error, Result};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{Builder, JoinHandle, panicking};

/// A thread that takes orders until nobody is left to give one.
pub(super) struct Thread {
    pub orders: Sender<Order>,
    /// How building its instance went; once.
    pub built: Receiver<Result<()>>,
    pub handle: JoinHandle<()>,
}

/// Who a thread is to the caller.
#[derive(Clone, Copy)]
pub(super) enum Role {
    Server(usize),
    Drafter,
}

impl Role {
    /// It cannot go on.
    fn gone(self, error: Error) -> Report {
        match self {
            Self::Server(server) => Report::Gone { server, error },
            Self::Drafter => Report::NoDrafter { error },
        }
    }
}

/// Where the reports on a text go; nobody listens after its end. A thread that dies reports even that, or its caller would
/// wait for ever.
struct Reporter {
    role: Role,
    to: Option<Sender<Report>>,
}

impl Reporter {
    fn tell(&self, report: Report) {
        if let Some(to) = &self.to {
            let _ = to.send(report);
        }
    }
}

impl Drop for Reporter {
    fn drop(&mut self) {
        if panicking() {
            self.tell(self.role.gone(Error::DeviceLost { reason: "its driver failed".into() }));
        }
    }
}

/// Starts a thread, which builds its instance at once.
///
/// # Errors
/// [`Error::WebGpuUnavailable`] when the system gives no thread.
pub(super) fn start<T: Instance + 'static>(role: Role, build: Build<T>) -> Result<Thread> {
    let (orders, inbox) = channel();
    let (tell, built) = channel();
    let name = match role {
        Role::Server(server) => format!("target {server}"),
        Role::Drafter => "drafter".into(),
    };
    let work = move || {
        let worker = match Worker::new(build) {
            Ok(worker) => worker,
            Err(error) => return drop(tell.send(Err(error))),
        };
        let _ = tell.send(Ok(()));
        let (inbox, reporter) = (Inbox::new(inbox), Reporter { role, to: None });
        match role {
            Role::Server(server) => serve(server, worker, inbox, reporter),
            Role::Drafter => draft(worker, inbox, reporter),
        }
    };
    let spawned = Builder::new().name(name).spawn(work);
    let handle = spawned.map_err(|error| Error::WebGpuUnavailable { reason: format!("no thread: {error}") })?;
    Ok(Thread { orders, built, handle })
}

fn serve<T: Instance>(server: usize, mut worker: Worker<T>, mut inbox: Inbox, mut reporter: Reporter) {
    while let Some(order) = inbox.next() {
        let done = match order {
            Order::Begin { sampling, report } => {
                reporter.to = Some(report);
                worker.begin(sampling).map(|()| Report::Free { server })
            }
            Order::Verify { task, feed, rows } => {
                worker.feed(feed);
                match inbox.is_void(task) {
                    true => Ok(Report::Free { server }),
                    false => worker.read(rows).map(|(ids, reused)| Report::Verified { server, task, ids, reused }),
                }
            }
            // Its task was answered before.
            Order::Cancel { .. } | Order::Draft { .. } => continue,
        };
        match done {
            Ok(report) => reporter.tell(report),
            Err(error) if worker.can_return(&error) => {
                reporter.tell(Report::Lost { server, reason: error.to_string() });
                reporter.tell(match worker.rebuild() {
                    Ok(()) => Report::Free { server },
                    Err(error) => Report::Gone { server, error },
                });
            }
            Err(error) if worker.is_gone() || matches!(error, Error::DeviceLost { .. }) => {
                worker.give_up();
                reporter.tell(Report::Gone { server, error });
            }
            Err(error) => reporter.tell(Report::Failed { error }),
        }
    }
}

fn draft<T: Instance>(mut worker: Worker<T>, mut inbox: Inbox, mut reporter: Reporter) {
    while let Some(order) = inbox.next() {
        let failed = match order {
            Order::Begin { sampling, report } => {
                reporter.to = Some(report);
                worker.begin(sampling).err()
            }
            Order::Draft { task, feed, most } => {
                worker.feed(feed);
                draft_tokens(&mut worker, most, |ids| {
                    reporter.tell(Report::Drafted { task, ids });
                    !inbox.has_more()
                })
            }
            Order::Cancel { .. } | Order::Verify { .. } => None,
        };
        if let Some(error) = failed {
            let back = worker.can_return(&error).then(|| worker.rebuild());
            if !matches!(back, Some(Ok(()))) {
                worker.give_up();
                reporter.tell(Report::NoDrafter { error });
            }
        }
    }
}

/// Drafts token by token, as long as they are wanted.
fn draft_tokens<T: Instance>(
    worker: &mut Worker<T>,
    most: usize,
    mut tell: impl FnMut(Vec<u32>) -> bool,
) -> Option<Error> {
    for _ in 0..most {
        let (next, failed) = match worker.step() {
            Ok(next) => (next, None),
            Err(error) => (None, Some(error)),
        };
        let wanted = tell(next.into_iter().collect());
        if failed.is_some() || next.is_none() {
            return failed;
        }
        if !wanted {
            break;
        }
    }
    None
}
