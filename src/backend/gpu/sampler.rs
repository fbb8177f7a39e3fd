//! Kernels after the heads of target and draft model: logit processors, and the choice of each row's token.

use super::dims::{ADVANCES, DECIDES, STAYS, SampleDims, SamplingBlock};
use super::forward::GpuModel;
use super::memory::{logits_stride, remaining_tokens};
use super::node::{GpuPass, KernelChoice, Node, WorkGrid};
use super::round::{CHUNK, DRAFTS, RoundBuffers};
use super::variants::Variants;
use crate::error::{Error, Result};
use crate::gpu::{Buffer, Gpu, Kernel, Noise, Recorder, Tokens, Uniforms};
use crate::options::MAX_TOP_LOGPROBS;
use crate::sample::{Bias, Draw, Processors, Sampling, stream};
use crate::target::MAX_DRAFT;

/// Result for a row with a non-finite logit.
const NOT_FINITE: u32 = u32::MAX;
/// Result for rows after the end of a draft that was cut.
pub(super) const NOT_DRAFTED: u32 = u32::MAX - 1;

/// Returns an error if a row had a non-finite logit; the first row is that of `position`.
pub(super) fn check_finite(model: &'static str, tokens: &[u32], position: usize) -> Result<()> {
    match tokens.iter().position(|&id| id == NOT_FINITE) {
        Some(row) => Err(Error::NonFiniteLogits { model: model.into(), position: position + row }),
        None => Ok(()),
    }
}

/// Kernels of a sampling method, bound to both models.
pub(super) struct Sampler {
    recipe: Recipe,
    /// After the target's head, for draft tokens that the caller supplied.
    verify: Vec<Node>,
    /// After the target's head, for a draft of the draft model.
    verify_drafted: Vec<Node>,
    /// After the draft model's head.
    draft: Vec<Node>,
    /// Bits of the tokens allowed in each row of the target [rows, vocab / 32 in whole words]; empty without a constraint.
    pub masks: Buffer,
}

/// Properties that determine the kernels.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Recipe {
    /// True if each row has a mask of allowed tokens.
    pub masked: bool,
    adjust: bool,
    /// True if tokens are removed.
    filter: bool,
    /// True if logits are surveyed: to filter, or for rejection sampling.
    survey: bool,
    draw: Draw,
    /// Number of most likely tokens with log-probabilities; `None`: no log-probabilities.
    pub logprobs: Option<usize>,
    /// True if the draft model has another tokenizer.
    pub translated: bool,
    /// True if a draft ends where its drafter is not confident.
    pub confides: bool,
}

/// Returns true if the model guesses tokens without knowing those before them.
fn guesses_blindly(model: &GpuModel) -> bool {
    model.spec().at_once.is_some() && model.spec().markov.is_none()
}

/// Returns the positions between a row and the token before its result, modulo 2^32.
fn lead(model: &GpuModel) -> u32 {
    let skipped = model.spec().at_once.map_or(0, |at_once| at_once.skipped);
    let is_ahead = model.spec().needs_target() && model.plan().context.is_empty();
    u32::from(is_ahead).wrapping_sub(skipped as u32)
}

impl Recipe {
    pub fn for_sampling(sampling: &Sampling, masked: bool, translated: bool) -> Self {
        // A greedy choice needs no filter: the largest logit always remains.
        let filter = sampling.draw != Draw::Greedy && sampling.processors.removes();
        let survey = filter || sampling.draw == Draw::Rejection;
        let logprobs = sampling.logprobs.map(|top| top.min(MAX_TOP_LOGPROBS));
        Self {
            masked,
            adjust: sampling.processors.adjusts(),
            filter,
            survey,
            draw: sampling.draw,
            logprobs,
            translated,
            confides: sampling.confidence > 0.0,
        }
    }

    /// Returns the draft model's recipe. Noise and biases apply to the target's ids. With another tokenizer, a draft model takes
    /// its largest unprocessed logit, the most likely guess.
    fn of_draft(self) -> Self {
        // Masks depend on draft tokens that the CPU does not know yet.
        let own = Self { masked: false, logprobs: None, ..self };
        match self.draw {
            _ if self.translated => Self { adjust: false, filter: false, survey: false, draw: Draw::Greedy, ..own },
            // With its own noise, the draft model uses the kernels of coupled sampling.
            Draw::Rejection => Self { draw: Draw::Coupled, ..own },
            _ => own,
        }
    }
}

