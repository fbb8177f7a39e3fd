//! HTTP as the Hub and servers of models share it.

#[cfg(any(feature = "hub", feature = "remote"))]
pub use self::native::{agent, header, retry_after};

/// Returns true for a status that a retry may change.
pub fn is_transient(status: u16) -> bool {
    // 501 and 505 say that the server lacks what the request needs.
    matches!(status, 408 | 425 | 429 | 500 | 502..=504 | 506..)
}

#[cfg(any(feature = "hub", feature = "remote"))]
mod native {
    use std::time::{Duration, SystemTime};
    use ureq::config::ConfigBuilder;
    use ureq::http::HeaderMap;
    use ureq::typestate::AgentScope;
    use ureq::{Agent, http};

    /// Returns the configuration of an agent. It follows no redirects, because they could send a key elsewhere, and returns answers of
    /// every status.
    pub fn agent(connecting: Duration) -> ConfigBuilder<AgentScope> {
        Agent::config_builder()
            .user_agent(concat!("foretoken/", env!("CARGO_PKG_VERSION")))
            .http_status_as_error(false)
            .max_redirects(0)
            .timeout_connect(Some(connecting))
    }

    /// Returns a header's text.
    pub fn header(headers: &HeaderMap, name: impl http::header::AsHeaderName) -> Option<&str> {
        headers.get(name)?.to_str().ok().map(str::trim)
    }

    /// Returns the wait that `Retry-After` requests, in seconds or until a date.
    pub fn retry_after(headers: &HeaderMap) -> Option<Duration> {
        let value = header(headers, "retry-after")?;
        let seconds = value.parse().ok().map(|seconds: u32| Duration::from_secs(seconds.into()));
        // A date in the past means no wait.
        let until = |date: SystemTime| date.duration_since(SystemTime::now()).unwrap_or_default();
        seconds.or_else(|| httpdate::parse_http_date(value).ok().map(until))
    }
}
