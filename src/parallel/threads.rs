//! A thread for each instance, because nothing on a device may change threads.

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

/// Makes an instance on the thread that calls it.
pub type Build<T> = Box<dyn Fn() -> Result<T> + Send>;

/// A thread that takes orders until nobody is left to give one.
pub(super) struct Thread {
    pub orders: UnboundedSender<Order>,
    /// How building its instance went; once.
    pub built: Receiver<Result<()>>,
    pub handle: JoinHandle<()>,
}

/// A report on a text, by its number; without one it concerns whatever text is being written.
pub(super) type Told = (Option<u64>, Report);

/// A thread that dies reports even that, or its caller would wait for ever.
struct Reporter {
    role: Role,
    to: Sender<Told>,
}

impl Reporter {
    fn tell(&self, text: Option<u64>, report: Report) {
        // Nobody listens after the end.
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
/// [`Error::WebGpuUnavailable`] when the system gives no thread.
pub(super) fn start<T: Instance + 'static>(role: Role, build: Build<T>, reports: &Sender<Told>) -> Result<Thread> {
    let (orders, inbox) = unbounded();
    let (tell, built) = channel();
    let name = match role {
        Role::Server(server) => format!("target {server}"),
        Role::Drafter => "drafter".into(),
    };
    let reporter = Reporter { role, to: reports.clone() };
    let live = move || {
        // Lives longer than the inbox: whoever hears of the end finds that nobody takes orders.
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
