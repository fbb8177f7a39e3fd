//! The thread of an instance. Each instance has its own, because the objects of a device cannot be sent to another thread.

use super::instance::ModelInstance;
use super::instance_loop::{Inbox, run_instance};
use super::instances::{Command, NumberedReport, Report, Role};
use crate::error::{Error, Result};
use crate::target::Queue;
use futures_channel::mpsc::{UnboundedSender, unbounded};
use std::future::ready;
use std::rc::Rc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{Builder, JoinHandle, panicking};

/// A function that builds an instance on the calling thread.
pub type Build = Box<dyn Fn() -> Result<Box<dyn Queue>> + Send>;

/// A thread that takes commands until their channel is closed.
pub(super) struct Thread {
    pub commands: UnboundedSender<Command>,
    /// Result of building the instance, sent once.
    pub built: Receiver<Result<()>>,
    pub handle: JoinHandle<()>,
}

/// Sender of a thread's reports. It also reports a panic, or the caller would wait forever.
struct Reporter {
    role: Role,
    to: Sender<NumberedReport>,
}

impl Reporter {
    fn send(&self, text: Option<u64>, report: Report) {
        // At the end there is no receiver left.
        let _ = self.to.send(NumberedReport { text, report });
    }
}

impl Drop for Reporter {
    fn drop(&mut self) {
        if panicking() {
            self.send(None, self.role.gone(Error::Internal { reason: "its driver failed".into() }));
        }
    }
}

/// Starts a thread, which builds its instance and then carries out commands.
///
/// # Errors
/// [`Error::WebGpuUnavailable`] if the system cannot start a thread.
pub(super) fn spawn(role: Role, build: Build, reports: &Sender<NumberedReport>) -> Result<Thread> {
    let (commands, inbox) = unbounded();
    let (started, built) = channel();
    let name = match role {
        Role::Target(server) => format!("target {server}"),
        Role::Drafter => "drafter".into(),
    };
    let reporter = Reporter { role, to: reports.clone() };
    let run = move || {
        // It outlives the inbox: when its last report arrives, commands already fail.
        let reporter = Rc::new(reporter);
        let to = reporter.clone();
        pollster::block_on(async {
            let instance = match build() {
                Ok(instance) => ModelInstance::new(instance, Box::new(move || Box::pin(ready(build())))),
                Err(error) => return drop(started.send(Err(error))),
            };
            let _ = started.send(Ok(()));
            let on_report = Box::new(move |text, report| to.send(Some(text), report));
            run_instance(role, instance, Inbox::new(inbox), on_report).await;
        });
    };
    let spawned = Builder::new().name(name).spawn(run);
    let handle = spawned.map_err(|error| Error::WebGpuUnavailable { reason: format!("no thread: {error}") })?;
    Ok(Thread { commands, built, handle })
}
