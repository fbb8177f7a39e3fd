//! How requests reach a server: natively and in a page by other means.

use super::Key;
use std::pin::Pin;

/// Something that is waited for.
pub type Later<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;

/// What is asked of a server.
#[derive(Debug, Clone)]
pub struct Request {
    /// Where. Who sends it follows no redirect, which would take the key elsewhere.
    pub url: String,
    /// Goes into the header `Authorization`.
    pub key: Option<Key>,
    /// JSON to post; none: it is only asked for what is there.
    pub body: Option<String>,
    /// Seconds without a byte, after which it counts as failed.
    pub timeout: f64,
}

/// A part of an answer.
#[derive(Debug, Clone, PartialEq)]
pub enum Piece {
    /// Comes first.
    Head {
        /// As in HTTP.
        status: u16,
        /// Seconds after which the server wants to be asked again.
        retry_after: Option<f64>,
    },
    /// What follows, in pieces of any length.
    Bytes(Vec<u8>),
}

/// An answer on its way. Dropping it breaks the request off, and closes its connection where it has not ended.
pub trait Incoming {
    /// The next piece; none at the end. Fails with the reason, in words.
    fn next(&mut self) -> Later<'_, Result<Option<Piece>, String>>;
}

/// Sends requests.
pub trait Transport {
    /// Sends one, at once.
    fn send(&self, request: Request) -> Box<dyn Incoming>;

    /// Waits; no seconds: only until what has come meanwhile was let in.
    fn pause(&self, seconds: f64) -> Later<'_, ()>;
}
