//! One thread per instance, because the objects of a device cannot be sent to another thread.

use super::Instance;
use super::crew::{Order, Report, Role};
use super::serve::{Inbox, work};
use super::worker::Worker;
use crate::error::{Error, Result};
use futures_channel::mpsc::{UnboundedSender, unbounded};
use std::future::ready;
use std::rc::Rc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{Builder, JoinHandle, panicking};

/// A function that builds an instance on the calling thread.
pub type Build<T> = Box<dyn Fn() -> Result<T> + Send>;

/// A thread that takes orders until their channel is closed.
pub(super) struct Thread {
    pub orders: UnboundedSender<Order>,
    /// Result of building the instance, sent once.
    pub built: Receiver<Result<()>>,
    pub handle: JoinHandle<()>,
}

/// A report with the number of its text. `None`: it applies to the current text.
pub(super) type Told = (Option<u64>, Report);

/// Sender of a thread's reports. It also reports a panic, or the caller would wait forever.
struct Reporter {
    role: Role,
    to: Sender<Told>,
}

impl Reporter {
    fn tell(&self, text: Option<u64>, report: Report) {
        // At the end there is no receiver left.
        let _ = self.to.send((text, report));
    }
}

impl Drop for Reporter {
    fn drop(&mut self) {
        if panicking() {
            self.tell(None, self.role.gone(Error::Internal { reason: "its driver failed".into() }));
        }
    }
}

/// Starts a thread, which builds its instance at once.
///
/// # Errors
/// [`Error::WebGpuUnavailable`] if the system cannot start a thread.
pub(super) fn start<T: Instance + 'static>(role: Role, build: Build<T>, reports: &Sender<Told>) -> Result<Thread> {
    let (orders, inbox) = unbounded();
    let (tell, built) = channel();
    let name = match role {
        Role::Server(server) => format!("target {server}"),
        Role::Drafter => "drafter".into(),
    };
    let reporter = Reporter { role, to: reports.clone() };
    let live = move || {
        // It outlives the inbox: when its last report arrives, orders already fail.
        let reporter = Rc::new(reporter);
        let to = reporter.clone();
        pollster::block_on(async {
            let worker = match build() {
                Ok(instance) => Worker::new(instance, Box::new(move || Box::pin(ready(build())))),
                Err(error) => return drop(tell.send(Err(error))),
            };
            let _ = tell.send(Ok(()));
            let tell = Box::new(move |text, report| to.tell(Some(text), report));
            work(role, worker, Inbox::new(inbox), tell).await;
        });
    };
    let spawned = Builder::new().name(name).spawn(live);
    let handle = spawned.map_err(|error| Error::WebGpuUnavailable { reason: format!("no thread: {error}") })?;
    Ok(Thread { orders, built, handle })
}
