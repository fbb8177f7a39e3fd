//! JavaScript bindings for a session.

use super::constraint::{ForeignGrammars, PageGrammars};
use super::files::{Files, JsSource, Thrown, hear};
use super::read;
use super::threads::{JsThreads, others};
use crate::Exception;
use crate::to_value;
use foretoken::CancelToken;
use foretoken::internals::backend::Device;
use foretoken::internals::backend::cpu::Processor;
use foretoken::internals::gpu::GpuOptions;
use foretoken::internals::load::ModelFiles;
use foretoken::internals::session::{Embedding, Generator, Progress, Session};
use foretoken::{Error, Result};
use js_sys::{Array, Float32Array, Function, Promise, Uint8Array, Uint32Array};
use serde_json::json;
use std::rc::Rc;
use wasm_bindgen::prelude::*;
use wasm_bindgen_futures::JsFuture;

/// A loaded model pair, or a target in several workers.
#[wasm_bindgen(js_name = Session)]
pub struct JsSession(pub(super) Box<Generator>, pub(super) Thrown);

/// Loads a target and, unless `assistant` is null, a draft model. On the CPU, the workers of `threads` share the work.
/// `progress(loaded, total)` is called as bytes reach the GPU.
///
/// # Errors
/// As [`Session::load`], and exceptions of the sources.
#[wasm_bindgen]
pub async fn load(
    target: Files,
    assistant: Option<Files>,
    threads: JsThreads,
    options: JsValue,
    progress: Function,
) -> Result<JsSession, Exception> {
    let thrown = Thrown::default();
    let target = JsSource::new(target, &thrown);
    // Exceptions of the draft model's files only lose the draft model.
    let assistant = assistant.map(|files| JsSource::new(files, &Thrown::default()));
    let loaded = async {
        let options = read::load_options(&options)?;
        let (mut device, reason) = Device::open(&options, &GpuOptions::default()).await?;
        if let Device::Cpu(_) = device {
            device = Device::Cpu(Rc::new(Processor::new(others(threads, options.threads).await)));
        }
        let mut session = Session::load(
            device,
            Box::new(target),
            assistant.map(|files| Box::new(files) as _),
            &options,
            &mut hear(progress),
        )
        .await?;
        session.executor.warnings.extend(reason);
        Ok(session)
    };
    let session = thrown.or(loaded.await)?;
    Ok(JsSession(Box::new(session), thrown))
}

/// Returns an `Inspection` of a model, read from its headers alone. Its device is the one that the options select; null if there is none.
///
/// # Errors
/// As [`ModelFiles::open`], and exceptions of the source.
#[wasm_bindgen]
pub async fn inspect(model: Files, options: JsValue) -> Result<JsValue, Exception> {
    let thrown = Thrown::default();
    let model = JsSource::new(model, &thrown);
    let inspected = async {
        let options = read::load_options(&options)?;
        let files = ModelFiles::open(Box::new(model), &options).await?;
        let device = Device::open(&options, &GpuOptions::default()).await.ok();
        files.inspect(device.map(|(device, _)| device.info().clone())).await
    };
    Ok(to_value(&thrown.or(inspected.await)?))
}

/// Returns the value of a promise.
async fn ended(promise: Result<Promise, JsValue>, thrown: &Thrown) -> Result<JsValue> {
    let given = async { JsFuture::from(promise?).await };
    given.await.map_err(|error| {
        thrown.keep(error);
        Error::Internal { reason: "what keeps a conversation failed".into() }
    })
}

