//! A model's files, read by JavaScript, and exceptions thrown during a call.

use crate::Exception;
use async_trait::async_trait;
use foretoken::internals::weights::Source;
use foretoken::{Error, Result, WeightsRule};
use js_sys::{Array, Function, Reflect, Uint8Array};
use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;
use wasm_bindgen::prelude::*;

#[wasm_bindgen]
extern "C" {
    /// The files of a model: `{name, list(): Promise<string[]>, size(file): Promise<number | null>, read(file, start, end):
    /// Promise<Uint8Array>}`.
    pub type Files;

    #[wasm_bindgen(method, getter)]
    fn name(this: &Files) -> String;
    #[wasm_bindgen(method, catch)]
    async fn list(this: &Files) -> Result<JsValue, JsValue>;
    #[wasm_bindgen(method, catch)]
    async fn size(this: &Files, file: &str) -> Result<JsValue, JsValue>;
    #[wasm_bindgen(method, catch)]
    async fn read(this: &Files, file: &str, start: f64, end: f64) -> Result<JsValue, JsValue>;
}

/// [`Files`] as a source.
#[derive(Clone)]
pub(super) struct JsSource {
    files: Rc<Files>,
    thrown: Thrown,
}

impl JsSource {
    pub(super) fn new(files: Files, thrown: &Thrown) -> Self {
        Self { files: Rc::new(files), thrown: thrown.clone() }
    }

    fn keep(&self, thrown: JsValue) -> Error {
        let reason = message(&thrown).unwrap_or_else(|| "cannot be read".into());
        self.thrown.keep(thrown);
        Error::NotFound { path: self.name(), reason }
    }
}

#[async_trait(?Send)]
impl Source for JsSource {
    async fn size(&self, file: &str) -> Result<Option<u64>> {
        let size = self.files.size(file).await.map_err(|thrown| self.keep(thrown))?;
        Ok(size.as_f64().map(|size| size as u64))
    }

    async fn read_range(&self, file: &str, range: Range<u64>) -> Result<Vec<u8>> {
        let (start, end) = (range.start as f64, range.end as f64);
        let bytes = self.files.read(file, start, end).await.map_err(|thrown| self.keep(thrown))?;
        bytes.dyn_into::<Uint8Array>().map(|bytes| bytes.to_vec()).map_err(|_| Error::BadWeights {
            file: file.to_owned(),
            rule: WeightsRule::Truncated { expected: range.end - range.start, found: 0 },
        })
    }

    fn name(&self) -> String {
        self.files.name()
    }

    async fn list(&self) -> Result<Vec<String>> {
        let names = self.files.list().await.map_err(|thrown| self.keep(thrown))?;
        Ok(Array::from(&names).iter().filter_map(|name| name.as_string()).collect())
    }
}

/// The first exception thrown during a call. The caller gets it, because it has more information than the resulting [`Error`].
#[derive(Clone, Default)]
pub(super) struct Thrown(Rc<RefCell<Option<JsValue>>>);

impl Thrown {
    pub(super) fn keep(&self, thrown: JsValue) {
        self.0.borrow_mut().get_or_insert(thrown);
    }

    /// Returns a call's result: on failure the kept exception, if there is one, else the error.
    pub(super) fn or<T>(&self, result: Result<T>) -> Result<T, Exception> {
        let thrown = self.0.take();
        result.map_err(|error| thrown.map_or_else(|| error.into(), Exception::from))
    }
}

/// Returns the message of an exception.
pub(super) fn message(thrown: &JsValue) -> Option<String> {
    Reflect::get(thrown, &"message".into()).ok()?.as_string()
}

/// Returns a callback that calls `progress(loaded, total)`.
pub(super) fn hear(progress: Function) -> impl FnMut(u64, u64) {
    move |loaded, total| {
        let _ = progress.call2(&JsValue::NULL, &(loaded as f64).into(), &(total as f64).into());
    }
}
