//! JavaScript bindings for a target on a server. JavaScript sends the requests.

use super::files::{Files, JsSource, Thrown, hear, message};
use super::read;
use super::session::JsSession;
use crate::Exception;
use foretoken::internals::backend::server::{Endpoint, Incoming, Key, Later, Piece, Request, Transport};
use foretoken::internals::parallel;
use foretoken::{Error, Result};
use js_sys::{Function, Reflect, Uint8Array};
use serde::Deserialize;
use serde_wasm_bindgen::from_value;
use std::rc::Rc;
use wasm_bindgen::prelude::*;

#[wasm_bindgen]
extern "C" {
    /// Sender of requests (www/http.ts).
    pub type Sender;
    /// An answer in flight.
    type Exchange;

    #[wasm_bindgen(method)]
    fn send(this: &Sender, url: &str, key: Option<&str>, body: Option<&str>, silence: f64) -> Exchange;
    #[wasm_bindgen(method)]
    async fn pause(this: &Sender, seconds: f64);
    /// Fulfils with `{status, retryAfter}`, then bytes, then null.
    #[wasm_bindgen(method, catch)]
    async fn next(this: &Exchange) -> Result<JsValue, JsValue>;
    #[wasm_bindgen(method)]
    fn abort(this: &Exchange);
}

impl Transport for Sender {
    fn send(&self, Request { url, key, body, timeout }: Request) -> Box<dyn Incoming> {
        Box::new(Coming(self.send(&url, key.as_ref().map(Key::expose), body.as_deref(), timeout)))
    }

    fn pause(&self, seconds: f64) -> Later<'_, ()> {
        Box::pin(self.pause(seconds))
    }
}

/// An answer whose request is aborted when it is dropped.
struct Coming(Exchange);

impl Incoming for Coming {
    fn next(&mut self) -> Later<'_, Result<Option<Piece>, String>> {
        Box::pin(async {
            let piece = self.0.next().await;
            let piece = piece.map_err(|thrown| message(&thrown).unwrap_or_else(|| "it cannot be reached".into()))?;
            if piece.is_null() {
                return Ok(None);
            }
            if let Some(bytes) = piece.dyn_ref::<Uint8Array>() {
                return Ok(Some(Piece::Bytes(bytes.to_vec())));
            }
            let number = |name: &str| Reflect::get(&piece, &name.into()).ok().and_then(|value| value.as_f64());
            let status = number("status").unwrap_or(0.0) as u16;
            Ok(Some(Piece::Head { status, retry_after: number("retryAfter") }))
        })
    }
}

impl Drop for Coming {
    fn drop(&mut self) {
        // After the end of the answer this has no effect.
        self.0.abort();
    }
}

/// Address of a target on servers, as passed by the page.
#[derive(Deserialize)]
struct Server {
    urls: Vec<String>,
    model: String,
    api_key: Option<String>,
}

/// Connects to `server`, `{urls, model, api_key}`, which has the target. The files `words` have its tokenizer and configuration. Also loads
/// a draft model in this worker, unless `assistant` is null.
///
/// # Errors
/// As [`parallel::connect`], and exceptions of the sources.
#[wasm_bindgen]
pub async fn connect(
    sender: Sender,
    server: JsValue,
    words: Files,
    assistant: Option<Files>,
    options: JsValue,
    progress: Function,
) -> Result<JsSession, Exception> {
    let thrown = Thrown::default();
    let words = JsSource::new(words, &thrown);
    let assistant = assistant.map(|files| JsSource::new(files, &Thrown::default()));
    let connected = async {
        let options = read::load_options(&options)?;
        let Server { urls, model, api_key } =
            from_value(server).map_err(|error| Error::Internal { reason: error.to_string() })?;
        let mut endpoint = Endpoint::new(urls, model)?;
        endpoint.api_key = api_key.as_deref().map(Key::new).transpose()?;
        parallel::connect(Rc::new(sender), endpoint, Box::new(words), assistant, &options, &mut hear(progress)).await
    };
    let generator = thrown.or(connected.await)?;
    Ok(JsSession(generator, thrown))
}
