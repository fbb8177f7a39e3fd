//! Requests to a Hub: redirects (only the Hub gets the token), retries, and explanations of refusals.

use super::id::HubId;
use super::settings::Settings;
use crate::cancel::CancelToken;
use crate::error::{Error, Result};
use crate::http::{agent, header, is_transient, retry_after};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use std::thread::sleep;
use std::time::{Duration, Instant};
use ureq::http::{HeaderMap, Response, Uri};
use ureq::{Agent, Body};

/// Time without a response or without a byte after which a request counts as failed.
const SILENCE: Duration = Duration::from_secs(30);
/// Seconds between retries.
const PAUSES: [u64; 5] = [1, 2, 4, 8, 16];
/// Retries if the server has never responded: the address is probably wrong.
const FEW_PAUSES: usize = 2;
/// Time between two looks at the token.
const GLANCE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(300);
const MOST_REDIRECTS: usize = 8;

const PART: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');
const PATH: &AsciiSet = &PART.remove(b'/');

/// A transient failure, unlike an [`Error`].
pub(super) struct TransientError {
    pub reason: String,
    /// True if the server responded.
    pub answered: bool,
    /// Pause that the server requests.
    pub after: Option<Duration>,
    /// True if new bytes arrived before the failure.
    pub progress: bool,
}

impl TransientError {
    pub fn new(reason: impl ToString) -> Self {
        Self { reason: reason.to_string(), answered: false, after: None, progress: false }
    }
}

/// A failed attempt, transient or permanent.
pub(super) enum HubFailure {
    Transient(TransientError),
    Permanent(Error),
}

impl From<TransientError> for HubFailure {
    fn from(failure: TransientError) -> Self {
        Self::Transient(failure)
    }
}

impl From<Error> for HubFailure {
    fn from(error: Error) -> Self {
        Self::Permanent(error)
    }
}

/// HTTP client of one Hub.
#[derive(Debug, Clone)]
pub(super) struct HubClient {
    agent: Agent,
    endpoint: String,
    authorization: Option<String>,
    /// Token that ends requests.
    pub cancel: CancelToken,
}

impl HubClient {
    pub fn new(settings: &Settings) -> Result<Self> {
        let endpoint = settings.endpoint.trim_end_matches('/').to_owned();
        if origin(&endpoint).is_none() {
            let allowed = "an address such as https://huggingface.co".into();
            return Err(Error::BadOption { option: "HF_ENDPOINT".into(), value: endpoint, allowed });
        }
        let config = agent(SILENCE).timeout_recv_response(Some(SILENCE)).timeout_per_read(Some(SILENCE));
        let authorization = settings.token.as_ref().map(|token| format!("Bearer {token}"));
        Ok(Self { agent: config.build().into(), endpoint, authorization, cancel: CancelToken::default() })
    }

    /// Returns the URL of a file.
    pub fn address(&self, id: &HubId, commit: &str, file: &str) -> String {
        format!("{}/{}/resolve/{commit}/{}", self.endpoint, id.repository, utf8_percent_encode(file, PATH))
    }

    /// Returns the URL of a repository's description.
    pub fn listing_address(&self, id: &HubId) -> String {
        let revision = utf8_percent_encode(id.revision(), PART);
        format!("{}/api/models/{}/revision/{revision}?blobs=true", self.endpoint, id.repository)
    }

    /// Fetches a whole response of at most `limit` bytes.
    pub fn get_small(&self, id: &HubId, url: &str, limit: u64) -> Result<Vec<u8>> {
        self.retry(url, || {
            let (mut response, _) = self.get(id, url, None)?;
            Ok(response.body_mut().with_config().limit(limit).read_to_vec().map_err(TransientError::new)?)
        })
    }

    /// Requests a file, or its bytes `start..end`. Returns the response and the offset of its first byte; `None`: it is the whole file.
    pub fn get(
        &self,
        id: &HubId,
        url: &str,
        range: Option<(u64, u64)>,
    ) -> Result<(Response<Body>, Option<u64>), HubFailure> {
        let mut at = url.to_owned();
        for _ in 0..MOST_REDIRECTS {
            let mut request = self.agent.get(&at);
            let of_hub = origin(&at) == origin(&self.endpoint);
            // The Hub redirects to signed URLs of other servers, which must not get the token.
            if let Some(authorization) = self.authorization.as_ref().filter(|_| of_hub) {
                request = request.header("Authorization", authorization);
            }
            if let Some((start, end)) = range {
                request = request.header("Range", format!("bytes={start}-{}", end.saturating_sub(1)));
            }
            let response = request.call().map_err(TransientError::new)?;
            let status = response.status().as_u16();
            match (status, header(response.headers(), "location")) {
                (206, _) => {
                    let said = header(response.headers(), "content-range");
                    let start =
                        said.and_then(|said| said.strip_prefix("bytes ")?.split('-').next()?.trim().parse().ok());
                    // Some servers omit the range. Then the digest detects errors.
                    let start = start.or(range.map(|(start, _)| start));
                    return Ok((response, start));
                }
                (200..=299, _) => return Ok((response, None)),
                (301..=308, Some(to)) => {
                    at = joined(&at, to)
                        .ok_or_else(|| TransientError::new(format!("a redirect to {:?}", without_query(to))))?
                }
                (401 | 403 | 404, _) if of_hub => return Err(self.denied(id, status, response.headers()).into()),
                _ => return Err(refused(url, status, response.headers())),
            }
        }
        Err(TransientError::new("it redirects more than 8 times").into())
    }

