//! Addresses and credentials of servers.

use crate::error::{Error, Result};
use std::fmt;

/// API key of a server. It is never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Key(String);

impl Key {
    /// Checks that a key can be sent in a header.
    ///
    /// # Errors
    /// [`Error::BadOption`], which does not quote the key.
    pub fn new(key: &str) -> Result<Self> {
        let key = key.trim();
        if key.is_empty() || !key.bytes().all(|byte| byte.is_ascii_graphic()) {
            let allowed = "visible ASCII characters, without a space".into();
            return Err(Error::BadOption { option: "api_key".into(), value: "what was given".into(), allowed });
        }
        Ok(Self(key.into()))
    }

    /// Returns the key itself.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("Key(..)")
    }
}

/// A target on one server, or on several equal ones.
#[derive(Debug, Clone)]
pub struct Endpoint {
    /// Addresses: `http://host:port` or `https://host/path`. The first one is used; after a failure the next one.
    pub urls: Vec<String>,
    /// Name of the model on the servers.
    pub model: String,
    /// API key, sent only to these servers.
    pub api_key: Option<Key>,
    /// Seconds without a byte after which a request fails.
    pub timeout: f64,
    /// Seconds for which failing servers are retried before a text ends with an error.
    pub patience: f64,
}

impl Endpoint {
    /// Creates an endpoint with the defaults: 120 s each for `timeout` and `patience`.
    ///
    /// # Errors
    /// [`Error::BadOption`] if an address is invalid, or has a user or a query.
    pub fn new(urls: impl IntoIterator<Item = impl AsRef<str>>, model: impl Into<String>) -> Result<Self> {
        let urls = urls.into_iter().map(|url| checked(url.as_ref())).collect::<Result<Vec<_>>>()?;
        let model = model.into();
        if urls.is_empty() || model.is_empty() {
            let (option, allowed) = match urls.is_empty() {
                true => ("target_url", "the address of one server or more"),
                false => ("target_model", "the name under which the server has the model"),
            };
            let (value, allowed) = ("nothing".into(), allowed.into());
            return Err(Error::BadOption { option: option.into(), value, allowed });
        }
        Ok(Self { urls, model, api_key: None, timeout: 120.0, patience: 120.0 })
    }
}

/// Returns an address to which paths can be appended. OpenAI clients use addresses that end in `/v1`; this suffix is removed.
fn checked(url: &str) -> Result<String> {
    let trimmed = url.trim().trim_end_matches('/');
    let rest = ["http://", "https://"].iter().find_map(|scheme| trimmed.strip_prefix(scheme));
    let authority = rest.and_then(|rest| rest.split('/').next()).unwrap_or_default();
    let is_odd = |byte: u8| !byte.is_ascii_graphic() || b"?#\\".contains(&byte);
    if authority.is_empty() || authority.contains('@') || trimmed.bytes().any(is_odd) {
        // Do not repeat a possible password.
        let value = url.split(['?', '#']).next().unwrap_or_default().rsplit('@').next().unwrap_or_default().into();
        let allowed = "http://host:port or https://host/path, without a user and a query".into();
        return Err(Error::BadOption { option: "target_url".into(), value, allowed });
    }
    Ok(trimmed.strip_suffix("/v1").unwrap_or(trimmed).to_owned())
}
