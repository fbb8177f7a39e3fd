//! Answers of the server: JSON, and streams of server-sent events.

use crate::api_error::ApiError;
use hyper::body::{Body, Bytes, Frame};
use hyper::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use hyper::{HeaderMap, Response, StatusCode};
use serde_json::Value;
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::time::timeout;

/// Work that fills a stream.
type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Body of an answer.
pub(crate) enum ReplyBody {
    /// A complete text; `None`: it was sent.
    Whole(Option<Bytes>),
    /// A stream. Dropping it drops the work, which cancels generations.
    Stream { events: Receiver<Bytes>, work: Option<Work> },
}

impl Body for ReplyBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match &mut *self {
            Self::Whole(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Self::Stream { events, work } => {
                if let Some(working) = work
                    && working.as_mut().poll(context).is_ready()
                {
                    *work = None;
                }
                events.poll_recv(context).map(|event| event.map(|bytes| Ok(Frame::data(bytes))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Self::Whole(None))
    }

    fn size_hint(&self) -> hyper::body::SizeHint {
        match self {
            Self::Whole(bytes) => {
                hyper::body::SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64))
            }
            Self::Stream { .. } => hyper::body::SizeHint::default(),
        }
    }
}

/// An answer to a request.
pub(crate) type ApiResponse = Response<ReplyBody>;

fn response(status: StatusCode, kind: &'static str, body: ReplyBody) -> ApiResponse {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// Returns an answer with JSON.
pub(crate) fn json(status: StatusCode, value: &Value) -> ApiResponse {
    response(status, "application/json", ReplyBody::Whole(Some(value.to_string().into())))
}

/// Returns an answer without a body.
pub(crate) fn empty(status: StatusCode) -> ApiResponse {
    let mut response = Response::new(ReplyBody::Whole(None));
    *response.status_mut() = status;
    response
}

/// Returns an error as an answer.
pub(crate) fn failed(error: &ApiError) -> ApiResponse {
    let mut response = json(error.status, &error.to_json());
    let headers: &mut HeaderMap = response.headers_mut();
    if let Some(seconds) = error.retry_after {
        headers.insert(RETRY_AFTER, seconds.into());
    }
    if error.status == StatusCode::UNAUTHORIZED {
        headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    response
}

/// Returns the answer to a method that a path does not have.
pub(crate) fn not_allowed(allowed: &'static str) -> ApiResponse {
    let message = format!("this path has the methods {allowed}");
    let mut response = failed(&ApiError::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", message));
    response.headers_mut().insert(ALLOW, HeaderValue::from_static(allowed));
    response
}

/// Sender of server-sent events.
pub(crate) struct EventSender {
    sender: Sender<Bytes>,
    /// Time in which the client must read an event.
    patience: Duration,
}

/// The client is gone, or has not read for too long.
pub(crate) struct ClientGone;

impl EventSender {
    async fn send_text(&self, text: String) -> Result<(), ClientGone> {
        let sent = timeout(self.patience, self.sender.send(text.into())).await;
        sent.ok().and_then(Result::ok).ok_or(ClientGone)
    }

    /// Sends a value as an event.
    pub async fn send(&self, value: &Value) -> Result<(), ClientGone> {
        self.send_text(format!("data: {value}\n\n")).await
    }

    /// Sends the event that ends a stream.
    pub async fn finish(&self) -> Result<(), ClientGone> {
        self.send_text("data: [DONE]\n\n".into()).await
    }
}

/// Returns an answer that streams the events of `work`.
pub(crate) fn stream<F>(patience: Duration, work: impl FnOnce(EventSender) -> F) -> ApiResponse
where
    F: Future<Output = Result<(), ClientGone>> + Send + 'static,
{
    let (sender, events) = channel(1);
    let work = work(EventSender { sender, patience });
    let work: Work = Box::pin(async move { drop(work.await) });
    response(StatusCode::OK, "text/event-stream", ReplyBody::Stream { events, work: Some(work) })
}
