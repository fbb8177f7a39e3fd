//! Times and counts of one model on one device, without generation.

use super::parts::Limit;
use foretoken::internals::backend::Backend;
use foretoken::internals::backend::gpu::GpuModel;
use foretoken::internals::model::{DeltaHistory, Mixer, ModelSpec};
use foretoken::internals::sample::{Draw, Processors, Sampling};
use foretoken::internals::speculate::{Drafter, PromptLookup};
use foretoken::internals::target::{Draft, run_round};
use foretoken::{Error, LookupRule, Result};
use serde::Serialize;
use std::time::{Duration, Instant};

/// Cached positions at which rounds are measured.
const KV_LENGTHS: [usize; 2] = [32, 512];
/// Draft tokens of rounds with a draft.
const DRAFTS: [usize; 3] = [1, 4, 7];
/// Rows of a verify: the pending token and draft tokens.
const ROWS: [usize; 5] = [1, 2, 4, 8, 16];
const ROUND_DRAFT: usize = 5;
/// Fewest positions that the shorter of the measured contexts needs.
const LEAST_CONTEXT: usize = 64;

/// Tokens of the text in which the lookup is measured.
const LOOKUP_TEXT: usize = 32_768;
/// Rounds of the lookup, each after three new tokens.
const LOOKUP_ROUNDS: usize = 1000;

/// Number of measurements, if time allows.
#[derive(Clone, Copy)]
pub struct Effort {
    /// Repeats of short measurements, as long as a round.
    pub(super) rounds: usize,
    /// Repeats of long measurements, as long as a text.
    pub(super) texts: usize,
    /// Prompts of each kind of task.
    pub(super) prompts: usize,
    /// Most tokens of each text.
    pub(super) tokens: usize,
    /// Most tokens of the tale.
    pub(super) tale: usize,
}

impl Effort {
    /// Few measurements, of short texts.
    pub const QUICK: Self = Self { rounds: 3, texts: 1, prompts: 1, tokens: 24, tale: 256 };
    /// All measurements.
    pub const FULL: Self = Self { rounds: 15, texts: 3, prompts: usize::MAX, tokens: usize::MAX, tale: 2000 };
}

/// Plain decoding.
#[derive(Serialize)]
pub(super) struct Decode {
    pub tokens_per_second: f64,
    /// Bytes of weights read per token, without the KV cache.
    pub bytes_per_token: u64,
    pub fraction_of_probe: f64,
}

/// Prefill of a prompt.
#[derive(Serialize)]
pub(super) struct Prefill {
    pub tokens: usize,
    pub tokens_per_second: f64,
}

/// Prompt lookup in a long text: reading it once, then a round.
#[derive(Serialize)]
pub(super) struct Lookup {
    pub tokens: usize,
    pub read_ms: f64,
    pub round_us: f64,
}

/// Target forwards of several sizes; `ratio` decides whether speculation pays.
#[derive(Serialize)]
pub(super) struct Verify {
    pub kv_length: usize,
    pub rows: [usize; ROWS.len()],
    pub ms: [f64; ROWS.len()],
    pub ratio: [f64; ROWS.len()],
}

/// Cost of a draft of the drafter on the device, in plain rounds of the target.
#[derive(Serialize)]
pub(super) struct DraftCost {
    pub tokens: usize,
    /// Drafting. Negative: less than the noise.
    pub draft: f64,
    /// Verification of as many tokens.
    pub verification: f64,
}

/// Cost of sampling with top-p instead of greedily.
#[derive(Serialize)]
pub(super) struct SamplingCost {
    pub vocab: usize,
    /// Extra milliseconds per row of a verify.
    pub ms_per_row: f64,
}

/// Device operations of one round.
#[derive(Serialize)]
pub(super) struct Rounds {
    pub submits: u64,
    pub blocking_readbacks: u64,
    pub readback_bytes: u64,
    pub creates: u64,
    pub dispatches: u64,
}

