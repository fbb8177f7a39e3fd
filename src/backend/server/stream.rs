//! Token streams of servers.

use super::dialect::Dialect;
use super::events::Events;
use super::transport::{Incoming, Piece};
use std::collections::VecDeque;

/// A stream of tokens from a server. Dropping it aborts the request.
pub(super) struct Stream {
    dialect: Dialect,
    incoming: Box<dyn Incoming>,
    events: Events,
    fresh: VecDeque<u32>,
    seen: usize,
    ended: bool,
}

impl Stream {
    /// Wraps the answer to a [`Dialect::continuation`].
    pub fn new(dialect: Dialect, incoming: Box<dyn Incoming>) -> Self {
        Self { dialect, incoming, events: Events::default(), fresh: VecDeque::new(), seen: 0, ended: false }
    }

    /// Returns the next token. `None`: the stream has ended or failed, and the caller must send a new request.
    pub async fn next(&mut self) -> Option<u32> {
        loop {
            if let Some(id) = self.fresh.pop_front() {
                self.seen += 1;
                return Some(id);
            }
            if self.ended {
                return None;
            }
            let bytes = match self.incoming.next().await {
                Ok(Some(Piece::Bytes(bytes))) => bytes,
                Ok(Some(Piece::Head { status: 200, .. })) => continue,
                _ => Vec::new(),
            };
            self.ended = bytes.is_empty();
            for event in self.events.push(&bytes).unwrap_or_else(|_| vec!["[DONE]".into()]) {
                match self.dialect.fresh(&event, self.seen + self.fresh.len()) {
                    Ok(Some(ids)) => self.fresh.extend(ids),
                    _ => self.ended = true,
                }
            }
        }
    }
}
