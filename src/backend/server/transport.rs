//! The interface for requests to servers, implemented separately for native programs and pages.

use super::endpoint::Key;
use std::pin::Pin;

/// A future that need not be `Send`.
pub type Later<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;

/// A request to a server.
#[derive(Debug, Clone)]
pub struct Request {
    /// The address. Redirects are not followed, because they would send the key elsewhere.
    pub url: String,
    /// Key for the header `Authorization`.
    pub key: Option<Key>,
    /// JSON to post. `None`: a GET request.
    pub body: Option<String>,
    /// Seconds without a byte after which the request fails.
    pub timeout: f64,
}

/// A part of an answer.
#[derive(Debug, Clone, PartialEq)]
pub enum Piece {
    /// Status and headers, which come first.
    Head {
        /// HTTP status.
        status: u16,
        /// Seconds after which to retry, if the server gives them.
        retry_after: Option<f64>,
    },
    /// Part of the body, of any length.
    Bytes(Vec<u8>),
}

/// An answer in flight. Dropping it aborts the request, and closes its connection if it has not ended.
pub trait Incoming {
    /// Returns the next piece. `None`: the end. Fails with a message for users.
    fn next(&mut self) -> Later<'_, Result<Option<Piece>, String>>;
}

/// A sender of requests.
pub trait Transport {
    /// Sends a request at once.
    fn send(&self, request: Request) -> Box<dyn Incoming>;

    /// Waits. With 0 seconds: only lets pending events be handled.
    fn pause(&self, seconds: f64) -> Later<'_, ()>;
}
