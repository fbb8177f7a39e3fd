//! What follows the heads of target and draft model: processors, and the choice of each row's token.

use super::dims::{SampleDims, SamplingBlock};
use super::forward::Model;
use super::invariance::Variants;
use super::node::{Choice, Grid, Node, Pass};
use super::round::{DRAFTS, RoundBuffers};
use crate::error::{Error, Result};
use crate::gpu::{Gpu, Kernel, Noise, Recorder, Slice, Uniforms};
use crate::sample::{Bias, Draw, Sampling, stream};

/// How [`Error::NonFiniteLogits`] names the draft model.
pub const DRAFT_MODEL: &str = "draft model";
/// The sampler's answer to a row with a logit that is not finite.
const NOT_FINITE: u32 = u32::MAX;
/// Its answer behind the end of a draft that was cut.
pub(super) const NOT_DRAFTED: u32 = u32::MAX - 1;

/// Refuses tokens among which is one of a row that had a logit that is not finite; the first row is that of `position`.
pub(super) fn check_finite(model: &'static str, tokens: &[u32], position: usize) -> Result<()> {
    match tokens.iter().position(|&id| id == NOT_FINITE) {
        Some(row) => Err(Error::NonFiniteLogits { model: model.into(), position: position + row }),
        None => Ok(()),
    }
}

/// The kernels that a way of sampling needs, bound to both models.
pub(super) struct Sampler {
    recipe: Recipe,
    /// After the target's head, when the caller knew the draft tokens.
    verify: Vec<Node>,
    /// After the target's head, when the draft model drafted.
    verify_drafted: Vec<Node>,
    /// After the draft model's head.
    draft: Vec<Node>,
}

/// Which kernels those are.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Recipe {
    adjust: bool,
    filter: bool,
    draw: Draw,
    /// The draft model has another tokenizer.
    pub translated: bool,
}

impl Recipe {
    pub fn of(sampling: &Sampling, translated: bool) -> Self {
        // Noise is added to logits at temperature 1, so greedy choice needs no filter: it takes the largest all the same.
        let filter = sampling.draw != Draw::Greedy && sampling.processors.filters();
        Self { adjust: sampling.processors.adjusts(), filter, draw: sampling.draw, translated }
    }

    /// How the draft model chooses. Noise and biases belong to the target's ids, so where its own mean something else,
    /// it takes the largest logit as it is: the guess that the target is most likely to share.
    fn of_draft(self) -> Self {
        match self.draw {
            _ if self.translated => Self { adjust: false, filter: false, draw: Draw::Greedy, ..self },
            // With noise of its own, the draft model draws as the target does where the noise is shared.
            Draw::Rejection => Self { draw: Draw::Coupled, ..self },
            _ => self,
        }
    }
}

