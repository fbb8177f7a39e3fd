//! What JavaScript sees of a session.

use super::constraint::{ForeignGrammars, JsGrammars};
use super::parallel::JsCrew;
use super::{to_error, to_value};
use crate::device::{Device, Engine};
use crate::error::{Error, Result, WeightsRule};
use crate::gpu::GpuOptions;
use crate::load::ModelFiles;
use crate::options::{GenerateOptions, LoadOptions};
use crate::parallel::Writer;
use crate::session::{Embedding, Progress, Prompt, Session};
use crate::weights::Source;
use js_sys::{Array, Float32Array, Function, Promise, Reflect, Uint8Array, Uint32Array};
use serde_json::json;
use serde_wasm_bindgen::Deserializer;
use std::cell::RefCell;
use std::ops::{ControlFlow, Range};
use std::rc::Rc;
use wasm_bindgen::prelude::*;
use wasm_bindgen_futures::JsFuture;

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

/// [`Files`] as a source. What JS throws is put aside, because it says more than an [`Error`] can.
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
        let message = Reflect::get(&thrown, &"message".into()).ok().and_then(|message| message.as_string());
        self.thrown.borrow_mut().get_or_insert(thrown);
        Error::NotFound { path: self.name(), reason: message.unwrap_or_else(|| "cannot be read".into()) }
    }
}

impl Source for JsSource {
    async fn size(&self, file: &str) -> Result<Option<u64>> {
        let size = self.files.size(file).await.map_err(|thrown| self.keep(thrown))?;
        Ok(size.as_f64().map(|size| size as u64))
    }

