//! Errors in OpenAI's form, with their HTTP status.

use foretoken::Error;
use hyper::StatusCode;
use serde_json::{Value, json};
use std::borrow::Cow;

/// Seconds after which a client may try again.
const RETRY_AFTER: u32 = 1;

/// An error answer.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ApiError {
    pub status: StatusCode,
    /// Message, which says what is wrong and what to do.
    pub message: String,
    /// Field of the request that is wrong.
    pub param: Option<String>,
    /// Code for programs.
    pub code: Cow<'static, str>,
    /// Seconds after which a client may try again.
    pub retry_after: Option<u32>,
}

impl ApiError {
    pub fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self { status, message: message.into(), param: None, code: code.into(), retry_after: None }
    }

    /// Returns the error of a request that names an unknown model.
    pub fn unknown_model(id: &str, known: &[&str]) -> Self {
        let message = format!("the model {id:?} is not served here; served: {}", known.join(", "));
        Self { param: Some("model".into()), ..Self::new(StatusCode::NOT_FOUND, "model_not_found", message) }
    }

    /// Returns the error of a request that finds the queue full.
    pub fn queue_full(id: &str, most: usize) -> Self {
        let message = format!("{most} requests for {id} are in progress or wait; try again later (--max-queue)");
        let retry_after = Some(RETRY_AFTER);
        Self { retry_after, ..Self::new(StatusCode::TOO_MANY_REQUESTS, "rate_limit_exceeded", message) }
    }

    /// Returns the error of a request that is not JSON as this server reads it.
    pub fn bad_json(reason: impl std::fmt::Display) -> Self {
        Self::new(
            StatusCode::BAD_REQUEST,
            "invalid_json",
            format!("the body has to be a JSON object in UTF-8: {reason}"),
        )
    }

    /// Returns OpenAI's type of the error.
    fn kind(&self) -> &'static str {
        match self.status.as_u16() {
            401 => "authentication_error",
            403 => "permission_error",
            429 => "rate_limit_error",
            500.. => "server_error",
            _ => "invalid_request_error",
        }
    }

    /// Returns the body of the answer.
    pub fn to_json(&self) -> Value {
        json!({ "error": { "message": self.message, "type": self.kind(), "param": self.param, "code": self.code } })
    }
}

impl From<Error> for ApiError {
    fn from(error: Error) -> Self {
        let status = match &error {
            Error::BadOption { .. } | Error::ContextFull { .. } => StatusCode::BAD_REQUEST,
            Error::BadTemplate { .. } => StatusCode::UNPROCESSABLE_ENTITY,
            Error::Aborted { .. } | Error::Overloaded { .. } | Error::OutOfGpuMemory { .. } => {
                StatusCode::SERVICE_UNAVAILABLE
            }
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        };
        let code = match &error {
            Error::ContextFull { .. } => "context_length_exceeded",
            other => other.code(),
        };
        let param = match &error {
            Error::BadOption { option, .. } => Some(option.to_string()),
            Error::ContextFull { .. } => Some("messages".into()),
            _ => None,
        };
        let is_passing = matches!(error, Error::Aborted { .. } | Error::Overloaded { .. });
        let retry_after = is_passing.then_some(RETRY_AFTER);
        Self { status, message: error.to_string(), param, code: code.into(), retry_after }
    }
}

/// Returns the error of an option that a request sets.
pub(crate) fn bad_option(option: &'static str, value: impl ToString, allowed: impl Into<String>) -> Error {
    Error::BadOption { option: option.into(), value: value.to_string(), allowed: allowed.into() }
}
