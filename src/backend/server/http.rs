//! The native transport. Each request has its own thread, so that it can be aborted.

use super::transport::{Incoming, Later, Piece, Request, Transport};
use futures_channel::{mpsc, oneshot};
use std::cell::RefCell;
use std::io::Read;
use std::rc::Rc;
use std::thread;
use std::time::{Duration, SystemTime};
use ureq::{Agent, AsSendBody, SendBody, http};

const PIECE: usize = 1 << 16;
const CONNECTING: u64 = 10;

type Pieces = mpsc::UnboundedReceiver<Result<Piece, String>>;

/// Connections to the servers of an endpoint, opened on demand.
#[derive(Default)]
pub struct Http {
    /// Agents without a request. Each handles one request at a time.
    idle: Rc<RefCell<Vec<Agent>>>,
}

fn agent() -> Agent {
    Agent::config_builder()
        .user_agent(concat!("foretoken/", env!("CARGO_PKG_VERSION")))
        .http_status_as_error(false)
        .max_redirects(0)
        .timeout_connect(Some(Duration::from_secs(CONNECTING)))
        .build()
        .into()
}

impl Transport for Http {
    fn send(&self, request: Request) -> Box<dyn Incoming> {
        let (tell, pieces) = mpsc::unbounded();
        let agent = self.idle.borrow_mut().pop().unwrap_or_else(agent);
        let own = agent.clone();
        let exchange = move || {
            if let Err(reason) = exchange(&own, &request, &tell) {
                // The receiver may be gone.
                let _ = tell.unbounded_send(Err(reason));
            }
        };
        // If no thread starts, the channel closes without pieces.
        let _ = thread::Builder::new().name("request".into()).spawn(exchange);
        Box::new(Exchange { pieces, began: false, ended: false, agent, idle: self.idle.clone() })
    }

    fn pause(&self, seconds: f64) -> Later<'_, ()> {
        Box::pin(async move {
            let (tell, passed) = oneshot::channel();
            let pause = move || {
                thread::sleep(Duration::from_secs_f64(seconds));
                let _: Result<(), ()> = tell.send(());
            };
            if seconds > 0.0 && thread::Builder::new().name("pause".into()).spawn(pause).is_ok() {
                let _ = passed.await;
            }
        })
    }
}

/// Sends a request, and passes on the pieces of its answer.
fn exchange(
    agent: &Agent,
    Request { url, key, body, timeout }: &Request,
    tell: &mpsc::UnboundedSender<Result<Piece, String>>,
) -> Result<(), String> {
    let silence = Some(Duration::from_secs_f64(*timeout));
    let mut asked = http::Request::builder().uri(url);
    if let Some(key) = key {
        asked = asked.header("Authorization", format!("Bearer {}", key.expose()));
    }
    let (mut sent, mut nothing) = (body.as_deref().unwrap_or_default(), SendBody::none());
    let asked = match body {
        Some(_) => asked.method("POST").header("Content-Type", "application/json").body(sent.as_body()),
        None => asked.body(nothing.as_body()),
    };
    let asked = asked.map_err(|error| error.to_string())?;
    let asked = agent.configure_request(asked).timeout_recv_response(silence).timeout_per_read(silence).build();
    let mut response = agent.run(asked).map_err(|error| error.to_string())?;
    let retry_after = response.headers().get("retry-after").and_then(|said| seconds(said.to_str().ok()?));
    let head = Piece::Head { status: response.status().as_u16(), retry_after };
    let mut body = response.body_mut().as_reader();
    let mut piece = Ok(head);
    let mut buffer = vec![0; PIECE];
    while tell.unbounded_send(piece).is_ok() {
        match body.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => piece = Ok(Piece::Bytes(buffer[..count].to_vec())),
            Err(error) => return Err(error.to_string()),
        }
    }
    Ok(())
}

/// Returns the seconds in a header `Retry-After`, which has seconds or a date.
fn seconds(said: &str) -> Option<f64> {
    // A date in the past gives 0.
    let until = |date: SystemTime| date.duration_since(SystemTime::now()).unwrap_or_default().as_secs_f64();
    let number = said.trim().parse().ok().map(|seconds: u32| f64::from(seconds));
    number.or_else(|| httpdate::parse_http_date(said).ok().map(until))
}

/// An answer that a thread reads.
struct Exchange {
    pieces: Pieces,
    began: bool,
    ended: bool,
    agent: Agent,
    idle: Rc<RefCell<Vec<Agent>>>,
}

impl Incoming for Exchange {
    fn next(&mut self) -> Later<'_, Result<Option<Piece>, String>> {
        Box::pin(async {
            let piece = self.pieces.recv().await.ok();
            self.ended |= !matches!(piece, Some(Ok(_)));
            let began = std::mem::replace(&mut self.began, true);
            match piece {
                None if !began => Err("no thread could be started for it".into()),
                piece => piece.transpose(),
            }
        })
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        let agent = self.agent.clone();
        if self.ended {
            self.idle.borrow_mut().push(agent);
        } else {
            // Closes the connection.
            agent.shutdown();
        }
    }
}