impl Sampler {
    /// Binds the kernels of `recipe`. The target's vocabulary caps the ids.
    pub fn new(
        gpu: &Gpu,
        recipe: Recipe,
        buffers: &RoundBuffers,
        target: &GpuModel,
        draft: Option<&GpuModel>,
    ) -> Result<Self> {
        let own = if recipe.draw == Draw::Rejection { stream::DRAFT } else { stream::TARGET };
        let vocab = target.spec().vocab_size as u32;
        let stride = |model: &GpuModel| logits_stride(model.spec().vocab_size) as u32;
        let draft_vocab = draft.map_or(0, |draft| draft.spec().vocab_size as u32);
        let dims = |model: &GpuModel, drafts: bool, stream, draft_stride| SampleDims {
            // Without translation, the draft model must not choose ids that the target lacks.
            vocab: match model.spec().vocab_size as u32 {
                own if drafts && recipe.translated => own,
                own => vocab.min(own),
            },
            stride: stride(model),
            drafts: DRAFTS as u32,
            advance: match model.spec().markov {
                _ if !drafts || guesses_blindly(model) => 0,
                Some(markov) if markov.has_confidence => ADVANCES | DECIDES,
                _ if model.spec().shares_kv() => ADVANCES | STAYS,
                _ => ADVANCES,
            },
            stream,
            draft_stride,
            draft_vocab,
            logprobs: CHUNK as u32,
            lead: if drafts { lead(model) } else { 0 },
        };
        let draft_stride = draft.map_or(0, stride);
        let mut uniforms = Uniforms::default();
        let verify = uniforms.add(&[dims(target, false, stream::TARGET, 0)]);
        let verify_drafted = uniforms.add(&[dims(target, false, stream::TARGET, draft_stride)]);
        let drafting = draft.map(|draft| uniforms.add(&[dims(draft, true, own, 0)]));
        let blocks = uniforms.upload(gpu, "sampling dimensions")?;
        let mask_words = if recipe.masked { vocab.div_ceil(32) } else { 0 };
        let masks = gpu.buffer("masks", 4 * u64::from(mask_words) * (MAX_DRAFT + 1) as u64)?;
        let looks = |model: &GpuModel| Look::new(gpu, model, buffers, recipe.filter);
        let (look, draft_look) = (looks(target)?, draft.map(looks).transpose()?);
        let report = recipe
            .logprobs
            .map(|top| LogprobBuffers::new(gpu, target, top, recipe.masked || recipe.adjust))
            .transpose()?;
        let bind =
            |model: &GpuModel, look: &Look, block: usize, recipe: Recipe, drafted: Option<(&GpuModel, &Look)>| {
                let step = (0, model.step().clone());
                let dims = (1, blocks[block].clone());
                let logits = (2, model.logits().whole());
                let tokens = (3, buffers.tokens.whole());
                let sampling = (4, buffers.sampling.whole());
                let segments = WorkGrid::PerRow(segments(model));
                let mut nodes = Vec::new();
                let mut node = |kernel, grid, own: &[(u32, &Buffer)]| {
                    let own = own.iter().map(|(binding, buffer)| (*binding, buffer.whole()));
                    let common = [&step, &dims, &logits, &tokens, &sampling].map(Clone::clone);
                    // A kernel's own bindings replace common ones of equal number.
                    let common =
                        common.into_iter().filter(|(binding, _)| own.clone().all(|(other, _)| other != *binding));
                    let bindings = common.chain(own.clone()).collect();
                    nodes.push(Node::new(gpu, KernelChoice::Always(kernel), grid, bindings));
                };
                let Look { largest, tops, cuts, found, counts, list, bests } = look;
                let report = recipe.logprobs.and(report.as_ref());
                if let Some(LogprobBuffers { asked, cuts, found, counts, kept }) = report {
                    kept.iter().for_each(|kept| node(Kernel::Keep, segments, &[(3, kept)]));
                    node(Kernel::Survey, segments, &[(3, largest), (4, asked), (5, tops)]);
                    node(Kernel::Bound, WorkGrid::Rows, &[(2, largest), (3, tops), (4, asked), (5, cuts)]);
                    node(Kernel::Gather, segments, &[(3, cuts), (4, asked), (5, found), (6, counts)]);
                }
                if recipe.masked {
                    node(Kernel::Mask, segments, &[(3, &masks)]);
                }
                if recipe.adjust {
                    let RoundBuffers { seen, biases, counts, text, .. } = buffers;
                    node(Kernel::Adjust, WorkGrid::Rows, &[(5, seen), (6, biases), (7, counts), (8, text)]);
                }
                if recipe.survey {
                    node(Kernel::Survey, segments, &[(3, largest), (5, tops)]);
                    node(Kernel::Bound, WorkGrid::Rows, &[(2, largest), (3, tops), (5, cuts)]);
                }
                if recipe.filter {
                    node(Kernel::Gather, segments, &[(3, cuts), (5, found), (6, counts)]);
                    node(Kernel::Filter, WorkGrid::Rows, &[(3, cuts), (5, found), (6, counts), (7, list)]);
                }
                let noise = if recipe.draw == Draw::Greedy { Noise::None } else { Noise::Gumbel };
                match recipe.draw {
                    Draw::Rejection => {
                        // Without a draft model these bindings are not read.
                        let (draft_logits, draft_cuts) =
                            drafted.map_or((&buffers.biases, cuts), |(draft, look)| (draft.logits(), &look.cuts));
                        let tokens = if recipe.filter { Tokens::Kept } else { Tokens::All };
                        let own = [(5, draft_logits), (6, cuts), (7, draft_cuts), (8, bests), (9, list)];
                        node(Kernel::Reject(tokens), segments, &own[..if recipe.filter { 5 } else { 4 }]);
                        node(Kernel::RejectSettle, WorkGrid::Rows, &own[..4]);
                    }
                    _ if recipe.filter => node(Kernel::SampleKept, WorkGrid::Rows, &[(5, cuts), (6, list)]),
                    _ => {
                        node(Kernel::Sample(noise), segments, &[(5, bests)]);
                        if self::segments(model) > 1 {
                            node(Kernel::Settle(noise), WorkGrid::Rows, &[(5, bests)]);
                        }
                    }
                }
                if let Some(LogprobBuffers { asked, cuts, found, counts, kept }) = report {
                    let logits = kept.as_ref().unwrap_or(model.logits());
                    let own = [(2, logits), (4, asked), (5, cuts), (6, found), (7, counts)];
                    node(Kernel::Logprobs, WorkGrid::Rows, &own);
                }
                nodes.iter().for_each(|node| gpu.compile(node.best(1, Variants::default())));
                nodes
            };
        let drafted = draft.zip(draft_look.as_ref());
        let by_model = drafted.zip(drafting);
        let by_model = by_model.map(|((draft, look), block)| {
            let own = recipe.of_draft();
            // The tokens before a row are not chosen yet.
            bind(draft, look, block, Recipe { adjust: own.adjust && !guesses_blindly(draft), ..own }, None)
        });
        Ok(Self {
            recipe,
            verify: bind(target, &look, verify, recipe, None),
            verify_drafted: bind(target, &look, verify_drafted, recipe, drafted),
            draft: by_model.unwrap_or_default(),
            masks,
        })
    }

