//! Requests to a Hub: redirects, with the token for the Hub alone; patience with a server in trouble; refusals in words.

use super::id::HubId;
use super::settings::Settings;
use crate::error::{Error, Result};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use std::thread::sleep;
use std::time::{Duration, SystemTime};
use ureq::http::{HeaderMap, Response, Uri};
use ureq::{Agent, Body};

/// Without a byte, or without an answer: then a request counts as cut.
const SILENCE: Duration = Duration::from_secs(30);
/// Seconds between one try and the next.
const PAUSES: [u64; 5] = [1, 2, 4, 8, 16];
/// Pauses where nobody ever answered: an address is more likely to be wrong than a server to come back.
const FEW_PAUSES: usize = 2;
/// What a server may ask for instead, at most.
const LONGEST_PAUSE: Duration = Duration::from_secs(300);
const MOST_REDIRECTS: usize = 8;

const PART: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');
const PATH: &AsciiSet = &PART.remove(b'/');

/// What may go over by itself, unlike an [`Error`].
pub(super) struct Trouble {
    pub reason: String,
    /// Whether the server answered at all.
    pub answered: bool,
    /// How long it wants to be left alone.
    pub after: Option<Duration>,
    /// Whether something new came all the same.
    pub progress: bool,
}

impl Trouble {
    pub fn new(reason: impl ToString) -> Self {
        Self { reason: reason.to_string(), answered: false, after: None, progress: false }
    }
}

/// A try that failed: for good, or perhaps not.
pub(super) enum Failed {
    Passing(Trouble),
    Finally(Error),
}

impl From<Trouble> for Failed {
    fn from(trouble: Trouble) -> Self {
        Self::Passing(trouble)
    }
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        Self::Finally(error)
    }
}

/// Asks one Hub.
#[derive(Debug, Clone)]
pub(super) struct Client {
    agent: Agent,
    endpoint: String,
    authorization: Option<String>,
}

impl Client {
    pub fn new(settings: &Settings) -> Result<Self> {
        let endpoint = settings.endpoint.trim_end_matches('/').to_owned();
        if origin(&endpoint).is_none() {
            let allowed = "an address such as https://huggingface.co".into();
            return Err(Error::BadOption { option: "HF_ENDPOINT".into(), value: endpoint, allowed });
        }
        let config = Agent::config_builder()
            .user_agent(concat!("foretoken/", env!("CARGO_PKG_VERSION")))
            .http_status_as_error(false)
            .max_redirects(0)
            .timeout_connect(Some(SILENCE))
            .timeout_recv_response(Some(SILENCE))
            .timeout_per_read(Some(SILENCE));
        let authorization = settings.token.as_ref().map(|token| format!("Bearer {token}"));
        Ok(Self { agent: config.build().into(), endpoint, authorization })
    }

    /// Where a file is.
    pub fn address(&self, id: &HubId, commit: &str, file: &str) -> String {
        format!("{}/{}/resolve/{commit}/{}", self.endpoint, id.repository, utf8_percent_encode(file, PATH))
    }

    /// Where a repository is described.
    pub fn listing_address(&self, id: &HubId) -> String {
        let revision = utf8_percent_encode(id.revision(), PART);
        format!("{}/api/models/{}/revision/{revision}?blobs=true", self.endpoint, id.repository)
    }

    /// A whole answer of at most `limit` bytes.
    pub fn get_small(&self, id: &HubId, url: &str, limit: u64) -> Result<Vec<u8>> {
        self.patiently(url, || {
            let (mut response, _) = self.get(id, url, None)?;
            Ok(response.body_mut().with_config().limit(limit).read_to_vec().map_err(Trouble::new)?)
        })
    }

    /// Asks for a file, or for a part of it, `start..end`. With the answer comes where it begins, unless it is the whole file.
    pub fn get(
        &self,
        id: &HubId,
        url: &str,
        range: Option<(u64, u64)>,
    ) -> Result<(Response<Body>, Option<u64>), Failed> {
        let mut at = url.to_owned();
        for _ in 0..MOST_REDIRECTS {
            let mut request = self.agent.get(&at);
            let of_hub = origin(&at) == origin(&self.endpoint);
            // Where the Hub redirects to, the address is signed: the token is none of that server's business.
            if let Some(authorization) = self.authorization.as_ref().filter(|_| of_hub) {
                request = request.header("Authorization", authorization);
            }
            if let Some((start, end)) = range {
                request = request.header("Range", format!("bytes={start}-{}", end.saturating_sub(1)));
            }
            let response = request.call().map_err(Trouble::new)?;
            let status = response.status().as_u16();
            match (status, header(response.headers(), "location")) {
                (206, _) => {
                    let said = header(response.headers(), "content-range");
                    let start =
                        said.and_then(|said| said.strip_prefix("bytes ")?.split('-').next()?.trim().parse().ok());
                    // Some do not say; then the digest decides.
                    let start = start.or(range.map(|(start, _)| start));
                    return Ok((response, start));
                }
                (200..=299, _) => return Ok((response, None)),
                (301..=308, Some(to)) => {
                    at =
                        joined(&at, to).ok_or_else(|| Trouble::new(format!("a redirect to {:?}", without_query(to))))?
                }
                (401 | 403 | 404, _) if of_hub => return Err(self.denied(id, status, response.headers()).into()),
                _ => return Err(refused(url, status, response.headers())),
            }
        }
        Err(Trouble::new("it redirects again and again").into())
    }

