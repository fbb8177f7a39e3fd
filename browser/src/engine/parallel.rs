//! JavaScript bindings for several targets: their workers, and the loop that runs in each.

use super::files::{Files, JsSource, Thrown, hear};
use super::read;
use super::session::JsSession;
use crate::Exception;
use crate::to_value;
use foretoken::internals::backend::server::Later;
use foretoken::internals::gpu::DeviceInfo;
use foretoken::internals::options::DeviceChoice;
use foretoken::internals::parallel::{
    Command, Inbox, Instances, LocalDevice, ModelInstance, NumberedReport, PreparedParts, Report, Role, run_instance,
    set_up,
};
use foretoken::internals::sample::Sampling;
use foretoken::{Error, Result};
use futures_channel::mpsc::{UnboundedSender, unbounded};
use js_sys::Function;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_wasm_bindgen::from_value;
use wasm_bindgen::prelude::*;
use wasm_bindgen_futures::spawn_local;

#[wasm_bindgen]
extern "C" {
    /// Workers with one instance each; the last one has the draft model (www/instance-workers.ts).
    pub type Workers;

    /// Loads the models. Fulfils with `{device, failed}`; `failed`: why a requested draft model is missing.
    #[wasm_bindgen(method, catch)]
    async fn start(this: &Workers, with_drafter: bool, context: usize) -> Result<JsValue, JsValue>;
    #[wasm_bindgen(method)]
    fn begin(this: &Workers, command: JsValue);
    #[wasm_bindgen(method, js_name = order)]
    fn send(this: &Workers, to: usize, command: JsValue);
    /// Fulfils with the next [`NumberedReport`], or with undefined if none came within `within` milliseconds.
    #[wasm_bindgen(method)]
    async fn report(this: &Workers, within: Option<f64>) -> JsValue;
}

/// [`Workers`] as [`Instances`].
pub struct JsInstances {
    workers: Workers,
    sp_degree: usize,
    has_drafter: bool,
    /// Number of the text.
    text: u64,
}

impl Instances for JsInstances {
    fn sp_degree(&self) -> usize {
        self.sp_degree
    }

    fn has_drafter(&self) -> bool {
        self.has_drafter
    }

    fn begin(&mut self, sampling: &Sampling, _: &Sampling) {
        self.text += 1;
        self.workers.begin(to_value(&Command::Begin { text: self.text, sampling: sampling.clone() }));
    }

    fn send(&mut self, to: Role, command: Command) {
        let to = match to {
            Role::Target(server) => server,
            Role::Drafter => self.sp_degree,
        };
        self.workers.send(to, to_value(&command));
    }

    fn report(&mut self, within: Option<f64>) -> Later<'_, Result<Option<Report>>> {
        Box::pin(async move {
            loop {
                match read(self.workers.report(within.map(|seconds| 1000.0 * seconds)).await)? {
                    Some(NumberedReport { text: Some(text), .. }) if text != self.text => {}
                    other => return Ok(other.map(|NumberedReport { report, .. }| report)),
                }
            }
        })
    }
}

/// Reads a message of another worker.
fn read<T: DeserializeOwned>(value: JsValue) -> Result<T> {
    from_value(value).map_err(|error| Error::Internal { reason: format!("a worker's message cannot be read: {error}") })
}

/// Result of loading in the workers.
#[derive(Deserialize)]
struct Started {
    device: DeviceInfo,
    failed: Option<String>,
}

/// Loads a target into `options.sp_degree` workers and, unless `assistant` is null, a draft model into one more. This worker reads
/// everything except the weights.
///
/// # Errors
/// As [`foretoken::internals::session::Session::load`], and exceptions of sources and workers.
#[wasm_bindgen(js_name = loadParallel)]
pub async fn load_parallel(
    target: Files,
    assistant: Option<Files>,
    workers: Workers,
    options: JsValue,
) -> Result<JsSession, Exception> {
    let thrown = Thrown::default();
    let target = JsSource::new(target, &thrown);
    let assistant = assistant.map(|files| JsSource::new(files, &Thrown::default()));
    let prepared = async {
        let options = read::load_options(&options)?;
        Ok((
            PreparedParts::open(Box::new(target), assistant.map(|files| Box::new(files) as _), &options).await?,
            options.sp_degree,
        ))
    };
    let (prepared, sp_degree) = thrown.or(prepared.await)?;
    let started = workers.start(prepared.with_drafter, prepared.prompts.context).await?;
    let Started { device, failed } = read(started)?;
    let has_drafter = prepared.with_drafter && failed.is_none();
    let instances = JsInstances { workers, sp_degree, has_drafter, text: 0 };
    Ok(JsSession(Box::new(prepared.with(instances, device, failed.as_deref())), thrown))
}

/// A worker's instance, which carries out commands on the event loop.
#[wasm_bindgen(js_name = Server)]
pub struct JsServer {
    commands: UnboundedSender<Command>,
    local: LocalDevice,
}

/// Loads a model as target instance `index`, or as the draft model if `context` has the target's positions, on the power-saving adapter if
/// `low_power`. Then carries out commands. `progress(loaded, total)` is called as bytes reach the GPU, `tell({text, report})` for each
/// report.
///
/// # Errors
/// As [`set_up`], and exceptions of the source.
#[wasm_bindgen]
pub async fn serve(
    files: Files,
    index: usize,
    context: Option<usize>,
    low_power: bool,
    options: JsValue,
    progress: Function,
    tell: Function,
) -> Result<JsServer, Exception> {
    let thrown = Thrown::default();
    let source = JsSource::new(files, &thrown);
    let mut options = read::load_options(&options)?;
    if options.sp_degree > 1 {
        options.device = DeviceChoice::Webgpu;
    }
    let local = LocalDevice::default();
    let set_up_there = local.clone();
    let build = move || -> Later<'static, _> {
        let (source, options, local) = (source.clone(), options.clone(), set_up_there.clone());
        let mut hear = hear(progress.clone());
        Box::pin(async move { set_up(Box::new(source), context, &options, low_power, &local, &mut hear).await })
    };
    let instance = ModelInstance::new(thrown.or(build().await)?, Box::new(build));
    let (commands, inbox) = unbounded();
    let role = if context.is_some() { Role::Drafter } else { Role::Target(index) };
    let on_report = Box::new(move |text: u64, report: Report| {
        let _ = tell.call1(&JsValue::NULL, &to_value(&NumberedReport { text: Some(text), report }));
    });
    spawn_local(run_instance(role, instance, Inbox::new(inbox), on_report));
    Ok(JsServer { commands, local })
}

#[wasm_bindgen(js_class = Server)]
impl JsServer {
    /// Adds a command to the queue.
    ///
    /// # Errors
    /// `internal` if it cannot be read.
    #[wasm_bindgen(js_name = order)]
    pub fn send(&self, command: JsValue) -> Result<(), Exception> {
        // The receiver lives as long as this object.
        let _ = self.commands.unbounded_send(read(command)?);
        Ok(())
    }

    /// Returns the device, as [`JsSession::device`].
    pub fn device(&self) -> JsValue {
        to_value(&self.local.borrow().as_ref().map(|on| on.device.info().clone()))
    }

    /// Returns the bytes on the GPU: `{weights, kv, scratch, read_per_token}`.
    pub fn memory(&self) -> JsValue {
        to_value(&self.local.borrow().as_ref().map(|on| on.memory))
    }

    /// Returns the counters of the device.
    pub fn counters(&self) -> JsValue {
        to_value(&self.local.borrow().as_ref().map(|on| on.device.counters()))
    }
}
