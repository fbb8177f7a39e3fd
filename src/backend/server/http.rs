//! The native transport. Each request has its own thread, so that it can be aborted.

use super::transport::{Incoming, Later, Piece, Request, Transport};
use crate::http::{agent, retry_after};
use futures_channel::{mpsc, oneshot};
use std::cell::RefCell;
use std::io::Read;
use std::rc::Rc;
use std::thread;
use std::time::Duration;
use ureq::{Agent, AsSendBody, SendBody, http};

const PIECE: usize = 1 << 16;
const CONNECTING: Duration = Duration::from_secs(10);

type Pieces = mpsc::UnboundedReceiver<Result<Piece, String>>;

/// Connections to the servers of an endpoint, opened on demand.
#[derive(Default)]
pub struct Http {
    /// Agents without a request. Each handles one request at a time.
    idle: Rc<RefCell<Vec<Agent>>>,
}

impl Transport for Http {
    fn send(&self, request: Request) -> Box<dyn Incoming> {
        let (sender, pieces) = mpsc::unbounded();
        let agent = self.idle.borrow_mut().pop().unwrap_or_else(|| agent(CONNECTING).build().into());
        let own = agent.clone();
        let exchange = move || {
            if let Err(reason) = exchange(&own, &request, &sender) {
                // The receiver may be gone.
                let _ = sender.unbounded_send(Err(reason));
            }
        };
        // If no thread starts, the channel closes without pieces.
        let _ = thread::Builder::new().name("request".into()).spawn(exchange);
        Box::new(Exchange { pieces, began: false, ended: false, agent, idle: self.idle.clone() })
    }

    fn pause(&self, seconds: f64) -> Later<'_, ()> {
        Box::pin(async move {
            let (sender, receiver) = oneshot::channel();
            let pause = move || {
                thread::sleep(Duration::from_secs_f64(seconds));
                let _: Result<(), ()> = sender.send(());
            };
            if seconds > 0.0 && thread::Builder::new().name("pause".into()).spawn(pause).is_ok() {
                let _ = receiver.await;
            }
        })
    }
}

/// Sends a request, and passes on the pieces of its answer.
fn exchange(
    agent: &Agent,
    Request { url, key, body, timeout }: &Request,
    sender: &mpsc::UnboundedSender<Result<Piece, String>>,
) -> Result<(), String> {
    let silence = Some(Duration::from_secs_f64(*timeout));
    let mut request = http::Request::builder().uri(url);
    if let Some(key) = key {
        request = request.header("Authorization", format!("Bearer {}", key.expose()));
    }
    let (mut sent, mut nothing) = (body.as_deref().unwrap_or_default(), SendBody::none());
    let request = match body {
        Some(_) => request.method("POST").header("Content-Type", "application/json").body(sent.as_body()),
        None => request.body(nothing.as_body()),
    };
    let request = request.map_err(|error| error.to_string())?;
    let request = agent.configure_request(request).timeout_recv_response(silence).timeout_per_read(silence).build();
    let mut response = agent.run(request).map_err(|error| error.to_string())?;
    let retry_after = retry_after(response.headers()).map(|wait| wait.as_secs_f64());
    let head = Piece::Head { status: response.status().as_u16(), retry_after };
    let mut body = response.body_mut().as_reader();
    let mut piece = Ok(head);
    let mut buffer = vec![0; PIECE];
    while sender.unbounded_send(piece).is_ok() {
        match body.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => piece = Ok(Piece::Bytes(buffer[..count].to_vec())),
            Err(error) => return Err(error.to_string()),
        }
    }
    Ok(())
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
                None if !began => Err("no thread could be started for the request".into()),
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