    async fn read(&self, file: &str, range: Range<u64>) -> Result<Vec<u8>> {
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

/// What the sources threw last.
pub(super) type Thrown = Rc<RefCell<Option<JsValue>>>;

/// A loaded model pair, or a target in several workers.
#[wasm_bindgen(js_name = Session)]
pub struct JsSession(pub(super) Writer<JsCrew>, pub(super) Thrown);

/// Loads a target and, unless it is null, a draft model. `progress(loaded, total)` hears of bytes on the GPU.
///
/// # Errors
/// As [`Session::load`], and what the sources throw.
#[wasm_bindgen]
pub async fn load(
    target: Files,
    assistant: Option<Files>,
    options: JsValue,
    progress: Function,
) -> Result<JsSession, JsValue> {
    let thrown = Thrown::default();
    let target = JsSource::new(target, &thrown);
    // What the draft model's files throw costs the draft model only.
    let assistant = assistant.map(|files| JsSource::new(files, &Thrown::default()));
    let loaded = async {
        let options = LoadOptions::read(Deserializer::from(options))?;
        let (device, reason) = Device::open(options.device, &GpuOptions::default()).await?;
        let mut progress = |loaded: u64, total: u64| {
            let _ = progress.call2(&JsValue::NULL, &(loaded as f64).into(), &(total as f64).into());
        };
        let mut session = Session::load(device, target, assistant, &options, &mut progress).await?;
        session.warnings.extend(reason);
        Ok(session)
    };
    match loaded.await {
        Ok(session) => Ok(JsSession(Writer::Session(Box::new(session)), thrown)),
        Err(error) => Err(thrown.take().unwrap_or_else(|| to_error(error))),
    }
}

/// What there is to know of a model from its headers alone: an `Inspection`, with names as there. Its device is the one that the
/// options want, null where there is none.
///
/// # Errors
/// As [`ModelFiles::open`], and what the source throws.
#[wasm_bindgen]
pub async fn inspect(model: Files, options: JsValue) -> Result<JsValue, JsValue> {
    let thrown = Thrown::default();
    let model = JsSource::new(model, &thrown);
    let inspected = async {
        let options = LoadOptions::read(Deserializer::from(options))?;
        let files = ModelFiles::open(model, &options).await?;
        let device = Device::open(options.device, &GpuOptions::default()).await.ok();
        files.inspect(device.map(|(device, _)| device.info().clone())).await
    };
    match inspected.await {
        Ok(inspection) => Ok(to_value(&inspection)),
        Err(error) => Err(thrown.take().unwrap_or_else(|| to_error(error))),
    }
}

/// What a promise gives. What JS throws is put aside, because it says more than an [`Error`] can.
async fn ended(promise: Result<Promise, JsValue>, thrown: &mut Option<JsValue>) -> Result<JsValue> {
    let given = async { JsFuture::from(promise?).await };
    given.await.map_err(|error| {
        *thrown = Some(error);
        Error::Internal { reason: "what keeps a conversation failed".into() }
    })
}

#[wasm_bindgen(js_class = Session)]
impl JsSession {
    /// Continues a prompt: a text, messages `[{role, content}]`, or token ids. `on_token({id, text, origin})` hears of each
    /// token, and before, `on_prefill(done, of)` how many tokens of a prompt of several chunks were read; when one of them
    /// returns false, the generation ends there.
    ///
    /// # Errors
    /// As [`Session::generate`].
    pub async fn generate(
        &mut self,
        prompt: JsValue,
        options: JsValue,
        on_token: Function,
        on_prefill: Function,
    ) -> Result<JsValue, JsValue> {
        let options = GenerateOptions::read(Deserializer::from(options)).map_err(to_error)?;
        let prompt = Prompt::read(Deserializer::from(prompt)).map_err(to_error)?;
        let mut hear = |progress: Progress<'_>| {
            let answer = match progress {
                Progress::Token(token) => on_token.call1(&JsValue::NULL, &to_value(token)),
                Progress::Prefill { done, of } => on_prefill.call2(&JsValue::NULL, &done.into(), &of.into()),
            };
            match answer {
                Ok(answer) if answer.as_bool() != Some(false) => ControlFlow::Continue(()),
                _ => ControlFlow::Break(()),
            }
        };
        // Sources are read again when the device was lost.
        match self.0.generate(&prompt, &options, &mut hear).await {
            Ok(generation) => Ok(to_value(&generation)),
            Err(error) => Err(self.1.take().unwrap_or_else(|| to_error(error))),
        }
    }

    /// The embedding of a prompt.
    ///
    /// # Errors
    /// As [`Session::embed`]; `bad-option` where workers have the models.
    pub async fn embed(&mut self, text: JsValue, pooling: &str, normalize: bool) -> Result<Float32Array, JsValue> {
        let text = Prompt::read(Deserializer::from(text)).map_err(to_error)?;
        let pooling = pooling.parse().map_err(to_error)?;
        match self.0.session().map_err(to_error)?.embed(&text, pooling, normalize).await {
            Ok(Embedding { embedding, .. }) => Ok(Float32Array::from(&embedding[..])),
            Err(error) => Err(self.1.take().unwrap_or_else(|| to_error(error))),
        }
    }

    /// How likely a continuation of a prompt is: `{logprob, num_tokens}`.
    ///
    /// # Errors
    /// As [`Session::score`]; `bad-option` where workers have the models.
    pub async fn score(&mut self, prompt: JsValue, continuation: JsValue) -> Result<JsValue, JsValue> {
        let [prompt, continuation] = [prompt, continuation].map(|prompt| Prompt::read(Deserializer::from(prompt)));
        let (prompt, continuation) = (prompt.map_err(to_error)?, continuation.map_err(to_error)?);
        match self.0.session().map_err(to_error)?.score(&prompt, &[continuation]).await {
            Ok(scores) => Ok(to_value(&scores[0])),
            Err(error) => Err(self.1.take().unwrap_or_else(|| to_error(error))),
        }
    }

    /// What grammars need to know of the target, as their constructor takes it: `[bytes, lengths, ends]`; null where workers have the
    /// targets, which take none.
    pub fn vocabulary(&self) -> Option<Array> {
        let Writer::Session(session) = &self.0 else { return None };
        let (tokens, ends) = session.vocabulary();
        let lengths: Vec<u32> = tokens.iter().map(|token| token.len() as u32).collect();
        let bytes = Uint8Array::from(&tokens.concat()[..]);
        Some(Array::of3(&bytes, &Uint32Array::from(&lengths[..]), &Uint32Array::from(ends)))
    }

    /// From now on these say what a `response_format` allows: `Grammars` of the other module.
    #[wasm_bindgen(js_name = constrainBy)]
    pub fn constrain_by(&mut self, grammars: ForeignGrammars) {
        if let Writer::Session(session) = &mut self.0 {
            session.constrain_by(Box::new(JsGrammars { grammars, thrown: self.1.clone() }));
        }
    }

    /// The tokens of a prompt.
    ///
    /// # Errors
    /// As [`Session::encode`].
    pub fn encode(&self, prompt: JsValue, options: JsValue) -> Result<Vec<u32>, JsValue> {
        let options = GenerateOptions::read(Deserializer::from(options)).map_err(to_error)?;
        let prompt = Prompt::read(Deserializer::from(prompt)).map_err(to_error)?;
        self.0.encode(&prompt, &options).map_err(to_error)
    }

    /// Gives `write(layer, bytes): Promise` the keys and values of what is known of a prompt, and returns its tokens.
    ///
    /// # Errors
    /// As [`Session::save`], and what `write` throws.
    pub async fn save(&mut self, prompt: JsValue, options: JsValue, write: Function) -> Result<Vec<u32>, JsValue> {
        let options = GenerateOptions::read(Deserializer::from(options)).map_err(to_error)?;
        let prompt = Prompt::read(Deserializer::from(prompt)).map_err(to_error)?;
        // Several instances have nothing of a text that could be kept.
        let Writer::Session(session) = &mut self.0 else { return Ok(Vec::new()) };
        let mut thrown = None;
        let mut write = async |layer: usize, bytes: Vec<u8>| {
            let bytes = Uint8Array::from(&bytes[..]);
            let written = write.call2(&JsValue::NULL, &layer.into(), &bytes).map(|promise| promise.unchecked_into());
            ended(written, &mut thrown).await.map(drop)
        };
        let saved = session.save(&prompt, &options, &mut write).await;
        saved.map_err(|error| thrown.unwrap_or_else(|| to_error(error)))
    }

    /// Caches what `save` gave; `read(layer): Promise<Uint8Array>`. Returns whether it was of this model on this device.
    ///
    /// # Errors
    /// As [`Session::restore`], and what `read` throws.
    pub async fn restore(&mut self, tokens: Vec<u32>, read: Function) -> Result<bool, JsValue> {
        let Writer::Session(session) = &mut self.0 else { return Ok(false) };
        let mut thrown = None;
        let mut read = async |layer: usize| {
            let bytes = read.call1(&JsValue::NULL, &layer.into()).map(|promise| promise.unchecked_into());
            Ok(Uint8Array::new(&ended(bytes, &mut thrown).await?).to_vec())
        };
        let restored = session.restore(&tokens, &mut read).await;
        restored.map_err(|error| thrown.unwrap_or_else(|| to_error(error)))
    }

    /// The text of some tokens.
    ///
    /// # Errors
    /// `bad-tokenizer`.
    pub fn decode(&self, ids: Vec<u32>, skip_special: bool) -> Result<String, JsValue> {
        self.0.tokenizer().decode(&ids, skip_special).map_err(to_error)
    }

    /// Which device it is: `{name, backend, driver, max_buffer_size, max_binding_size}`.
    pub fn device(&self) -> JsValue {
        to_value(self.0.device())
    }

    /// What the user should know of the loading, in words.
    pub fn warnings(&self) -> JsValue {
        to_value(&self.0.warnings())
    }

    /// How the chat template writes calls of tools, null where that is not known.
    pub fn tool_format(&self) -> JsValue {
        to_value(&self.0.tool_format())
    }

    /// Bytes on the GPU: `{target, draft}`, each `{weights, kv, scratch, read_per_token}`. Null where workers have the models.
    pub fn memory(&self) -> JsValue {
        let memory = self.engine().map(|engine| json!({ "target": engine.memory(), "draft": engine.draft_memory() }));
        to_value(&memory)
    }

    /// What was asked of the device so far. Null where workers have the models.
    pub fn counters(&self) -> JsValue {
        to_value(&self.engine().map(|engine| engine.counters()))
    }

    fn engine(&self) -> Option<&Engine> {
        match &self.0 {
            Writer::Session(session) => Some(session.engine()),
            Writer::Parallel(_) => None,
        }
    }
}
