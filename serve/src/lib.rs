//! A server with OpenAI's API for models that foretoken runs. The program `foretoken serve` starts it.

#![forbid(unsafe_code)]

mod access;
mod answers;
mod api_error;
mod calls;
mod chat;
mod choices;
mod completions;
mod embeddings;
mod flags;
mod generating;
mod ids;
mod models;
mod reply;
mod request;
mod scan;
mod server;
mod tools;

pub use flags::ServeFlags;
pub use server::ApiServer;

use foretoken::{Error, LoadOptions, Result};
use serde_json::json;
use std::io::{self, Write};
use tokio::runtime::Builder;
use tokio::signal;

/// Serves until Ctrl-C; a second one ends the requests in progress. Reports the address on stderr, or with `json` as one object on
/// stdout.
///
/// # Errors
/// As [`ApiServer::bind`].
pub fn serve(mut flags: ServeFlags, options: LoadOptions, json: bool) -> Result<()> {
    flags.api_key = flags.api_key.or_else(|| std::env::var("FORETOKEN_API_KEY").ok());
    let failed = |error: io::Error| Error::Internal { reason: format!("no runtime for the server: {error}") };
    let runtime = Builder::new_current_thread().enable_all().build().map_err(failed)?;
    runtime.block_on(async {
        let server = ApiServer::bind(&flags, options)?;
        let address = server.address();
        let url = format!("http://{address}/v1");
        let announced = match json {
            true => writeln!(io::stdout(), "{}", json!({ "url": url })),
            false => writeln!(io::stderr(), "listening on {url}; Ctrl-C ends"),
        };
        if let Err(error) = announced {
            return Err(Error::Internal { reason: format!("the address cannot be printed: {error}") });
        }
        if flags.api_key.is_none() && !address.ip().is_loopback() {
            eprintln!("warning: other machines can use this server without a key; --api-key sets one");
        }
        server.serve(interrupted(), interrupted()).await;
        Ok(())
    })
}

/// Waits for Ctrl-C, or on Unix for the signal that asks a program to end.
async fn interrupted() {
    #[cfg(unix)]
    {
        use std::future::poll_fn;
        use std::task::Poll;
        let kinds = [signal::unix::SignalKind::interrupt(), signal::unix::SignalKind::terminate()];
        // If this fails, the signals end the program, as without a handler.
        let mut signals: Vec<_> = kinds.into_iter().filter_map(|kind| signal::unix::signal(kind).ok()).collect();
        poll_fn(|context| match signals.iter_mut().any(|signal| signal.poll_recv(context).is_ready()) {
            true => Poll::Ready(()),
            false => Poll::Pending,
        })
        .await;
    }
    #[cfg(not(unix))]
    if signal::ctrl_c().await.is_err() {
        std::future::pending::<()>().await;
    }
}

#[cfg(test)]
mod tests;
