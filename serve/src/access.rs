//! Permission to use the server: the names of its host, the origins of pages, and the key.

use crate::api_error::ApiError;
use crate::flags::ServeFlags;
use hyper::header::{AUTHORIZATION, HOST, HeaderValue, ORIGIN};
use hyper::http::uri::Authority;
use hyper::{HeaderMap, StatusCode, Uri};
use std::net::IpAddr;
use subtle::ConstantTimeEq;

/// Rules that each request has to keep.
#[derive(Debug)]
pub(crate) struct Access {
    /// Accepted host names, in lower case.
    hosts: Vec<String>,
    origins: Vec<String>,
    key: Option<String>,
}

impl Access {
    pub fn new(flags: &ServeFlags) -> Self {
        let hosts = ["localhost", "127.0.0.1", "[::1]"].into_iter().map(str::to_owned);
        let named = flags.allowed_host.iter().chain([&flags.host]).map(|host| host.to_ascii_lowercase());
        Self { hosts: hosts.chain(named).collect(), origins: flags.cors_origin.clone(), key: flags.api_key.clone() }
    }

    /// Checks the `Host` header. A page whose name was bound to this address (DNS rebinding) has another one. `local`: address of the
    /// server in this connection.
    ///
    /// # Errors
    /// Status 400 without a host, 403 for another one.
    pub fn check_host(&self, uri: &Uri, headers: &HeaderMap, local: IpAddr) -> Result<(), ApiError> {
        let header = headers.get(HOST).and_then(|host| host.to_str().ok()?.parse::<Authority>().ok());
        let Some(authority) = uri.authority().cloned().or(header) else {
            return Err(ApiError::new(StatusCode::BAD_REQUEST, "bad_host", "the request needs one valid Host header"));
        };
        let host = authority.host().to_ascii_lowercase();
        let literal: Option<IpAddr> = host.trim_matches(['[', ']']).parse().ok();
        if literal == Some(local.to_canonical()) || self.hosts.contains(&host) {
            return Ok(());
        }
        let message = format!("the host {host} is not served here: start the server with --allowed-host {host}");
        Err(ApiError::new(StatusCode::FORBIDDEN, "host_not_allowed", message))
    }

    /// Checks the `Origin` header, which browsers send. Returns the origin of another site that may read the answer.
    ///
    /// # Errors
    /// Status 403 for another origin.
    pub fn check_origin(&self, headers: &HeaderMap) -> Result<Option<HeaderValue>, ApiError> {
        let Some(origin) = headers.get(ORIGIN) else { return Ok(None) };
        let text = origin.to_str().unwrap_or_default();
        if self.origins.iter().any(|allowed| allowed == text) {
            return Ok(Some(origin.clone()));
        }
        let own = headers.get(HOST).and_then(|host| host.to_str().ok());
        if own.is_some_and(|host| text.strip_prefix("http://") == Some(host)) {
            return Ok(None);
        }
        let message = format!("pages of {text} may not use this server: start it with --cors-origin {text}");
        Err(ApiError::new(StatusCode::FORBIDDEN, "origin_not_allowed", message))
    }

    /// Checks the key, in a time that does not depend on its content.
    ///
    /// # Errors
    /// Status 401.
    pub fn check_key(&self, headers: &HeaderMap) -> Result<(), ApiError> {
        let Some(key) = &self.key else { return Ok(()) };
        let given = headers.get(AUTHORIZATION).map(HeaderValue::as_bytes).unwrap_or_default();
        let (scheme, given) = given.split_at(given.len().min(7));
        if scheme.eq_ignore_ascii_case(b"bearer ") && bool::from(given.ct_eq(key.as_bytes())) {
            return Ok(());
        }
        let message = "the key is missing or wrong: send the server's key as Authorization: Bearer KEY";
        Err(ApiError::new(StatusCode::UNAUTHORIZED, "invalid_api_key", message))
    }
}
