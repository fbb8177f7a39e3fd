//! Times and counts of one model on one device, without text.

use super::parts::Limit;
use crate::decode::Engine;
use crate::error::Result;
use crate::gpu::{Gpu, Kernel, Readback};
use crate::options::LookupRule;
use crate::speculate::{Drafter, PromptLookup};
use crate::target::{Draft, Target};
use crate::weights::{Float, Format};
use serde::Serialize;
use std::time::{Duration, Instant};

/// Larger than the caches of any device, so that the memory is measured.
const PROBE_BYTES: u64 = 256 << 20;
/// Reads per submission, so that submitting does not count.
const PROBE_READS: u64 = 8;
/// Workgroups of a read: enough threads to fill any device.
const PROBE_GROUPS: u32 = 4096;
/// Cached positions at which rounds are measured.
const KV_LENGTHS: [usize; 2] = [32, 512];
/// Rows of a verify: the pending token and draft tokens.
const ROWS: [usize; 5] = [1, 2, 4, 8, 16];
/// Draft tokens of the counted round.
const ROUND_DRAFT: usize = 5;

/// Tokens of the text in which the lookup is measured.
const LOOKUP_TEXT: usize = 32_768;
/// Rounds of that measurement, each after three new tokens.
const LOOKUP_ROUNDS: usize = 1000;

/// How often to measure, if there is time.
#[derive(Clone, Copy)]
pub(super) struct Effort {
    /// What takes a round's time.
    pub rounds: usize,
    /// What takes a text's time.
    pub texts: usize,
    /// Prompts of each kind of task.
    pub prompts: usize,
    /// Most tokens of each text.
    pub tokens: usize,
    /// Most tokens of the tale.
    pub tale: usize,
}

impl Effort {
    pub const QUICK: Self = Self { rounds: 3, texts: 1, prompts: 1, tokens: 24, tale: 256 };
    pub const FULL: Self = Self { rounds: 15, texts: 3, prompts: usize::MAX, tokens: usize::MAX, tale: 2000 };
}

/// Plain steps.
#[derive(Serialize)]
pub(super) struct Decode {
    pub tokens_per_second: f64,
    /// Of the weights; the KV cache comes on top.
    pub bytes_per_token: u64,
    pub fraction_of_probe: f64,
}

/// Prompt tokens.
#[derive(Serialize)]
pub(super) struct Prefill {
    pub tokens: usize,
    pub tokens_per_second: f64,
}

/// The prompt lookup in a long text: reading it once, then a round.
#[derive(Serialize)]
pub(super) struct Lookup {
    pub tokens: usize,
    pub read_ms: f64,
    pub round_us: f64,
}

/// One target forward by its rows: `ratio` is what decides whether speculation pays.
#[derive(Serialize)]
pub(super) struct Verify {
    pub kv_length: usize,
    pub rows: [usize; ROWS.len()],
    pub ms: [f64; ROWS.len()],
    pub ratio: [f64; ROWS.len()],
}

/// What one round asks of the device.
#[derive(Serialize)]
pub(super) struct Rounds {
    pub submits: u64,
    pub blocking_readbacks: u64,
    pub readback_bytes: u64,
    pub creates: u64,
    pub dispatches: u64,
    pub dispatches_per_layer: usize,
}

/// Bytes on the device.
#[derive(Serialize)]
pub(super) struct Memory {
    /// Of the target.
    pub weights: u64,
    /// Of the target.
    pub kv: u64,
    /// Weights and KV cache of the draft model.
    pub draft: u64,
    /// Of both, as planned.
    pub scratch: u64,
    /// Of all buffers, as counted.
    pub allocated: u64,
    /// allocated - weights - kv - draft - scratch: token ids, sizes for the kernels, what is read back.
    pub unplanned: i64,
}

pub(super) fn median(mut seconds: Vec<f64>) -> f64 {
    seconds.sort_by(f64::total_cmp);
    seconds.get(seconds.len() / 2).copied().unwrap_or(f64::NAN)
}

/// GB/s of reading a large buffer once, front to back.
pub(super) async fn probe(gpu: &Gpu, effort: Effort, limit: &Limit) -> Result<f64> {
    let bytes = PROBE_BYTES.min(gpu.info().max_binding_size).min(gpu.info().max_buffer_size);
    let (data, out) = (gpu.buffer("probe", bytes)?, gpu.buffer("probe result", 16)?);
    let fill = gpu.call(Kernel::Fill(Format::Float(Float::F32)), &[(0, data.whole())]);
    let read = gpu.call(Kernel::Probe, &[(0, data.whole()), (1, out.whole())]);
    let mut recorder = gpu.record();
    recorder.dispatch(&fill, [PROBE_GROUPS, 1, 1]);
    recorder.submit(None);
    let mut readback = Readback::new(gpu, 16)?;
    let (mut seconds, mut latest) = (Vec::new(), Duration::ZERO);
    for repeat in 0..=effort.rounds {
        if !seconds.is_empty() && !limit.leaves(latest) {
            break;
        }
        let began = Instant::now();
        let mut recorder = gpu.record();
        (0..PROBE_READS).for_each(|_| recorder.dispatch(&read, [PROBE_GROUPS, 1, 1]));
        let submitted = recorder.submit(Some((&out, 0, 4, &readback)));
        readback.read(gpu, 4, submitted).await?;
        latest = began.elapsed();
        if repeat > 0 {
            seconds.push(latest.as_secs_f64());
        }
    }
    Ok((PROBE_READS * bytes) as f64 / median(seconds) / 1e9)
}