/// Bytes on the device.
#[derive(Serialize)]
pub(super) struct BenchMemory {
    /// Weights of the target.
    pub weights: u64,
    /// KV cache of the target.
    pub kv: u64,
    /// Recurrent state of one position to which a text can be cut; 0: the target has none and can be cut anywhere.
    pub checkpoint: u64,
    /// Weights and KV cache of the draft model.
    pub draft: u64,
    /// Scratch memory of both models, as planned.
    pub scratch: u64,
    /// All buffers, as counted on a GPU.
    pub allocated: Option<u64>,
    /// allocated - weights - kv - draft - scratch: token ids, sizes for the kernels, readback buffers.
    pub unplanned: Option<i64>,
}

pub(super) fn median(mut seconds: Vec<f64>) -> f64 {
    seconds.sort_by(f64::total_cmp);
    seconds.get(seconds.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Refuses a context that is too short to be measured.
///
/// # Errors
/// `bad-option` for `max_context`.
pub fn check_context(engine: &dyn Backend) -> Result<()> {
    let max_context = engine.capacity();
    if max_context >= LEAST_CONTEXT {
        return Ok(());
    }
    let (value, allowed) = (max_context.to_string(), format!("{LEAST_CONTEXT} or more for a bench"));
    Err(Error::BadOption { option: "max_context".into(), value, allowed })
}

/// Returns various tokens: equal ones would use the same experts.
fn tokens(engine: &dyn Backend, count: usize) -> Vec<u32> {
    let vocab = engine.spec().map_or(1, |spec| spec.vocab_size);
    (0..count).map(|i| (i * 31 % vocab) as u32).collect()
}

fn draft(engine: &dyn Backend, rows: usize) -> Draft {
    Draft::Tokens(tokens(engine, rows - 1))
}

/// Fills the cache for the following measurements: up to the longest KV length that leaves room for a round, or as far as time allows, but
/// at least to the shortest.
pub(super) async fn prefill(engine: &mut dyn Backend, effort: Effort, limit: &Limit) -> Result<Prefill> {
    let most = engine.capacity() - ROWS[ROWS.len() - 1];
    let mut tokens = tokens(engine, KV_LENGTHS.into_iter().filter(|length| *length <= most).max().unwrap_or(0));
    let chunk = engine.prefill_chunk().min(tokens.len());
    engine.truncate(0);
    engine.prefill(&tokens[..chunk]).await?;
    flush(engine).await?;
    let (mut seconds, mut latest) = (Vec::new(), Duration::ZERO);
    for text in 0..effort.texts {
        if text > 0 && !limit.leaves(latest) {
            break;
        }
        engine.truncate(0);
        let began = Instant::now();
        let mut done = 0;
        while done < tokens.len() && (done < KV_LENGTHS[0] || text > 0 || !limit.over()) {
            let next = tokens.len().min(done + chunk);
            engine.prefill(&tokens[done..next]).await?;
            flush(engine).await?;
            done = next;
        }
        tokens.truncate(done);
        latest = began.elapsed();
        seconds.push(latest.as_secs_f64());
    }
    Ok(Prefill { tokens: tokens.len(), tokens_per_second: tokens.len() as f64 / median(seconds) })
}

/// Waits until the device has completed all submissions.
async fn flush(engine: &dyn Backend) -> Result<()> {
    match engine.gpu() {
        Some(gpu) => gpu.flush().await,
        None => Ok(()),
    }
}

/// Times rounds with each draft at a KV length. They alternate, so that a change of the device's speed affects all of them. Returns medians
/// in seconds; `None` if there was no time for one of them, or a draft was shorter.
async fn times<const N: usize>(
    engine: &mut dyn Backend,
    kv_length: usize,
    drafts: &[Draft; N],
    effort: Effort,
    limit: &Limit,
) -> Result<Option<[f64; N]>> {
    let mut seconds = [(); N].map(|()| Vec::new());
    for repeat in 0..=effort.rounds {
        for (draft, seconds) in drafts.iter().zip(&mut seconds).filter(|_| !limit.over()) {
            engine.truncate(kv_length);
            // What the drafter has not read yet is not part of the round.
            while engine.catch_up(1).await? > 0 {}
            let began = Instant::now();
            let drafted = run_round(engine, 1, draft).await?.draft.len();
            if repeat > 0 && drafted == draft.len() {
                seconds.push(began.elapsed().as_secs_f64());
            }
        }
    }
    Ok(seconds.iter().all(|seconds| !seconds.is_empty()).then(|| seconds.map(median)))
}

/// Measures plain decoding at the shortest KV length, which the cache must hold.
pub(super) async fn decode(
    engine: &mut dyn Backend,
    effort: Effort,
    probe_gb_per_s: f64,
    limit: &Limit,
) -> Result<Decode> {
    let drafts = [draft(engine, 1)];
    let seconds = match times(engine, KV_LENGTHS[0], &drafts, effort, limit).await? {
        Some([seconds]) => seconds,
        None => {
            engine.truncate(KV_LENGTHS[0]);
            let began = Instant::now();
            run_round(engine, 1, &drafts[0]).await?;
            began.elapsed().as_secs_f64()
        }
    };
    let tokens_per_second = 1.0 / seconds;
    let bytes_per_token = engine.memory().read_per_token;
    let fraction_of_probe = bytes_per_token as f64 * tokens_per_second / 1e9 / probe_gb_per_s;
    Ok(Decode { tokens_per_second, bytes_per_token, fraction_of_probe })
}

/// Measures target forwards of each number of rows at each KV length that the cache holds.
pub(super) async fn verify(
    engine: &mut dyn Backend,
    cached: usize,
    effort: Effort,
    limit: &Limit,
) -> Result<Vec<Verify>> {
    let mut all = Vec::new();
    // The longest first: truncating the cache gives the shorter ones.
    for kv_length in KV_LENGTHS.into_iter().rev().filter(|length| *length <= cached) {
        let drafts = ROWS.map(|rows| draft(engine, rows));
        let Some(seconds) = times(engine, kv_length, &drafts, effort, limit).await? else { break };
        let ms = seconds.map(|seconds| 1e3 * seconds);
        all.insert(0, Verify { kv_length, rows: ROWS, ms, ratio: ms.map(|time| time / ms[0]) });
    }
    Ok(all)
}

/// Measures drafts of the drafter on the device, if there is one, compared to plain rounds and rounds with given tokens.
pub(super) async fn drafts(engine: &mut dyn Backend, effort: Effort, limit: &Limit) -> Result<Vec<DraftCost>> {
    let mut costs = Vec::new();
    let has_drafter = engine.draft_memory().is_some();
    for tokens in DRAFTS.into_iter().filter(|_| has_drafter) {
        let rounds = [draft(engine, 1), draft(engine, 1 + tokens), Draft::Model(tokens)];
        let Some([plain, given, drafted]) = times(engine, KV_LENGTHS[0], &rounds, effort, limit).await? else { break };
        costs.push(DraftCost { tokens, draft: (drafted - given) / plain, verification: given / plain });
    }
    Ok(costs)
}

/// Compares greedy and top-p verification; `None` if there is no time.
pub(super) async fn sampling(engine: &mut dyn Backend, effort: Effort, limit: &Limit) -> Result<Option<SamplingCost>> {
    let (vocab, rows) = (engine.spec().map_or(0, |spec| spec.vocab_size), ROWS[3]);
    let drafts = [draft(engine, rows)];
    let processors = Processors { top_p: 0.9, ..Processors::default() };
    let drawn = Sampling { processors, draw: Draw::Coupled, ..Sampling::default() };
    engine.sample_by(&drawn)?;
    let drawn = times(engine, KV_LENGTHS[0], &drafts, effort, limit).await?;
    engine.sample_by(&Sampling::default())?;
    let greedy = times(engine, KV_LENGTHS[0], &drafts, effort, limit).await?;
    let ms_per_row = |([drawn], [greedy]): ([f64; 1], [f64; 1])| 1e3 * (drawn - greedy).max(0.0) / rows as f64;
    Ok(drawn.zip(greedy).map(|both| SamplingCost { vocab, ms_per_row: ms_per_row(both) }))
}

/// Counts the operations of a round on a GPU, after a warm-up.
pub(super) async fn rounds(engine: &mut dyn Backend) -> Result<Option<Rounds>> {
    if engine.on_gpu().is_none() {
        return Ok(None);
    }
    let draft = match engine.draft_memory() {
        Some(_) => Draft::Model(ROUND_DRAFT),
        None => Draft::Tokens(tokens(engine, ROUND_DRAFT)),
    };
    let mut before = engine.counters();
    for _ in 0..3 {
        engine.truncate(KV_LENGTHS[0]);
        before = engine.counters();
        run_round(engine, 1, &draft).await?;
    }
    let steady = engine.counters().since(&before);
    Ok(Some(Rounds {
        submits: steady.submits,
        blocking_readbacks: steady.blocking_readbacks,
        readback_bytes: steady.readback_bytes,
        creates: steady.creates,
        dispatches: steady.dispatches,
    }))
}

/// Returns planned memory, and on a GPU also allocated memory. Must be called before all other measurements.
pub(super) fn memory(engine: &dyn Backend) -> BenchMemory {
    let (target, draft) = match engine.on_gpu() {
        Some(engine) => (engine.target().memory_now(), engine.draft().map(GpuModel::memory_now)),
        None => (engine.memory(), engine.draft_memory()),
    };
    let draft = draft.unwrap_or_default();
    let allocated = engine.gpu().map(|gpu| gpu.counters().allocated);
    BenchMemory {
        weights: target.weights,
        kv: target.kv,
        checkpoint: engine.spec().map_or(0, checkpoint_bytes),
        draft: draft.weights + draft.kv,
        scratch: target.scratch + draft.scratch,
        allocated,
        unplanned: allocated.map(|allocated| allocated as i64 - (target.total() + draft.total()) as i64),
    }
}

/// Returns the bytes of the recurrent state of one position, over all layers.
fn checkpoint_bytes(spec: &ModelSpec) -> u64 {
    let numbers = spec.layers.iter().map(|layer| match &layer.mixer {
        Mixer::Attention(_) => 0,
        Mixer::ShortConv { taps } => (taps - 1) * spec.hidden_size,
        Mixer::DeltaNet(delta) => DeltaHistory { spec: *delta }.slot_len(),
    });
    numbers.sum::<usize>() as u64 * size_of::<f32>() as u64
}

/// Looks up 10 tokens after n-grams of up to 3, in a text with 4,096 distinct tokens, some of them frequent.
pub(super) fn lookup() -> Lookup {
    let mut state = 1u32;
    let mut token = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let (a, b) = (state >> 20, state >> 8 & 0xfff);
        a * b / 4096
    };
    let mut text: Vec<u32> = (0..LOOKUP_TEXT).map(|_| token()).collect();
    let mut lookup = PromptLookup::new(10, 3, LookupRule::Leftmost, &[]);
    let began = Instant::now();
    let mut drafted = lookup.draft(&text, LOOKUP_TEXT).len();
    let read = began.elapsed().as_secs_f64();
    let began = Instant::now();
    for _ in 0..LOOKUP_ROUNDS {
        text.extend([token(), token(), token()]);
        drafted += lookup.draft(&text, LOOKUP_TEXT).len();
    }
    let rounds = began.elapsed().as_secs_f64();
    // Keeps the compiler from removing the work.
    std::hint::black_box(drafted);
    Lookup { tokens: LOOKUP_TEXT, read_ms: read * 1e3, round_us: rounds * 1e6 / LOOKUP_ROUNDS as f64 }
}