    /// Explains why the Hub refuses, and what to do.
    fn denied(&self, id: &HubId, status: u16, headers: &HeaderMap) -> Error {
        let (repository, page) = (&id.repository, format!("{}/{}", self.endpoint, id.repository));
        let sign_in = match self.authorization {
            Some(_) => "check that the account of HF_TOKEN, or of `hf auth login`, may read it",
            None => "set HF_TOKEN to a token of an account that may read it, or run `hf auth login`",
        };
        let reason = match header(headers, "x-error-code") {
            Some("GatedRepo") => format!("it is gated: accept its conditions at {page}, then {sign_in}"),
            Some("RevisionNotFound") => {
                format!("{repository} has no branch, tag or commit {}: see {page}/tree/main", id.revision())
            }
            Some("EntryNotFound") => format!("{repository} has no such file: {page}/tree/{} lists them", id.revision()),
            _ => {
                format!("{page} does not exist ({status}), or is private: check the name; if it is private, {sign_in}")
            }
        };
        Error::NotFound { path: id.to_string(), reason }
    }

    /// Waits, unless the token is cancelled.
    fn pause(&self, pause: Duration) -> Result<()> {
        let end = Instant::now() + pause;
        while let Some(left) = end.checked_duration_since(Instant::now()) {
            self.cancel.check()?;
            sleep(left.min(GLANCE));
        }
        Ok(())
    }

    /// Retries until `attempt` succeeds, fails permanently, or fails too often without new bytes.
    pub fn retry<T>(&self, url: &str, mut attempt: impl FnMut() -> Result<T, HubFailure>) -> Result<T> {
        let (mut tries, mut answered) = (0, false);
        loop {
            self.cancel.check()?;
            let failure = match attempt() {
                Ok(done) => return Ok(done),
                Err(HubFailure::Permanent(error)) => return Err(error),
                Err(HubFailure::Transient(failure)) => failure,
            };
            answered |= failure.answered || failure.progress;
            tries = if failure.progress { 1 } else { tries + 1 };
            let (url, reason) = (without_query(url), failure.reason);
            if let Some(after) = failure.after.filter(|after| *after > LONGEST_PAUSE) {
                return Err(Error::Network {
                    url,
                    reason: format!("{reason} and allows a retry only in {} s", after.as_secs()),
                });
            }
            let pauses = if answered { PAUSES.len() } else { FEW_PAUSES };
            let Some(pause) = PAUSES.get(tries - 1).filter(|_| tries <= pauses) else {
                let advice =
                    "check the connection and HF_ENDPOINT, then try again: the download continues where it stopped";
                return Err(Error::Network { url, reason: format!("{reason}, {tries} times in a row: {advice}") });
            };
            self.pause(failure.after.unwrap_or(Duration::from_secs(*pause)))?;
        }
    }
}

/// Returns the failure for a response without content.
fn refused(url: &str, status: u16, headers: &HeaderMap) -> HubFailure {
    let reason = format!("the server answered {status}");
    // The signature of a redirect's URL may have expired.
    if matches!(status, 401 | 403) || is_transient(status) {
        let after = retry_after(headers);
        return TransientError { answered: true, after, ..TransientError::new(reason) }.into();
    }
    Error::Network { url: without_query(url), reason }.into()
}

/// Returns a URL for display, without the query, which may hold signatures.
pub(super) fn without_query(url: &str) -> String {
    url.split('?').next().unwrap_or_default().to_owned()
}

/// Returns the scheme and the host with its port.
fn origin(url: &str) -> Option<(String, String)> {
    let uri: Uri = url.parse().ok()?;
    let scheme = uri.scheme_str().filter(|scheme| ["http", "https"].contains(scheme))?;
    Some((scheme.to_owned(), uri.authority()?.to_string().to_ascii_lowercase()))
}

/// Resolves the target of a redirect.
fn joined(from: &str, to: &str) -> Option<String> {
    let (scheme, authority) = origin(from)?;
    let to = match to {
        absolute if absolute.contains("://") => absolute.to_owned(),
        elsewhere if elsewhere.starts_with("//") => format!("{scheme}:{elsewhere}"),
        path if path.starts_with('/') => format!("{scheme}://{authority}{path}"),
        _ => return None,
    };
    origin(&to).map(|_| to)
}