/// Any tokens: what they are does not change the time.
fn tokens(engine: &Engine, count: usize) -> Vec<u32> {
    let vocab = engine.target().spec().vocab_size;
    (0..count).map(|i| (i * 31 % vocab) as u32).collect()
}

fn draft(engine: &Engine, rows: usize) -> Draft {
    Draft::Tokens(tokens(engine, rows - 1))
}

/// Fills the cache for the measurements that follow: up to the longest of the KV lengths that leaves room for a round, or
/// as far as there is time, but to the shortest at least.
pub(super) async fn prefill(engine: &mut Engine, effort: Effort, limit: &Limit) -> Result<Prefill> {
    let most = engine.target().capacity().max_context - ROWS[ROWS.len() - 1];
    let mut tokens = tokens(engine, KV_LENGTHS.into_iter().filter(|length| *length <= most).max().unwrap_or(0));
    let chunk = engine.target().capacity().prefill_chunk.min(tokens.len());
    engine.truncate(0);
    engine.prefill(&tokens[..chunk]).await?;
    engine.gpu().flush().await?;
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
            engine.gpu().flush().await?;
            done = next;
        }
        tokens.truncate(done);
        latest = began.elapsed();
        seconds.push(latest.as_secs_f64());
    }
    Ok(Prefill { tokens: tokens.len(), tokens_per_second: tokens.len() as f64 / median(seconds) })
}

/// Plain steps one after the other, from the shortest KV length on; the cache holds it.
pub(super) async fn decode(engine: &mut Engine, effort: Effort, probe_gb_per_s: f64, limit: &Limit) -> Result<Decode> {
    let mut seconds = Vec::new();
    engine.truncate(KV_LENGTHS[0]);
    for step in 0..=effort.rounds {
        if !seconds.is_empty() && limit.over() {
            break;
        }
        let began = Instant::now();
        engine.verify(1, &draft(engine, 1)).await?;
        if step > 0 {
            seconds.push(began.elapsed().as_secs_f64());
        }
    }
    let tokens_per_second = 1.0 / median(seconds);
    let bytes_per_token = engine.target().memory().read_per_token;
    let fraction_of_probe = bytes_per_token as f64 * tokens_per_second / 1e9 / probe_gb_per_s;
    Ok(Decode { tokens_per_second, bytes_per_token, fraction_of_probe })
}

/// Target forwards of every number of rows at every KV length up to what the cache holds. The numbers of rows take turns,
/// so that a change of the device's speed touches them alike.
pub(super) async fn verify(engine: &mut Engine, cached: usize, effort: Effort, limit: &Limit) -> Result<Vec<Verify>> {
    let mut all = Vec::new();
    // The longest first: the cache is full, and shorter ones are what is left of it.
    for kv_length in KV_LENGTHS.into_iter().rev().filter(|length| *length <= cached) {
        let mut seconds = ROWS.map(|_| Vec::new());
        'repeats: for repeat in 0..=effort.rounds {
            for (rows, seconds) in ROWS.into_iter().zip(&mut seconds) {
                if limit.over() {
                    break 'repeats;
                }
                engine.truncate(kv_length);
                let draft = draft(engine, rows);
                let began = Instant::now();
                engine.verify(1, &draft).await?;
                if repeat > 0 {
                    seconds.push(began.elapsed().as_secs_f64());
                }
            }
        }
        if seconds.iter().any(Vec::is_empty) {
            break;
        }
        let ms = seconds.map(|seconds| 1e3 * median(seconds));
        all.insert(0, Verify { kv_length, rows: ROWS, ms, ratio: ms.map(|time| time / ms[0]) });
    }
    Ok(all)
}

/// What a round does once everything that it needs is there.
pub(super) async fn rounds(engine: &mut Engine) -> Result<Rounds> {
    let draft = match engine.draft() {
        Some(_) => Draft::Model(ROUND_DRAFT),
        None => Draft::Tokens(tokens(engine, ROUND_DRAFT)),
    };
    let mut before = engine.gpu().counters();
    for _ in 0..3 {
        engine.truncate(KV_LENGTHS[0]);
        before = engine.gpu().counters();
        engine.verify(1, &draft).await?;
    }
    let steady = engine.gpu().counters().since(&before);
    Ok(Rounds {
        submits: steady.submits,
        blocking_readbacks: steady.blocking_readbacks,
        readback_bytes: steady.readback_bytes,
        creates: steady.creates,
        dispatches: steady.dispatches,
        dispatches_per_layer: engine.target().plan().dispatches_per_layer(),
    })
}

/// What is planned against what is there. Call it before anything else is measured.
pub(super) fn memory(engine: &Engine) -> Memory {
    let target = engine.target().memory_now();
    let draft = engine.draft().map(|draft| draft.memory_now()).unwrap_or_default();
    let allocated = engine.gpu().counters().allocated;
    Memory {
        weights: target.weights,
        kv: target.kv,
        draft: draft.weights + draft.kv,
        scratch: target.scratch + draft.scratch,
        allocated,
        unplanned: allocated as i64 - (target.total() + draft.total()) as i64,
    }
}

/// Looks up 10 tokens behind n-grams of up to 3, in a text of 4,096 kinds of tokens of which some are frequent.
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
    // The work counts only if its result does.
    std::hint::black_box(drafted);
    Lookup { tokens: LOOKUP_TEXT, read_ms: read * 1e3, round_us: rounds * 1e6 / LOOKUP_ROUNDS as f64 }
}
