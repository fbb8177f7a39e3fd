//! Measures a device, a loaded model on it, and the gain of speculative decoding. The program `foretoken` prints the results: commands
//! `bench`, `measure`, `inspect` and `models`.

#![forbid(unsafe_code)]

mod backend;
mod display;
mod exercise;
mod lines;
mod loss;
mod parts;
mod probe;
mod report;
mod shape;
mod spread;
mod tasks;
mod temperatures;

pub use backend::{Effort, check_context};
pub use display::{Bytes, name_device};
pub use exercise::Exercise;
pub use parts::PartList;
pub use probe::bandwidth;
pub use report::BenchReport;
pub use shape::{SHAPES, load_shape};
pub use spread::Spread;
pub use temperatures::Sweep;

use foretoken::internals::backend::{Backend, Device};
use foretoken::internals::model::Plan;
use foretoken::internals::session::Session;
use foretoken::internals::weights::Folder;
use foretoken::{LoadOptions, Result};
use parts::Parts;
use std::time::Duration;

/// Names of target and draft model.
pub type ModelNames = (String, Option<String>);

/// A run of measurements: parts that share a time limit. Lines on stderr show when each part begins.
pub struct Bench {
    effort: Effort,
    parts: Parts,
}

impl Bench {
    /// Prints to stderr the parts of the list and their time limits.
    pub fn announce(effort: Effort, time_limit: Duration, list: PartList) -> Self {
        Self { effort, parts: Parts::announce(time_limit, list) }
    }

    /// Measures the device and a model on it, without generation. The other parts add to the report.
    ///
    /// # Errors
    /// `bad-option` as [`check_context`]; errors of the device.
    pub async fn measure_backend(&self, backend: &mut dyn Backend, names: ModelNames) -> Result<BenchReport> {
        check_context(backend)?;
        let (effort, mut cut) = (self.effort, Vec::new());
        let device = backend.device().clone();
        let (arithmetic, memory) = (backend.arithmetic(), backend::memory(backend));
        let dispatches_per_layer = backend.spec().map_or(0, |spec| Plan::new(spec).dispatches_per_layer());
        let limit = self.parts.begin("probe");
        let probe_gb_per_s = probe::run(backend.gpu(), effort, &limit).await?;
        limit.end(&mut cut);
        let limit = self.parts.begin("prefill");
        let prefill = backend::prefill(backend, effort, &limit).await?;
        limit.end(&mut cut);
        let limit = self.parts.begin("verify");
        let verify = backend::verify(backend, prefill.tokens, effort, &limit).await?;
        limit.end(&mut cut);
        let limit = self.parts.begin("decode");
        let decode = backend::decode(backend, effort, probe_gb_per_s, &limit).await?;
        let rounds = backend::rounds(backend).await?;
        let drafts = backend::drafts(backend, effort, &limit).await?;
        let sampling = backend::sampling(backend, effort, &limit).await?;
        limit.end(&mut cut);
        Ok(BenchReport {
            device,
            arithmetic,
            model: names.0,
            assistant_model: names.1,
            probe_gb_per_s,
            decode,
            verify,
            prefill,
            dispatches_per_layer,
            rounds,
            sampling,
            drafts,
            lookup: backend::lookup(),
            memory,
            phases: Vec::new(),
            tasks: Vec::new(),
            draft_alone: Vec::new(),
            loss: Vec::new(),
            cut,
        })
    }

    /// Measures plain decoding and every drafter on each kind of task. `is_fixed`: with fixed numbers of draft tokens.
    ///
    /// # Errors
    /// Errors of the generation.
    pub async fn measure_tasks(
        &self,
        session: &mut Session,
        prompts: &[Exercise],
        is_fixed: bool,
        report: &mut BenchReport,
    ) -> Result<()> {
        let limit = self.parts.begin("tasks");
        let modes = if is_fixed { tasks::fixed_modes(session) } else { tasks::modes(session) };
        (report.tasks, report.phases) = tasks::run(session, prompts, &modes, self.effort, &limit).await?;
        limit.end(&mut report.cut);
        Ok(())
    }

    /// Measures plain decoding of a draft model, which `load` loads without a target. An error is only a warning on stderr: drafters that
    /// read their target's hidden states do not generate.
    pub async fn measure_draft_model(
        &self,
        load: impl Future<Output = Result<Session>>,
        prompts: &[Exercise],
        report: &mut BenchReport,
    ) {
        let limit = self.parts.begin("draft model");
        let measured = async { tasks::alone(&mut load.await?, prompts, self.effort, &limit).await };
        match measured.await {
            Ok(found) => report.draft_alone = found,
            Err(error) => eprintln!("warning: the draft model is not measured alone: {error}"),
        }
        limit.end(&mut report.cut);
    }

    /// Measures the perplexity of a text with several number types. `open` opens the model's files for each type. `text` is `None`: only a
    /// warning on stderr.
    ///
    /// # Errors
    /// Errors of opening, loading and reading.
    pub async fn measure_loss(
        &self,
        device: &Device,
        open: impl Fn() -> Result<Folder>,
        text: Option<&str>,
        options: &LoadOptions,
        report: &mut BenchReport,
    ) -> Result<()> {
        let limit = self.parts.begin("loss");
        match text {
            Some(text) => report.loss = loss::run(device, open, text, options, self.effort, &limit).await?,
            None => eprintln!("warning: only a checkout has a text for the loss: name one with --text"),
        }
        limit.end(&mut report.cut);
        Ok(())
    }

    /// Measures the gain of drafts over plain sampling at each temperature.
    ///
    /// # Errors
    /// Errors of the generation.
    pub async fn measure_temperatures(
        &self,
        session: &mut Session,
        prompts: &[Exercise],
        temperatures: &[f32],
        names: ModelNames,
    ) -> Result<Sweep> {
        let (limit, mut cut) = (self.parts.begin("temperatures"), Vec::new());
        let (texts, temperatures) = temperatures::run(session, prompts, temperatures, self.effort, &limit).await?;
        limit.end(&mut cut);
        let backend = session.engine();
        let (device, arithmetic) = (backend.device().clone(), backend.arithmetic());
        let (model, assistant_model) = names;
        Ok(Sweep { device, arithmetic, model, assistant_model, texts, temperatures, cut })
    }
}