impl Sampler {
    /// Binds what `recipe` needs; `vocab` caps the ids that may be chosen.
    ///
    /// # Errors
    /// As [`Gpu::buffer`].
    pub fn new(
        gpu: &Gpu,
        recipe: Recipe,
        buffers: &RoundBuffers,
        target: &Model,
        draft: Option<&Model>,
    ) -> Result<Self> {
        let own = if recipe.draw == Draw::Rejection { stream::DRAFT } else { stream::TARGET };
        let vocab = target.spec().vocab_size as u32;
        let dims = |model: &Model, advance, stream, draft_stride| SampleDims {
            // The draft model never names a token that the target lacks, unless someone translates.
            vocab: match model.spec().vocab_size as u32 {
                own if advance == 1 && recipe.translated => own,
                own => vocab.min(own),
            },
            stride: model.spec().vocab_size as u32,
            drafts: DRAFTS as u32,
            advance,
            stream,
            draft_stride,
        };
        let stride = draft.map_or(0, |draft| draft.spec().vocab_size as u32);
        let mut uniforms = Uniforms::default();
        let verify = uniforms.add(&[dims(target, 0, stream::TARGET, 0)]);
        let verify_drafted = uniforms.add(&[dims(target, 0, stream::TARGET, stride)]);
        let drafting = draft.map(|draft| uniforms.add(&[dims(draft, 1, own, 0)]));
        let blocks = uniforms.upload(gpu, "sampling dimensions")?;
        let bind = |model: &Model, block: usize, recipe: Recipe, drafted: Option<&Model>| {
            let step = (0, model.step().clone());
            let dims = (1, blocks[block].clone());
            let logits = (2, model.logits().whole());
            let tokens = (3, buffers.tokens.whole());
            let sampling = (4, buffers.sampling.whole());
            let node = |kernel, bindings: &[(u32, Slice)]| {
                Node::new(gpu, Choice::Always(kernel), Grid::Rows, bindings.to_vec())
            };
            let mut nodes = Vec::new();
            let common = [step, dims, logits, sampling, tokens];
            if recipe.adjust {
                let mut bindings = common.to_vec();
                bindings.extend([(5, buffers.seen.whole()), (6, buffers.biases.whole())]);
                nodes.push(node(Kernel::Adjust, &bindings));
            }
            if recipe.filter {
                nodes.push(node(Kernel::Filter, &common[..4]));
            }
            nodes.push(match recipe.draw {
                Draw::Greedy => node(Kernel::Sample(Noise::None), &common),
                Draw::Coupled => node(Kernel::Sample(Noise::Gumbel), &common),
                Draw::Rejection => {
                    let mut bindings = common.to_vec();
                    // Without a draft model no one reads it.
                    bindings.push((5, drafted.map_or(&buffers.biases, |draft| draft.logits()).whole()));
                    node(Kernel::Reject, &bindings)
                }
            });
            nodes.iter().for_each(|node| node.compile(gpu, 1, Variants::default()));
            nodes
        };
        let by_model = draft.zip(drafting).map(|(draft, block)| bind(draft, block, recipe.of_draft(), None));
        Ok(Self {
            recipe,
            verify: bind(target, verify, recipe, None),
            verify_drafted: bind(target, verify_drafted, recipe, draft),
            draft: by_model.unwrap_or_default(),
        })
    }

    pub fn recipe(&self) -> Recipe {
        self.recipe
    }

    /// Records the choice of the target's tokens for `rows` rows of logits.
    pub fn record_verify(&self, recorder: &mut Recorder<'_>, rows: usize, drafted: bool) {
        let nodes = if drafted { &self.verify_drafted } else { &self.verify };
        record(nodes, recorder, rows);
    }

    /// Records the choice of a draft token, which the next pass reads.
    pub fn record_draft(&self, recorder: &mut Recorder<'_>) {
        record(&self.draft, recorder, 1);
    }
}

fn record(nodes: &[Node], recorder: &mut Recorder<'_>, rows: usize) {
    let pass = Pass { rows: rows as u32, positions: &(0..=0), variants: Variants::default(), outs: u32::MAX };
    nodes.iter().for_each(|node| node.record(recorder, pass));
}

/// What the kernels read of it.
pub(super) fn block(sampling: &Sampling) -> SamplingBlock {
    let processors = &sampling.processors;
    SamplingBlock {
        seed_low: sampling.seed as u32,
        seed_high: (sampling.seed >> 32) as u32,
        temperature: processors.temperature,
        top_k: processors.top_k as u32,
        top_p: processors.top_p,
        min_p: processors.min_p,
        repetition_penalty: processors.repetition_penalty,
        confidence: sampling.confidence,
    }
}

/// Biases as `shaders/adjust.wgsl` reads them, by token.
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
            // Shaders need not know infinities.
            sequences.extend([after.len() as u32, bias.max(f32::MIN).to_bits(), *until]);
            sequences.extend(after);
            at += 3 + after.len();
        }
        words.extend([group[0].token, first as u32, at as u32]);
    }
    words.extend(sequences);
    words
}