#[wasm_bindgen(js_class = Session)]
impl JsSession {
    /// Continues a prompt: a text, messages `[{role, content}]`, or token ids. `on_prefill(done, of)` is called as the chunks of a longer
    /// prompt are read, then `on_token({id, text, origin})` for each token. Generation ends if either returns false, or if `left` is
    /// fulfilled during a wait for a server.
    pub async fn generate(
        &mut self,
        prompt: JsValue,
        options: JsValue,
        on_token: Function,
        on_prefill: Function,
        left: Promise,
    ) -> Result<JsValue, Exception> {
        let options = read::generate_options(&options)?;
        let prompt = read::prompt(&prompt)?;
        let cancel = CancelToken::default();
        let mut hear = |progress: Progress<'_>| {
            let answer = match progress {
                Progress::Token(token) => on_token.call1(&JsValue::NULL, &to_value(token)),
                Progress::Prefill { done, of } => on_prefill.call2(&JsValue::NULL, &done.into(), &of.into()),
                Progress::Waiting => Ok(JsValue::UNDEFINED),
            };
            if answer.map_or(true, |answer| answer.as_bool() == Some(false)) {
                cancel.cancel();
            }
            cancel.flow()
        };
        // After a lost device, the sources are read again.
        let generating = self.0.generate(&prompt, &options, &mut hear);
        let generation = cancel.watch(generating, JsFuture::from(left)).await;
        Ok(to_value(&self.1.or(generation)?))
    }

    /// Returns the embedding of a prompt.
    ///
    /// # Errors
    /// As [`Generator::embed`]; `bad-option` if workers have the models.
    pub async fn embed(&mut self, text: JsValue, pooling: &str, normalize: bool) -> Result<Float32Array, Exception> {
        let text = read::prompt(&text)?;
        let pooling = pooling.parse()?;
        let Embedding { embedding, .. } = self.1.or(self.0.embed(&text, pooling, normalize).await)?;
        Ok(Float32Array::from(&embedding[..]))
    }

    /// Returns the likelihood of a continuation of a prompt: `{logprob, num_tokens}`.
    ///
    /// # Errors
    /// As [`Generator::score`]; `bad-option` if workers have the models.
    pub async fn score(&mut self, prompt: JsValue, continuation: JsValue) -> Result<JsValue, Exception> {
        let prompt = read::prompt(&prompt)?;
        let continuation = read::prompt(&continuation)?;
        let scores = self.0.score(&prompt, &[continuation]).await;
        Ok(to_value(&self.1.or(scores)?[0]))
    }

    /// Returns the arguments of the constructor of `Grammars` for the target: `[bytes, lengths, ends]`. Null if workers have the targets,
    /// which support no grammars.
    pub fn vocabulary(&mut self) -> Option<Array> {
        self.0.executor.single().ok()?;
        let (tokens, ends) = self.0.prompts.vocabulary();
        let lengths: Vec<u32> = tokens.iter().map(|token| token.len() as u32).collect();
        let bytes = Uint8Array::from(&tokens.concat()[..]);
        Some(Array::of3(&bytes, &Uint32Array::from(&lengths[..]), &Uint32Array::from(ends)))
    }

    /// Sets the compiler of `response_format`: `Grammars` of the other module.
    #[wasm_bindgen(js_name = constrainBy)]
    pub fn constrain_by(&mut self, grammars: ForeignGrammars) {
        if let Ok(single) = self.0.executor.single() {
            single.constrain_by(Box::new(PageGrammars { grammars, thrown: self.1.clone() }));
        }
    }

    /// Returns the tokens of a prompt.
    pub fn encode(&self, prompt: JsValue, options: JsValue) -> Result<Vec<u32>, Exception> {
        let options = read::generate_options(&options)?;
        let prompt = read::prompt(&prompt)?;
        Ok(self.0.encode(&prompt, &options)?)
    }

    /// Passes the cached keys and values of a prompt to `write(layer, bytes): Promise`. Returns their tokens.
    ///
    /// # Errors
    /// As [`Generator::save`], and exceptions of `write`.
    pub async fn save(&mut self, prompt: JsValue, options: JsValue, write: Function) -> Result<Vec<u32>, Exception> {
        let options = read::generate_options(&options)?;
        let prompt = read::prompt(&prompt)?;
        let mut write = async |layer: usize, bytes: Vec<u8>| {
            let bytes = Uint8Array::from(&bytes[..]);
            let written = write.call2(&JsValue::NULL, &layer.into(), &bytes).map(|promise| promise.unchecked_into());
            ended(written, &self.1).await.map(drop)
        };
        self.1.or(self.0.save(&prompt, &options, &mut write).await)
    }

    /// Caches the output of `save`; `read(layer): Promise<Uint8Array>`. Returns true if it was saved with this model on this device.
    ///
    /// # Errors
    /// As [`Generator::restore`], and exceptions of `read`.
    pub async fn restore(&mut self, tokens: Vec<u32>, read: Function) -> Result<bool, Exception> {
        let mut read = async |layer: usize| {
            let bytes = read.call1(&JsValue::NULL, &layer.into()).map(|promise| promise.unchecked_into());
            Ok(Uint8Array::new(&ended(bytes, &self.1).await?).to_vec())
        };
        self.1.or(self.0.restore(&tokens, &mut read).await)
    }

    /// Returns the text of tokens.
    ///
    /// # Errors
    /// `bad-tokenizer`.
    pub fn decode(&self, ids: Vec<u32>, skip_special: bool) -> Result<String, Exception> {
        Ok(self.0.tokenizer().decode(&ids, skip_special)?)
    }

    /// Returns the device: `{name, backend, driver, max_buffer_size, max_binding_size}`.
    pub fn device(&self) -> JsValue {
        to_value(self.0.device())
    }

    /// Returns warnings about loading, for the user.
    pub fn warnings(&self) -> JsValue {
        to_value(&self.0.warnings())
    }

    /// Returns the format of tool calls in the chat template; null if it is unknown.
    pub fn tool_format(&self) -> JsValue {
        to_value(&self.0.tool_format())
    }

    /// Returns the format of thoughts in the chat template; null if it has none.
    pub fn reasoning_format(&self) -> JsValue {
        to_value(&self.0.reasoning_format())
    }

    /// Returns the bytes on the GPU: `{target, draft}`, each `{weights, kv, scratch, read_per_token}`, without those of other workers.
    pub fn memory(&self) -> JsValue {
        let [target, draft] = self.0.executor.memory();
        to_value(&json!({ "target": target.unwrap_or_default(), "draft": draft }))
    }

    /// Returns the counters of the device, without those of other workers.
    pub fn counters(&self) -> JsValue {
        to_value(&self.0.executor.counters())
    }
}
