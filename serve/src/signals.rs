//! Signals that end the server.

use std::io;
use tokio::sync::watch::{self, Receiver};

#[cfg(unix)]
use tokio::signal::unix::{Signal, SignalKind, signal};
#[cfg(windows)]
use tokio::signal::windows::{CtrlC, ctrl_c};

/// Counts the signals that arrive from now on. Requires a runtime of tokio.
pub fn count() -> io::Result<Receiver<usize>> {
    let (counter, count) = watch::channel(0);
    for mut signals in listen()? {
        let counter = counter.clone();
        tokio::spawn(async move {
            while signals.recv().await.is_some() {
                counter.send_modify(|count| *count += 1);
            }
        });
    }
    Ok(count)
}

/// Listens to Ctrl-C, and to SIGTERM, which service managers send.
#[cfg(unix)]
fn listen() -> io::Result<[Signal; 2]> {
    Ok([signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?])
}

/// Listens to Ctrl-C.
#[cfg(windows)]
fn listen() -> io::Result<[CtrlC; 1]> {
    Ok([ctrl_c()?])
}
