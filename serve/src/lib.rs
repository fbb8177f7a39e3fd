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
mod signals;
mod tools;

pub use flags::ServeFlags;
pub use server::ApiServer;

use foretoken::{Error, LoadOptions, Result};
use serde_json::json;
use std::io::{self, Write};
use tokio::runtime::Builder;

/// Serves until Ctrl-C or SIGTERM; a second one ends the requests in progress. Reports the address on stderr, or with `json` as one
/// object on stdout.
///
/// # Errors
/// As [`ApiServer::bind`].
pub fn serve(flags: &ServeFlags, options: LoadOptions, json: bool) -> Result<()> {
    let mut flags = flags.clone();
    flags.api_key = flags.api_key.or_else(|| std::env::var("FORETOKEN_API_KEY").ok());
    let failed = |error: io::Error| Error::Internal { reason: format!("no runtime for the server: {error}") };
    let runtime = Builder::new_current_thread().enable_all().build().map_err(failed)?;
    runtime.block_on(async {
        let server = ApiServer::bind(&flags, options)?;
        // Signals count from here on: a program that reads the address may send one.
        let count = signals::count()
            .map_err(|error| Error::Internal { reason: format!("Ctrl-C and SIGTERM cannot be handled: {error}") })?;
        let address = server.address();
        let url = format!("http://{address}/v1");
        if json {
            let failed = |error| Error::Internal { reason: format!("the address cannot be printed: {error}") };
            writeln!(io::stdout(), "{}", json!({ "url": url })).map_err(failed)?;
        } else {
            note(&format!("listening on {url}; Ctrl-C ends"));
        }
        if flags.api_key.is_none() && !address.ip().is_loopback() {
            note("warning: other machines can use this server without a key; --api-key sets one");
        }
        let interrupted = |least| {
            let mut count = count.clone();
            async move { drop(count.wait_for(|count| *count >= least).await) }
        };
        server.serve(interrupted(1), interrupted(2)).await;
        Ok(())
    })
}

/// Prints a line to stderr.
fn note(text: &str) {
    // Nothing can be reported if this fails.
    let _ = writeln!(io::stderr(), "{text}");
}

#[cfg(test)]
mod tests;
