//! Overlapped compared to sequential rounds: the share of host work that overlaps with the device, and the speedup.

use super::measure::{Effort, median};
use super::parts::Limit;
use super::tasks::{Exercise, LOOKUP_TOKENS, warm_up, write};
use foretoken::internals::session::Session;
use foretoken::{DrafterChoice, GenerateOptions, Prompt, Result, Schedule, Speculation, Stats};
use serde::Serialize;

/// Pairs of texts per prompt, for each of [`Effort::texts`].
const PAIRS: usize = 2;
const TOKENS: usize = 48;

/// Results of one mode: medians over texts. Host work is the minimum over texts, because other load on the machine only adds to it.
#[derive(Serialize)]
pub(super) struct Overlap {
    pub mode: &'static str,
    /// Pairs of a sequential and an overlapped text.
    pub pairs: usize,
    /// Overlapped rounds.
    pub rounds: usize,
    /// Time of a sequential round.
    pub round_ms: f64,
    /// Host work of a sequential round.
    pub sequential_host_ms: f64,
    /// Host work of an overlapped round.
    pub host_ms: f64,
    /// Share of host work that overlapped with the device.
    pub hidden: f64,
    /// Rounds with prepared commands / rounds.
    pub prepared: f64,
    /// Rounds submitted before the previous round was read / rounds.
    pub ahead: f64,
    pub sequential_tokens_per_second: f64,
    pub tokens_per_second: f64,
    /// Median over pairs of sequential time / overlapped time; the two alternate.
    pub speedup: f64,
}

/// A way to draft, with its texts.
struct OverlapMode {
    name: &'static str,
    options: GenerateOptions,
    /// Sequential and overlapped texts.
    texts: [Vec<Stats>; 2],
    /// Speedup of each pair.
    speedups: Vec<f64>,
    prepared: u64,
    ahead: u64,
}

/// Measures plain decoding, the draft model at a constant lookahead, the lookup, and all of them by the adaptive schedule. All prompts run
/// once before any is repeated. Modes without a complete pair within the limit are omitted.
pub(super) async fn run(
    session: &mut Session,
    exercises: &[Exercise],
    effort: Effort,
    limit: &Limit,
) -> Result<Vec<Overlap>> {
    let mut modes = modes(session, effort);
    'pairs: for pair in 0..PAIRS * effort.texts {
        for exercise in exercises {
            let prompt = Prompt::Text(exercise.prompt.clone());
            for mode in &mut modes {
                if !mode.write_text(session, &prompt, pair, limit).await? {
                    break 'pairs;
                }
            }
        }
    }
    Ok(modes.iter().filter(|mode| !mode.speedups.is_empty()).map(OverlapMode::result).collect())
}

fn modes(session: &Session, effort: Effort) -> Vec<OverlapMode> {
    let (auto, constant) = (Speculation::Auto, Schedule::Constant);
    let mut modes = vec![
        ("plain", DrafterChoice::Auto, Speculation::Off, constant),
        ("lookup", DrafterChoice::Lookup, auto, constant),
        ("adaptive", DrafterChoice::Auto, auto, Schedule::Adaptive),
    ];
    if session.engine().draft_memory().is_some() {
        modes.insert(1, ("draft_model", DrafterChoice::DraftModel, auto, constant));
    }
    let mode = |(name, drafter, speculation, num_assistant_tokens_schedule)| {
        let options = GenerateOptions::new()
            .max_new_tokens(effort.tokens.min(TOKENS))
            .num_assistant_tokens_schedule(num_assistant_tokens_schedule)
            .prompt_lookup_num_tokens(LOOKUP_TOKENS)
            .drafter(drafter)
            .speculation(speculation);
        OverlapMode { name, options, texts: Default::default(), speedups: Vec::new(), prepared: 0, ahead: 0 }
    };
    modes.into_iter().map(mode).collect()
}

impl OverlapMode {
    /// Generates a text in both ways, in alternating order. Returns false if the limit was reached.
    async fn write_text(&mut self, session: &mut Session, prompt: &Prompt, pair: usize, limit: &Limit) -> Result<bool> {
        warm_up(session, prompt, &self.options, limit).await?;
        let mut seconds = [0.0; 2];
        for turn in 0..2 {
            let overlap = (pair + turn) % 2 == 1;
            let before = session.engine().counters();
            let options = self.options.clone().overlap(overlap);
            let Some(stats) = write(session, prompt, &options, limit).await? else { return Ok(false) };
            if overlap {
                let did = session.engine().counters().since(&before);
                self.prepared += did.prepared;
                self.ahead += did.ahead;
            }
            seconds[usize::from(overlap)] = stats.times.total;
            self.texts[usize::from(overlap)].push(stats);
        }
        self.speedups.push(seconds[0] / seconds[1]);
        Ok(true)
    }

    fn result(&self) -> Overlap {
        let [sequential, overlapped] = &self.texts;
        let rounds = overlapped.iter().map(|stats| stats.num_spec_steps).sum();
        let least = |texts: &[Stats]| {
            texts.iter().map(Host::from_stats).min_by(|a, b| a.ms.total_cmp(&b.ms)).unwrap_or_default()
        };
        let host = least(overlapped);
        let median_of = |texts: &[Stats], what: fn(&Stats) -> f64| median(texts.iter().map(what).collect());
        Overlap {
            mode: self.name,
            pairs: self.speedups.len(),
            rounds,
            round_ms: median_of(sequential, |stats| 1e3 * stats.times.total / stats.num_spec_steps as f64),
            sequential_host_ms: least(sequential).ms,
            host_ms: host.ms,
            hidden: host.hidden,
            prepared: self.prepared as f64 / rounds as f64,
            ahead: self.ahead as f64 / rounds as f64,
            sequential_tokens_per_second: median_of(sequential, speed),
            tokens_per_second: median_of(overlapped, speed),
            speedup: median(self.speedups.clone()),
        }
    }
}

/// Host work of a text.
#[derive(Default)]
struct Host {
    /// Milliseconds per round.
    ms: f64,
    hidden: f64,
}

impl Host {
    fn from_stats(stats: &Stats) -> Self {
        let times = &stats.times;
        Self { ms: 1e3 * times.host / stats.num_spec_steps as f64, hidden: times.hidden / times.host }
    }
}

fn speed(stats: &Stats) -> f64 {
    stats.num_emitted_tokens as f64 / stats.times.total
}
