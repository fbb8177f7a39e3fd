//! Results of a bench, as a JSON object or a table.

use super::backend::{BenchMemory, Decode, DraftCost, Lookup, Prefill, Rounds, SamplingCost, Verify};
use super::display::{Bytes, name_device};
use super::loss::Loss;
use super::tasks::{DraftAlone, Phase, Task};
use foretoken::{Arithmetic, DeviceInfo};
use serde::Serialize;
use std::fmt::{self, Display};

/// All results of a bench.
#[derive(Serialize)]
pub struct BenchReport {
    pub(super) device: DeviceInfo,
    /// Arithmetic of products with the target's quantised weights.
    pub(super) arithmetic: Arithmetic,
    pub(super) model: String,
    pub(super) assistant_model: Option<String>,
    pub(super) probe_gb_per_s: f64,
    pub(super) decode: Decode,
    pub(super) prefill: Prefill,
    pub(super) verify: Vec<Verify>,
    /// Most kernel calls of a layer in a forward pass on a GPU.
    pub(super) dispatches_per_layer: usize,
    pub(super) rounds: Option<Rounds>,
    /// Drafts of the drafter on the device.
    pub(super) drafts: Vec<DraftCost>,
    pub(super) sampling: Option<SamplingCost>,
    pub(super) lookup: Lookup,
    pub(super) memory: BenchMemory,
    pub(super) phases: Vec<Phase>,
    pub(super) tasks: Vec<Task>,
    /// Plain decoding of the draft model, without its target.
    pub(super) draft_alone: Vec<DraftAlone>,
    pub(super) loss: Vec<Loss>,
    /// Parts that reached their time limit.
    pub(super) cut: Vec<&'static str>,
}

impl Display for BenchReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { device, decode, prefill, rounds, lookup, memory, .. } = self;
        if !self.cut.is_empty() {
            writeln!(f, "cut      {}: ended by the time limit, measured less often or in part", self.cut.join(", "))?;
        }
        let arithmetic = format!("{:?}", self.arithmetic).to_lowercase();
        writeln!(f, "device   {}, {}; {arithmetic} arithmetic", name_device(device), device.driver)?;
        let draft = self.assistant_model.as_ref().map_or(String::new(), |model| format!(", drafted by {model}"));
        writeln!(f, "model    {}{draft}", self.model)?;
        writeln!(f, "probe    {:.1} GB/s", self.probe_gb_per_s)?;
        writeln!(
            f,
            "decode   {:.1} tokens/s, {} per token, {:.2} of the probe",
            decode.tokens_per_second,
            Bytes(decode.bytes_per_token),
            decode.fraction_of_probe
        )?;
        writeln!(f, "prefill  {:.1} tokens/s ({} tokens)", prefill.tokens_per_second, prefill.tokens)?;
        for Verify { kv_length, rows, ms, ratio } in &self.verify {
            line(f, &format!("verify   KV {kv_length:<5} rows "), rows.iter())?;
            line(f, "                  ms   ", ms.iter().map(|ms| format!("{ms:.2}")))?;
            line(f, "                  ratio", ratio.iter().map(|ratio| format!("{ratio:.2}")))?;
        }
        let per_layer = self.dispatches_per_layer;
        match rounds {
            Some(Rounds { submits, blocking_readbacks, readback_bytes, creates, dispatches }) => {
                let readbacks = format!("blocking readbacks {blocking_readbacks} ({readback_bytes} bytes)");
                write!(f, "round    submits {submits}, {readbacks}, ")?;
                writeln!(f, "creates {creates}, dispatches {dispatches} ({per_layer} per layer)")?;
            }
            None => writeln!(f, "plan     {per_layer} dispatches per layer, if on a GPU")?,
        }
        if !self.drafts.is_empty() {
            line(f, "drafts   tokens         ", self.drafts.iter().map(|cost| cost.tokens))?;
            line(f, "         draft          ", self.drafts.iter().map(|cost| format!("{:.2}", cost.draft)))?;
            line(f, "         verification   ", self.drafts.iter().map(|cost| format!("{:.2}", cost.verification)))?;
        }
        if let Some(SamplingCost { vocab, ms_per_row }) = self.sampling {
            writeln!(f, "sampling {ms_per_row:.3} ms a row more with top-p than greedily ({vocab} tokens)")?;
        }
        let Lookup { tokens, read_ms, round_us } = lookup;
        writeln!(f, "lookup   {round_us:.2} µs a round in a text of {tokens} tokens, {read_ms:.1} ms to read it")?;
        let [weights, kv, draft, scratch] = [memory.weights, memory.kv, memory.draft, memory.scratch].map(Bytes);
        let checkpoint = match memory.checkpoint {
            0 => String::new(),
            bytes => format!(" ({} per checkpoint)", Bytes(bytes)),
        };
        let planned = format!("weights {weights}, KV {kv}{checkpoint}, draft model {draft}, scratch {scratch}");
        match (memory.allocated, memory.unplanned) {
            (Some(allocated), Some(unplanned)) => {
                writeln!(f, "memory   {} allocated: {planned}, {unplanned} bytes besides", Bytes(allocated))?;
            }
            _ => writeln!(f, "memory   {planned}")?,
        }
        if !self.tasks.is_empty() {
            writeln!(f, "phases   mode         draft ms  verify ms  emit ms  host ms  hidden, per round")?;
            for Phase { mode, draft_ms, verify_ms, emit_ms, host_ms, hidden } in &self.phases {
                let hidden = format!("{host_ms:>8.3} {:>5.0} %", 100.0 * hidden);
                writeln!(f, "         {mode:<12} {draft_ms:>8.3} {verify_ms:>10.3} {emit_ms:>8.3} {hidden}")?;
            }
            writeln!(f, "tasks    kind      mode         tokens  rounds  length    rate  speedup          tokens/s")?;
            for Task { kind, mode, gain } in &self.tasks {
                writeln!(f, "         {kind:<9} {mode:<12} {gain}")?;
            }
        }
        if !self.draft_alone.is_empty() {
            writeln!(f, "alone    kind      tokens          tokens/s, of the draft model")?;
        }
        for DraftAlone { kind, tokens, tokens_per_second } in &self.draft_alone {
            writeln!(f, "         {kind:<9} {tokens:>6} {tokens_per_second:>17}")?;
        }
        if let Some(first) = self.loss.first() {
            writeln!(
                f,
                "loss     weights  arithmetic  KV   perplexity  nats per token lost, of {} tokens",
                first.tokens
            )?;
        }
        for Loss { dtype, arithmetic, kv_dtype, perplexity, loss, .. } in &self.loss {
            let names = [format!("{dtype:?}"), format!("{arithmetic:?}"), format!("{kv_dtype:?}")];
            let [dtype, arithmetic, kv_dtype] = names.map(|name| name.to_lowercase());
            writeln!(f, "         {dtype:<7}  {arithmetic:<10}  {kv_dtype}  {perplexity:>10.4} {loss:>+10.5}")?;
        }
        Ok(())
    }
}

fn line(f: &mut fmt::Formatter<'_>, label: &str, cells: impl Iterator<Item = impl Display>) -> fmt::Result {
    write!(f, "{label}")?;
    for cell in cells {
        write!(f, " {cell:>8}")?;
    }
    writeln!(f)
}
