//! The HTTP server: connections, routes, and its end.

use crate::access::Access;
use crate::api_error::ApiError;
use crate::flags::ServeFlags;
use crate::ids::unix_time;
use crate::models::ModelHost;
use crate::reply::{self, ApiResponse, not_allowed};
use crate::request::RequestFields;
use crate::{chat, completions, embeddings};
use foretoken::{Error, LoadOptions, Result};
use hyper::body::{Body, Incoming};
use hyper::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_MAX_AGE,
    HeaderValue, ORIGIN, VARY,
};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use percent_encoding::percent_decode_str;
use serde_json::{Value, json};
use std::convert::Infallible;
use std::future::poll_fn;
use std::net::{IpAddr, SocketAddr};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::time::{sleep, timeout};

/// Maximum number of connections. Further ones wait.
const MAX_CONNECTIONS: u32 = 256;
/// Time that requests in progress have after the server was stopped.
const GRACE: Duration = Duration::from_secs(10);
/// Pause after the system refused a connection, for example for lack of file handles.
const PAUSE: Duration = Duration::from_millis(100);

/// A server that listens.
pub struct ApiServer {
    listener: TcpListener,
    address: SocketAddr,
    app: Arc<App>,
}

/// Shared by all connections.
struct App {
    access: Access,
    host: Arc<ModelHost>,
    max_bytes: usize,
    patience: Duration,
    started: u64,
}

impl ApiServer {
    /// Listens at the address of the flags. Models are loaded when a request names them. Requires a runtime of tokio.
    ///
    /// # Errors
    /// [`Error::BadOption`] for a flag or an address that cannot be used, [`Error::NotFound`] for a model.
    pub fn bind(flags: &ServeFlags, options: LoadOptions) -> Result<Self> {
        flags.validate()?;
        let options = match flags.prompt_cache_bytes {
            Some(bytes) => options.prompt_cache_bytes(bytes),
            None => options,
        };
        options.validate()?;
        let host = Arc::new(ModelHost::new(flags, options)?);
        let place = (flags.host.trim_matches(['[', ']']), flags.port);
        let listening = std::net::TcpListener::bind(place).and_then(|listener| {
            listener.set_nonblocking(true)?;
            Ok((listener.local_addr()?, TcpListener::from_std(listener)?))
        });
        let (address, listener) = listening.map_err(|error| Error::BadOption {
            option: "port".into(),
            value: format!("{} of {}", flags.port, flags.host),
            allowed: format!("a free port of an address of this machine ({error})"),
        })?;
        let (access, started) = (Access::new(flags), unix_time());
        let patience = Duration::from_secs(flags.client_timeout);
        let app = Arc::new(App { access, host, max_bytes: flags.max_request_bytes, patience, started });
        Ok(Self { listener, address, app })
    }

    /// Returns the address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until `stop`. Then requests in progress have 10 seconds to end, or until `abandon`.
    pub async fn serve(self, stop: impl Future, abandon: impl Future) {
        let Self { listener, app, .. } = self;
        let connections = Arc::new(Semaphore::new(MAX_CONNECTIONS as usize));
        let (stopping, stopped) = watch::channel(());
        let accepting = async {
            loop {
                let Ok(place) = connections.clone().acquire_owned().await else { return };
                match listener.accept().await {
                    Ok((stream, _)) => {
                        let (app, mut stopped) = (app.clone(), stopped.clone());
                        tokio::spawn(async move {
                            let _place = place;
                            // It fails when the server is stopped.
                            app.connect(stream, async move { drop(stopped.changed().await) }).await;
                        });
                    }
                    Err(_) => sleep(PAUSE).await,
                }
            }
        };
        either(accepting, stop).await;
        drop((listener, stopping));
        either(timeout(GRACE, connections.acquire_many(MAX_CONNECTIONS)), abandon).await;
    }
}

/// Waits for the first of two futures.
async fn either(one: impl Future, other: impl Future) {
    let (mut one, mut other) = (pin!(one), pin!(other));
    poll_fn(|context| match one.as_mut().poll(context).is_ready() || other.as_mut().poll(context).is_ready() {
        true => Poll::Ready(()),
        false => Poll::Pending,
    })
    .await;
}

impl App {
    /// Serves a connection. After `stop`, a request in progress is the last.
    async fn connect(self: Arc<Self>, stream: TcpStream, stop: impl Future) {
        let Ok(local) = stream.local_addr() else { return };
        // Each token is sent at once. A failure only costs time.
        let _ = stream.set_nodelay(true);
        let patience = self.patience;
        let service = service_fn(move |request| {
            let app = self.clone();
            async move { Ok::<_, Infallible>(app.handle(request, local.ip()).await) }
        });
        let mut builder = http1::Builder::new();
        builder.timer(TokioTimer::new()).header_read_timeout(patience);
        let (mut connection, mut stop) = (pin!(builder.serve_connection(TokioIo::new(stream), service)), pin!(stop));
        let mut is_stopping = false;
        // An error is that of the client: it left, or sent no HTTP.
        let _ = poll_fn(|context| {
            if !is_stopping && stop.as_mut().poll(context).is_ready() {
                is_stopping = true;
                connection.as_mut().graceful_shutdown();
            }
            connection.as_mut().poll(context)
        })
        .await;
    }

