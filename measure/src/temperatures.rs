//! Gain of drafts over plain sampling, by temperature.

use super::backend::Effort;
use super::display::name_device;
use super::exercise::Exercise;
use super::lines::{LinePlot, LinePlots, lines};
use super::parts::Limit;
use super::tasks::{Gain, Sum, TaskMode, by_drafter, generate_all};
use foretoken::internals::session::Session;
use foretoken::{Acceptance, Arithmetic, DeviceInfo, DrafterChoice, GenerateOptions, Result, Speculation};
use serde::Serialize;
use std::fmt::{self, Display};

/// Name of the mode at temperature 0, where both kinds of acceptance are the same.
const GREEDY: &str = "greedy";
const SAMPLED: [(&str, Acceptance); 2] = [("coupled", Acceptance::Coupled), ("rejection", Acceptance::Rejection)];

/// Gain of drafts at a temperature.
#[derive(Serialize)]
pub(super) struct GainAt {
    pub temperature: f32,
    /// Rule of acceptance: `greedy`, `coupled` or `rejection`.
    pub mode: String,
    #[serde(flatten)]
    pub gain: Gain,
}

/// All results of a sweep.
#[derive(Serialize)]
pub struct Sweep {
    pub(super) device: DeviceInfo,
    pub(super) arithmetic: Arithmetic,
    pub(super) model: String,
    pub(super) assistant_model: Option<String>,
    /// Prompts whose texts were completed, each with every seed.
    pub(super) texts: usize,
    pub(super) temperatures: Vec<GainAt>,
    /// Parts that reached their time limit.
    pub(super) cut: Vec<&'static str>,
}

/// Generates a text of each prompt with each seed, at each temperature, plainly and with drafts. Texts that were not completed in every
/// mode within the limit are omitted. Returns the number of texts too.
pub(super) async fn run(
    session: &mut Session,
    prompts: &[Exercise],
    temperatures: &[f32],
    effort: Effort,
    limit: &Limit,
) -> Result<(usize, Vec<GainAt>)> {
    let mut modes: Vec<(f32, TaskMode)> = Vec::new();
    for temperature in temperatures {
        modes.extend(modes_at(*temperature, modes.len(), session).map(|mode| (*temperature, mode)));
    }
    let (temperatures, modes): (Vec<_>, Vec<_>) = modes.into_iter().unzip();
    let mut sums = vec![Sum::default(); modes.len()];
    let mut texts = 0;
    // The seeds vary first among all prompts, so that the limit cuts seeds before prompts.
    for seed in 1..=effort.texts as u64 {
        let modes: Vec<_> = modes.iter().map(|mode| mode.with_seed(seed)).collect();
        let once = Effort { texts: 1, ..effort };
        for (_, written) in generate_all(session, prompts, &modes, once, limit).await? {
            sums.iter_mut().zip(&written).for_each(|(sum, texts)| sum.add(texts));
            texts += 1;
        }
    }
    let drafted = modes
        .iter()
        .zip(&temperatures)
        .zip(&sums)
        .enumerate()
        .filter(|(index, ((mode, _), sum))| mode.plain != *index && sum.tokens > 0);
    let gains = drafted.map(|(_, ((mode, temperature), sum))| GainAt {
        temperature: *temperature,
        mode: mode.name.clone(),
        gain: sum.gain(&sums[mode.plain]),
    });
    Ok((texts, gains.collect()))
}

/// Returns the modes at a temperature, the first of which has index `plain`: without drafts, and with each rule of acceptance.
fn modes_at(temperature: f32, plain: usize, session: &Session) -> impl Iterator<Item = TaskMode> {
    let drafter = match session.engine().draft_memory() {
        Some(_) => DrafterChoice::DraftModel,
        None => DrafterChoice::Lookup,
    };
    let options = move |speculation, acceptance| -> GenerateOptions {
        let options = by_drafter(drafter).speculation(speculation).acceptance(acceptance);
        if temperature == 0.0 { options.do_sample(false) } else { options.do_sample(true).temperature(temperature) }
    };
    let drafted: &[_] = if temperature == 0.0 { &[(GREEDY, Acceptance::Coupled)] } else { &SAMPLED };
    let off = TaskMode { name: "plain".into(), options: options(Speculation::Off, Acceptance::Coupled), plain };
    let drafted = drafted.iter().map(move |(name, acceptance)| {
        let options = options(Speculation::Auto, *acceptance);
        TaskMode { name: (*name).into(), options, plain }
    });
    std::iter::once(off).chain(drafted)
}

impl Sweep {
    /// Draws the gain in tokens per pass and in time, as SVG.
    pub fn picture(&self) -> String {
        let line = |mode: &str, value: fn(&Gain) -> f64| {
            let alike = self.temperatures.iter().filter(|at| at.mode == mode || at.mode == GREEDY);
            let mut points: Vec<_> = alike.map(|at| (f64::from(at.temperature), value(&at.gain))).collect();
            points.sort_by(|a, b| a.0.total_cmp(&b.0));
            points
        };
        let plot = |title, value| LinePlot { title, lines: SAMPLED.map(|(mode, _)| line(mode, value)).to_vec() };
        let name = |path: &str| match path.split('/').find_map(|part| part.strip_prefix("models--")) {
            // A folder of the Hub's cache.
            Some(id) => id.replacen("--", "/", 1),
            None => path.rsplit('/').take(2).collect::<Vec<_>>().into_iter().rev().collect::<Vec<_>>().join("/"),
        };
        let drafter = self.assistant_model.as_deref().map_or_else(|| "lookup".into(), name);
        let about = format!("{}, drafted by {drafter}; {} texts", name(&self.model), self.texts);
        lines(&LinePlots {
            title: "Gain of drafts over plain sampling by temperature",
            about: &about,
            across: "temperature",
            names: &["coupled acceptance", "rejection sampling"],
            plots: &[
                plot("tokens per forward pass of the target", |gain| gain.mean_acceptance_length),
                plot("times as fast as plain sampling", |gain| gain.speedup),
            ],
        })
    }
}

impl Display for Sweep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.cut.is_empty() {
            writeln!(f, "cut      ended by the time limit: fewer texts")?;
        }
        let arithmetic = format!("{:?}", self.arithmetic).to_lowercase();
        writeln!(f, "device   {}, {}; {arithmetic} arithmetic", name_device(&self.device), self.device.driver)?;
        let drafter = self.assistant_model.as_deref().unwrap_or("lookup");
        writeln!(f, "model    {}, drafted by {drafter}; {} texts", self.model, self.texts)?;
        writeln!(f, "gains    temperature  mode      tokens  rounds  length    rate  speedup          tokens/s")?;
        for GainAt { temperature, mode, gain } in &self.temperatures {
            writeln!(f, "         {temperature:<11}  {mode:<9} {gain}")?;
        }
        Ok(())
    }
}