    pub fn recipe(&self) -> Recipe {
        self.recipe
    }

    /// Records the choice of the target's tokens for `rows` rows.
    pub fn record_verify(&self, recorder: &mut Recorder<'_>, rows: usize, drafted: bool) {
        let nodes = if drafted { &self.verify_drafted } else { &self.verify };
        record(nodes, recorder, rows);
    }

    /// Records the choice of draft tokens; a single one is read by the next pass.
    pub fn record_draft(&self, recorder: &mut Recorder<'_>, rows: usize) {
        record(&self.draft, recorder, rows);
    }
}

/// Buffers for log-probabilities.
struct LogprobBuffers {
    /// Sampling block whose `top_k` is the number of most likely tokens.
    asked: Buffer,
    /// `cuts`, `found` and `counts` as in [`Look`], but kept until a token is chosen.
    cuts: Buffer,
    found: Buffer,
    counts: Buffer,
    /// Logits before changes in place [rows, stride]; `None`: no changes.
    kept: Option<Buffer>,
}

impl LogprobBuffers {
    fn new(gpu: &Gpu, target: &GpuModel, top: usize, changes: bool) -> Result<Self> {
        let processors = Processors { top_k: top.max(1), ..Processors::default() };
        let asked = block(&Sampling { processors, ..Sampling::default() });
        let (segments, rows) = (segments(target) as usize, MAX_DRAFT + 1);
        let words = |words: usize| gpu.buffer("likely tokens", 4 * (rows * words) as u64);
        Ok(Self {
            asked: gpu.buffer_of("sampling", &[asked])?,
            cuts: words(5)?,
            found: words(segments * Kernel::SEGMENT)?,
            counts: words(segments)?,
            kept: changes.then(|| gpu.buffer("logits", target.logits().size())).transpose()?,
        })
    }
}