    /// Why the Hub itself gives nothing, and what to do.
    fn denied(&self, id: &HubId, status: u16, headers: &HeaderMap) -> Error {
        let (repository, page) = (&id.repository, format!("{}/{}", self.endpoint, id.repository));
        let sign_in = match self.authorization {
            Some(_) => "check that the account of HF_TOKEN, or of `hf auth login`, may read it",
            None => "set HF_TOKEN to a token of an account that may read it, or run `hf auth login`",
        };
        let reason = match header(headers, "x-error-code") {
            Some("GatedRepo") => format!("it is gated: accept its conditions at {page}, then {sign_in}"),
            Some("RevisionNotFound") => {
                format!("{repository} has no branch, tag or commit {}: {page}/tree/main lists them", id.revision())
            }
            Some("EntryNotFound") => format!("{repository} has no such file: {page}/tree/{} lists them", id.revision()),
            _ => {
                format!("{page} is not there ({status}), or it is private: check the name; if it is private, {sign_in}")
            }
        };
        Error::NotFound { path: id.to_string(), reason }
    }

    /// Tries until it succeeds, fails for good, or nothing new came for a while.
    pub fn patiently<T>(&self, url: &str, mut attempt: impl FnMut() -> Result<T, Failed>) -> Result<T> {
        let (mut tries, mut answered) = (0, false);
        loop {
            let trouble = match attempt() {
                Ok(done) => return Ok(done),
                Err(Failed::Finally(error)) => return Err(error),
                Err(Failed::Passing(trouble)) => trouble,
            };
            answered |= trouble.answered || trouble.progress;
            tries = if trouble.progress { 1 } else { tries + 1 };
            let (url, reason) = (without_query(url), trouble.reason);
            if let Some(after) = trouble.after.filter(|after| *after > LONGEST_PAUSE) {
                return Err(Error::Network {
                    url,
                    reason: format!("{reason}, and wants to be asked again in {} s", after.as_secs()),
                });
            }
            let pauses = if answered { PAUSES.len() } else { FEW_PAUSES };
            let Some(pause) = PAUSES.get(tries - 1).filter(|_| tries <= pauses) else {
                let advice =
                    "check the connection and HF_ENDPOINT, and run it again: what is here of the download stays";
                return Err(Error::Network { url, reason: format!("{reason}, {tries} times in a row: {advice}") });
            };
            sleep(trouble.after.unwrap_or(Duration::from_secs(*pause)));
        }
    }
}

/// What an answer means that brings nothing.
fn refused(url: &str, status: u16, headers: &HeaderMap) -> Failed {
    let reason = format!("the server answered {status}");
    // Those pass, and signatures of addresses expire; what a server cannot do does not pass.
    if matches!(status, 401 | 403 | 408 | 425 | 429) || (status >= 500 && status != 501 && status != 505) {
        let after = header(headers, "retry-after").and_then(|said| retry_after(said.trim()));
        return Trouble { answered: true, after, ..Trouble::new(reason) }.into();
    }
    Error::Network { url: without_query(url), reason }.into()
}

/// Seconds, or a date.
fn retry_after(said: &str) -> Option<Duration> {
    let seconds = said.parse().ok().map(Duration::from_secs);
    // A date in the past means at once.
    let until = |date: SystemTime| date.duration_since(SystemTime::now()).unwrap_or_default();
    seconds.or_else(|| httpdate::parse_http_date(said).ok().map(until))
}

/// An address as it may be shown: queries hold signatures.
pub(super) fn without_query(url: &str) -> String {
    url.split('?').next().unwrap_or_default().to_owned()
}

fn header<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

/// Scheme, host and port.
fn origin(url: &str) -> Option<(String, String)> {
    let uri: Uri = url.parse().ok()?;
    let scheme = uri.scheme_str().filter(|scheme| ["http", "https"].contains(scheme))?;
    Some((scheme.to_owned(), uri.authority()?.to_string().to_ascii_lowercase()))
}

/// Where a redirect leads.
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