    /// Answers a request.
    async fn handle(&self, request: Request<Incoming>, local: IpAddr) -> ApiResponse {
        let checked = self.access.check_host(request.uri(), request.headers(), local);
        let origin = match checked.and_then(|()| self.access.check_origin(request.headers())) {
            Ok(origin) => origin,
            Err(error) => return reply::failed(&error),
        };
        let is_cross = origin.is_some();
        let mut response = match request.method() {
            &Method::OPTIONS if is_cross => preflight(),
            _ => self.route(request).await.unwrap_or_else(|error| reply::failed(&error)),
        };
        if let Some(origin) = origin {
            response.headers_mut().insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
            response.headers_mut().insert(VARY, ORIGIN.into());
        }
        response
    }

    async fn route(&self, request: Request<Incoming>) -> Result<ApiResponse, ApiError> {
        let path = request.uri().path().to_owned();
        let (is_get, is_post) = (request.method() == Method::GET, request.method() == Method::POST);
        if path == "/health" {
            return Ok(if is_get {
                reply::json(StatusCode::OK, &json!({ "status": "ok" }))
            } else {
                not_allowed("GET")
            });
        }
        self.access.check_key(request.headers())?;
        match path.as_str() {
            "/v1/chat/completions" | "/v1/completions" | "/v1/embeddings" if !is_post => Ok(not_allowed("POST")),
            "/v1/chat/completions" | "/v1/completions" | "/v1/embeddings" => {
                let fields = RequestFields::parse(self.body(request.into_body()).await?)?;
                self.generate(&path, fields).await
            }
            "/v1/models" if is_get => {
                let data: Vec<_> = (0..self.host.ids().len()).map(|index| self.describe(index)).collect();
                Ok(reply::json(StatusCode::OK, &json!({ "object": "list", "data": data })))
            }
            "/v1/models" => Ok(not_allowed("GET")),
            other => match other.strip_prefix("/v1/models/") {
                Some(id) if is_get => {
                    let id = percent_decode_str(id).decode_utf8_lossy();
                    let index = self.host.find(Some(&id))?;
                    Ok(reply::json(StatusCode::OK, &self.describe(index)))
                }
                Some(_) => Ok(not_allowed("GET")),
                None => {
                    let message = format!("there is no path {path}: the API is below /v1");
                    Err(ApiError::new(StatusCode::NOT_FOUND, "unknown_url", message))
                }
            },
        }
    }

    fn describe(&self, index: usize) -> Value {
        let (id, loaded) = (self.host.ids()[index], self.host.is_loaded(index));
        json!({ "id": id, "object": "model", "created": self.started, "owned_by": "foretoken", "loaded": loaded })
    }

    async fn generate(&self, path: &str, mut fields: RequestFields) -> Result<ApiResponse, ApiError> {
        let index = self.host.find(fields.take_text("model")?.as_deref())?;
        let id = self.host.ids()[index].to_owned();
        let using = self.host.take(index).await?;
        match path {
            "/v1/chat/completions" => chat::complete(fields, id, using, self.patience).await,
            "/v1/completions" => completions::complete(fields, id, using, self.patience).await,
            _ => embeddings::embed(fields, id, using).await,
        }
    }

    /// Reads the body of a request.
    ///
    /// # Errors
    /// Status 413 if it is too large, 408 if it takes too long, 400 if it breaks off.
    async fn body(&self, mut body: Incoming) -> Result<Vec<u8>, ApiError> {
        let too_large = || {
            let message = format!("a request may have {} bytes (--max-request-bytes)", self.max_bytes);
            ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, "request_too_large", message)
        };
        if body.size_hint().lower() > self.max_bytes as u64 {
            return Err(too_large());
        }
        let mut bytes = Vec::new();
        let reading = async {
            while let Some(frame) = poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await {
                let frame = frame.map_err(|error| ApiError::bad_json(format!("it broke off ({error})")))?;
                bytes.extend_from_slice(frame.data_ref().map_or(&[][..], |data| &data[..]));
                if bytes.len() > self.max_bytes {
                    return Err(too_large());
                }
            }
            Ok(())
        };
        timeout(self.patience, reading).await.map_err(|_| {
            let message = format!("the body took more than {} seconds", self.patience.as_secs());
            ApiError::new(StatusCode::REQUEST_TIMEOUT, "timeout", message)
        })??;
        Ok(bytes)
    }
}

/// Returns the permission for a page of an allowed origin.
fn preflight() -> ApiResponse {
    let mut response = reply::empty(StatusCode::NO_CONTENT);
    let headers = response.headers_mut();
    headers.insert(ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("GET, POST"));
    // The wildcard does not include Authorization.
    headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, HeaderValue::from_static("*, Authorization"));
    headers.insert(ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("600"));
    response
}
