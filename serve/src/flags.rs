//! Command-line flags of the server.

use clap::Args;
use foretoken::{Error, Result};

/// Options of the server.
#[derive(Args, Debug, Clone)]
pub struct ServeFlags {
    /// Model to serve: owner/name or owner/name:FILE on the Hub, a folder, or a GGUF file. A request without a model uses the first one
    /// [may be repeated]
    #[arg(long, value_name = "MODEL", required = true)]
    pub model: Vec<String>,
    /// Draft model of the --model at the same position, same syntax; none: no draft model [may be repeated]
    #[arg(long, value_name = "MODEL")]
    pub assistant_model: Vec<String>,
    /// Maximum bytes of all loaded models. A load that would exceed it first frees the least recently used models [default: no limit]
    #[arg(long, value_name = "N")]
    pub memory_budget: Option<u64>,
    /// Maximum bytes of cached keys and values of earlier conversations, for each model; 0: none [default: 268435456]
    #[arg(long, value_name = "N")]
    pub prompt_cache_bytes: Option<u64>,
    /// Address to listen on
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1")]
    pub host: String,
    /// Port to listen on; 0: a free one
    #[arg(long, value_name = "N", default_value_t = 8080)]
    pub port: u16,
    /// Key that requests must have; FORETOKEN_API_KEY sets it too [default: none is required]
    #[arg(long, value_name = "KEY")]
    pub api_key: Option<String>,
    /// Origin (scheme://host, or scheme://host:port) whose pages may use the server [may be repeated]
    #[arg(long, value_name = "ORIGIN")]
    pub cors_origin: Vec<String>,
    /// Name in the Host header that is accepted, in addition to localhost and the address of the server [may be repeated]
    #[arg(long, value_name = "NAME")]
    pub allowed_host: Vec<String>,
    /// Requests for one model that may be in progress or wait; further ones are refused with status 429
    #[arg(long, value_name = "N", default_value_t = 32)]
    pub max_queue: usize,
    /// Maximum bytes of a request
    #[arg(long, value_name = "N", default_value_t = 16 << 20)]
    pub max_request_bytes: usize,
    /// Seconds in which a client must send the head of a request, then its body, and read each part of the answer
    #[arg(long, value_name = "N", default_value_t = 30)]
    pub client_timeout: u64,
}

/// Flag value for a model without a draft model.
const NO_ASSISTANT: &str = "none";

impl ServeFlags {
    /// Returns the draft model of the model at `index`.
    pub(crate) fn assistant(&self, index: usize) -> Option<String> {
        self.assistant_model.get(index).filter(|name| *name != NO_ASSISTANT).cloned()
    }

    /// Checks the flags.
    ///
    /// # Errors
    /// [`Error::BadOption`].
    pub(crate) fn validate(&self) -> Result<()> {
        let bad = |option: &'static str, value: &dyn ToString, allowed: &str| {
            Err(Error::BadOption { option: option.into(), value: value.to_string(), allowed: allowed.into() })
        };
        if self.assistant_model.len() > self.model.len() {
            return bad("assistant_model", &self.assistant_model.len(), "at most one for each --model");
        }
        if let Some(origin) = self.cors_origin.iter().find(|origin| !is_origin(origin)) {
            return bad("cors_origin", origin, "scheme://host or scheme://host:port, without a path");
        }
        if let Some(host) = self.allowed_host.iter().find(|host| host.is_empty() || host.contains(['/', ' ', '@'])) {
            return bad("allowed_host", host, "a host name, without a scheme and a port");
        }
        if self.max_queue == 0 || self.max_queue > MAX_QUEUE {
            return bad("max_queue", &self.max_queue, &format!("1 to {MAX_QUEUE}"));
        }
        if self.client_timeout == 0 || self.client_timeout > MAX_TIMEOUT {
            return bad("client_timeout", &self.client_timeout, &format!("1 to {MAX_TIMEOUT}"));
        }
        let is_text = |key: &String| !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_graphic());
        if self.api_key.as_ref().is_some_and(|key| !is_text(key)) {
            return bad("api_key", &"the given one", "ASCII letters, digits and signs, without spaces");
        }
        Ok(())
    }
}

const MAX_QUEUE: usize = 10_000;
/// One day in seconds.
const MAX_TIMEOUT: u64 = 86_400;

fn is_origin(origin: &str) -> bool {
    let Some((scheme, host)) = origin.split_once("://") else { return false };
    let is_scheme = !scheme.is_empty() && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    is_scheme && !host.is_empty() && host.bytes().all(|byte| byte.is_ascii_graphic() && !b"/*?#@".contains(&byte))
}
