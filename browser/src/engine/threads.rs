//! Threads in a page: workers with one instance of this module each. Each has some rows of every large matrix.

use crate::Exception;
use foretoken::internals::backend::cpu::{Others, Share, Threads, Words};
use foretoken::{Error, Result};
use js_sys::Uint8Array;
use std::rc::Rc;
use wasm_bindgen::prelude::*;

#[wasm_bindgen]
extern "C" {
    /// The workers (www/threads.ts).
    #[wasm_bindgen(js_name = Threads)]
    pub type JsThreads;

    /// Starts workers for `threads` threads in total, if possible. Fulfils with the number of other threads.
    #[wasm_bindgen(method)]
    async fn start(this: &JsThreads, threads: Option<usize>) -> JsValue;
    #[wasm_bindgen(method, getter)]
    fn others(this: &JsThreads) -> usize;
    #[wasm_bindgen(method, getter)]
    fn room(this: &JsThreads) -> usize;
    #[wasm_bindgen(method)]
    fn ask(this: &JsThreads, other: usize, question: &[u32], bytes: &[u8]);
    #[wasm_bindgen(method)]
    fn answer(this: &JsThreads, other: usize, bytes: &mut [u8]) -> f64;
}

impl Threads for JsThreads {
    fn others(&self) -> usize {
        self.others()
    }

    fn room(&self) -> usize {
        self.room()
    }

    fn ask(&self, other: usize, question: Words, bytes: &[u8]) {
        self.ask(other, &question, bytes);
    }

    fn answer(&self, other: usize, bytes: &mut [u8]) -> f64 {
        self.answer(other, bytes)
    }
}

/// Starts the other threads. `None`: there are none.
pub(super) async fn others(threads: JsThreads, count: Option<usize>) -> Option<Others> {
    let others = threads.start(count).await.as_f64().unwrap_or(0.0);
    (others > 0.0).then(|| Rc::new(threads) as Others)
}

/// Matrix rows of another thread.
#[wasm_bindgen(js_name = Share)]
#[derive(Default)]
pub struct JsShare(Share);

#[wasm_bindgen(js_class = Share)]
impl JsShare {
    /// Creates it without matrices.
    #[wasm_bindgen(constructor)]
    pub fn new() -> Self {
        Self::default()
    }

    /// As [`Share::answer`]. `memory` begins with the question's `length` bytes; the answer's bytes replace them.
    pub fn answer(&mut self, question: &[u32], length: usize, memory: &Uint8Array) -> Result<f64, Exception> {
        let words = question.try_into().map_err(|_| Error::Internal { reason: "no such question".into() })?;
        let part = |length: usize| memory.subarray(0, length as u32);
        Ok(self.0.answer(words, length, |to| part(to.len()).copy_to(to), |from| part(from.len()).copy_from(from))?)
    }
}