/// Returns the number of workgroups that share a row of logits.
fn segments(model: &GpuModel) -> u32 {
    model.spec().vocab_size.div_ceil(Kernel::SEGMENT) as u32
}

/// Intermediate results about a model's logits, before a token is chosen.
struct Look {
    /// Largest of each 16 logits [rows, segments, 256].
    largest: Buffer,
    /// Largest logit and sum of exp(logit - largest) of each segment [rows, segments, 2].
    tops: Buffer,
    /// `Cut` of `shaders/lib/sampling.wgsl`: which tokens remain [rows, 5].
    cuts: Buffer,
    /// Tokens that may remain, by segment [rows, vocab in whole segments].
    found: Buffer,
    /// Number of tokens in `found` [rows, segments].
    counts: Buffer,
    /// Tokens in `found`, compacted [rows, vocab].
    list: Buffer,
    /// Best tokens, or best draws for rejection sampling [rows, segments, 4].
    bests: Buffer,
}

impl Look {
    fn new(gpu: &Gpu, model: &GpuModel, buffers: &RoundBuffers, filters: bool) -> Result<Self> {
        // Both models use the shared lists in turn, unless the draft model needs longer ones.
        let [found, list] = remaining_tokens(model.spec().vocab_size);
        let or_own = |shared: &Buffer, bytes| {
            if bytes <= shared.size() || !filters { Ok(shared.clone()) } else { gpu.buffer("the sampler", bytes) }
        };
        let words = |what: &str, words: usize| gpu.buffer(what, 4 * ((MAX_DRAFT + 1) * words) as u64);
        let segments = segments(model) as usize;
        Ok(Self {
            largest: words("largest logits", segments * Kernel::SEGMENT / 16)?,
            tops: words("largest logits", segments * 2)?,
            cuts: words("remaining tokens", 5)?,
            found: or_own(&buffers.found, found)?,
            counts: words("remaining tokens", segments)?,
            list: or_own(&buffers.list, list)?,
            bests: words("best tokens", segments * 4)?,
        })
    }
}

fn record(nodes: &[Node], recorder: &mut Recorder<'_>, rows: usize) {
    let pass = GpuPass { rows: rows as u32, positions: &(0..=0), variants: Variants::default(), outs: u32::MAX };
    nodes.iter().for_each(|node| node.record(recorder, pass));
}

/// Returns the parameters that kernels read.
pub(super) fn block(sampling: &Sampling) -> SamplingBlock {
    let processors = &sampling.processors;
    SamplingBlock {
        seed_low: sampling.seed as u32,
        seed_high: (sampling.seed >> 32) as u32,
        temperature: processors.temperature,
        top_k: processors.top_k.min(u32::MAX as usize) as u32,
        top_p: processors.top_p,
        min_p: processors.min_p,
        repetition_penalty: processors.repetition_penalty,
        presence_penalty: processors.presence_penalty,
        frequency_penalty: processors.frequency_penalty,
        no_repeat_ngram_size: processors.no_repeat_ngram_size.min(1 << 28) as u32,
        confidence: sampling.confidence,
    }
}

/// Returns biases sorted by token, as `shaders/adjust.wgsl` reads them.
pub fn bias_words(biases: &[Bias]) -> Vec<u32> {
    let mut biases: Vec<&Bias> = biases.iter().collect();
    biases.sort_by_key(|bias| bias.token);
    let groups: Vec<&[&Bias]> = biases.chunk_by(|a, b| a.token == b.token).collect();
    let mut words = vec![groups.len() as u32];
    let mut at = 1 + 3 * groups.len();
    let mut sequences = Vec::new();
    for group in groups {
        let first = at;
        for Bias { after, bias, until, .. } in group {
            // Shaders handle no infinities.
            sequences.extend([after.len() as u32, bias.max(f32::MIN).to_bits(), *until]);
            sequences.extend(after);
            at += 3 + after.len();
        }
        words.extend([group[0].token, first as u32, at as u32]);
    }
    words.extend(sequences);
    words
}
