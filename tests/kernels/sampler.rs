//! The sampling kernels, compared with their twins and with Hugging Face transformers.

use bytemuck::cast_slice;
use common::lab::{INPUTS, Lab, Output, Random, UNTOUCHED};
use common::reference;
use common::sampling::{Penalised, cases, chi_square, chi_square_p, penalised, rename_ties};
use foretoken::internals::backend::gpu::bias_words;
use foretoken::internals::gpu::{Kernel, Noise, Slice, Subnormals, Tokens};
use foretoken::internals::sample::{Bias, Processors, exponential, softmax, stream, uniform};

/// Offsets in words of the round buffer: 15 earlier tokens, the pending token, 31 draft tokens, ids.
const PENDING: usize = 15;
const DRAFTS: usize = 16;
const IDS: usize = 47;
const CHUNK: usize = 79;
const ROUND: usize = 80;

const SEED: u64 = 0x0123_4567_89ab_cdef;
/// Value that the kernels write for a removed token.
const REMOVED: f32 = f32::MIN;

/// Options of sampling, and the pass before it.
struct Chooser {
    processors: Processors,
    confidence: f32,
    vocab: usize,
    stride: usize,
    advance: u32,
    stream: u32,
    draft_stride: usize,
    draft_vocab: usize,
    lead: u32,
    /// Position, rows, token, logit_row, out, draft_row, slot, base, save_slot, save_at, masks, missed, skipped, lead.
    step: [u32; 14],
    round: Vec<u32>,
}

impl Chooser {
    fn new(vocab: usize, stride: usize, position: u32, rows: usize) -> Self {
        Self {
            processors: Processors::default(),
            confidence: 0.0,
            vocab,
            stride,
            advance: 0,
            stream: 0,
            draft_stride: 0,
            draft_vocab: 0,
            lead: 0,
            step: [position, rows as u32, PENDING as u32, 0, IDS as u32, 0, 0, 0, 0, u32::MAX, 0, 0, 0, 0],
            round: vec![UNTOUCHED; ROUND],
        }
    }

    fn block(&self, lab: &Lab) -> Slice {
        let Processors { temperature, top_k, top_p, min_p, no_repeat_ngram_size, .. } = &self.processors;
        let Processors { repetition_penalty, presence_penalty, frequency_penalty, .. } = &self.processors;
        let [low, high] = [SEED as u32, (SEED >> 32) as u32];
        let floats = [*top_p, *min_p, *repetition_penalty, *presence_penalty, *frequency_penalty].map(f32::to_bits);
        let last = [*no_repeat_ngram_size as u32, self.confidence.to_bits()];
        lab.uniform(&[&[low, high, temperature.to_bits(), *top_k as u32][..], &floats, &last].concat())
    }

    fn dims(&self, lab: &Lab) -> Slice {
        let Self { vocab, stride, advance, stream, draft_stride, draft_vocab, .. } = self;
        let strides = [*stride as u32, DRAFTS as u32, *advance, *stream, *draft_stride as u32, *draft_vocab as u32];
        lab.uniform(&[&[*vocab as u32][..], &strides, &[CHUNK as u32, self.lead]].concat())
    }

    fn segments(&self) -> usize {
        self.vocab.div_ceil(Kernel::SEGMENT)
    }

    /// Finds the tokens of each row that remain after filtering: (cuts, list). It runs several kernels.
    fn filter(&self, lab: &Lab, logits: &Slice, rows: usize) -> [Output; 2] {
        let segments = self.segments();
        let output = |words: usize| lab.output(&vec![UNTOUCHED; rows * words]);
        let (largest, tops) = (output(segments * 256), output(segments * 2));
        let (found, counts) = (output(segments * Kernel::SEGMENT), output(segments));
        let [cuts, list] = [5, self.stride].map(output);
        let by_segment = [segments as u32, rows as u32, 1];
        let run = |kernel, grid, own: &[(u32, Slice)]| {
            let common = [(0, lab.uniform(&self.step)), (1, self.dims(lab)), (4, self.block(lab))];
            lab.run(kernel, grid, &[&common, own].concat());
        };
        let logits = (2, logits.clone());
        run(Kernel::Survey, by_segment, &[logits.clone(), (3, largest.slice()), (5, tops.slice())]);
        run(Kernel::Bound, [rows as u32, 1, 1], &[(2, largest.slice()), (3, tops.slice()), (5, cuts.slice())]);
        let (ids, numbers) = ((5, found.slice()), (6, counts.slice()));
        run(Kernel::Gather, by_segment, &[logits.clone(), (3, cuts.slice()), ids.clone(), numbers.clone()]);
        let own = [logits, (3, cuts.slice()), ids, numbers, (7, list.slice())];
        run(Kernel::Filter, [rows as u32, 1, 1], &own);
        for output in [&largest, &tops, &found, &counts] {
            lab.read(output);
        }
        [cuts, list]
    }

    /// Returns the logits after adjust and filter.
    fn process(&self, lab: &Lab, logits: &[f32], history: &[u32]) -> Vec<f32> {
        let rows = logits.len() / self.stride;
        let out = lab.output(cast_slice(logits));
        // Sized for the target's vocabulary, which may be larger.
        let mut seen = vec![0u32; self.vocab.div_ceil(32) + 1];
        history.iter().for_each(|&id| seen[id as usize / 32] |= 1 << (id % 32));
        let mut counts = vec![0u32; self.vocab + 32];
        history.iter().skip(self.processors.prompt_len).for_each(|&id| counts[id as usize] += 1);
        let mut bindings =
            vec![(0, lab.uniform(&self.step)), (1, self.dims(lab)), (2, out.slice()), (4, self.block(lab))];
        bindings.push((3, lab.uniform(&self.round)));
        bindings.push((5, lab.uniform(&seen)));
        bindings.push((6, lab.uniform(&bias_words(&self.processors.biases))));
        bindings.push((7, lab.uniform(&counts)));
        bindings.push((8, lab.uniform(&[history, &[UNTOUCHED]].concat())));
        lab.run(Kernel::Adjust, [rows as u32, 1, 1], &bindings);
        let [cuts, list] = self.filter(lab, &out.slice(), rows);
        let adjusted: Vec<f32> = lab.read(&out).into_iter().map(f32::from_bits).collect();
        let (cuts, list) = (lab.read(&cuts), lab.read(&list));
        let mut processed = adjusted.clone();
        for row in 0..rows {
            let at = row * self.stride;
            processed[at..at + self.vocab].fill(REMOVED);
            for &id in &list[at..at + cuts[5 * row + 4] as usize] {
                // Other entries are marked as removed.
                if let Some(to) = processed[at..at + self.vocab].get_mut(id as usize) {
                    assert_eq!(*to, REMOVED, "{id} twice");
                    *to = adjusted[at + id as usize] / self.processors.temperature;
                }
            }
        }
        processed
    }

    /// Returns the words of step and round after a choice.
    fn choose(&self, lab: &Lab, noise: Noise, logits: &Slice, rows: usize) -> [Vec<u32>; 2] {
        let (step, round) = (lab.output(&self.step), lab.output(&self.round));
        let bests = lab.output(&vec![UNTOUCHED; rows * self.segments() * 4]);
        let bindings = [
            (0, step.slice()),
            (1, self.dims(lab)),
            (2, logits.clone()),
            (3, round.slice()),
            (4, self.block(lab)),
            (5, bests.slice()),
        ];
        lab.run(Kernel::Sample(noise), [self.segments() as u32, rows as u32, 1], &bindings);
        if self.segments() > 1 {
            lab.run(Kernel::Settle(noise), [rows as u32, 1, 1], &bindings);
        }
        lab.read(&bests);
        [lab.read(&step), lab.read(&round)]
    }

    /// Returns the log-probabilities of each row of logits, which are overwritten first.
    fn logprobs(&self, lab: &Lab, logits: &[f32], rows: usize) -> Vec<u32> {
        let (given, kept) = (lab.output(cast_slice(logits)), lab.output(&vec![UNTOUCHED; logits.len()]));
        let (segments, words) = (self.segments(), |words: usize| lab.output(&vec![UNTOUCHED; rows * words]));
        let [largest, tops, cuts] = [segments * 256, segments * 2, 5].map(words);
        let [found, counts] = [segments * Kernel::SEGMENT, segments].map(words);
        let round = lab.output(&self.round);
        let common = [(0, lab.uniform(&self.step)), (1, self.dims(lab)), (4, self.block(lab))];
        let run = |kernel, grid, own: &[(u32, &Output)]| {
            let own = own.iter().map(|(binding, output)| (*binding, output.slice()));
            lab.run(kernel, grid, &common.iter().cloned().chain(own).collect::<Vec<_>>());
        };
        let (by_segment, by_row) = ([segments as u32, rows as u32, 1], [rows as u32, 1, 1]);
        run(Kernel::Keep, by_segment, &[(2, &given), (3, &kept)]);
        run(Kernel::Survey, by_segment, &[(2, &given), (3, &largest), (5, &tops)]);
        run(Kernel::Bound, by_row, &[(2, &largest), (3, &tops), (5, &cuts)]);
        run(Kernel::Gather, by_segment, &[(2, &given), (3, &cuts), (5, &found), (6, &counts)]);
        run(Kernel::Logprobs, by_row, &[(2, &kept), (3, &round), (5, &cuts), (6, &found), (7, &counts)]);
        let words = lab.read(&round);
        assert_eq!(words[..CHUNK], self.round[..CHUNK], "ids stay");
        [&kept, &largest, &tops, &cuts, &found, &counts].into_iter().for_each(|output| drop(lab.read(output)));
        words[CHUNK..].to_vec()
    }

    /// Returns the words of the round after rejection sampling, over all tokens and over the remaining tokens only.
    fn reject(&self, lab: &Lab, logits: &Slice, draft: &Slice, rows: usize) -> [Vec<u32>; 2] {
        let [cuts, list] = self.filter(lab, logits, rows);
        let of_draft = Self { processors: self.processors.clone(), round: Vec::new(), ..*self };
        let (vocab, stride) = (self.vocab.min(self.draft_vocab.max(1)), self.draft_stride.max(4));
        let of_draft = Self { vocab, stride, ..of_draft };
        let [draft_cuts, _] = of_draft.filter(lab, draft, rows - 1);
        [Tokens::All, Tokens::Kept].map(|tokens| {
            let (round, segments) = (lab.output(&self.round), self.segments());
            let draws = lab.output(&vec![UNTOUCHED; rows * segments * 4]);
            let bindings = [
                (0, lab.uniform(&self.step)),
                (1, self.dims(lab)),
                (2, logits.clone()),
                (3, round.slice()),
                (4, self.block(lab)),
                (5, draft.clone()),
                (6, cuts.slice()),
                (7, draft_cuts.slice()),
                (8, draws.slice()),
                (9, list.slice()),
            ];
            let of_segments = &bindings[..if tokens == Tokens::Kept { 10 } else { 9 }];
            lab.run(Kernel::Reject(tokens), [segments as u32, rows as u32, 1], of_segments);
            lab.run(Kernel::RejectSettle, [rows as u32, 1, 1], &bindings[..9]);
            lab.read(&draws);
            lab.read(&round)
        })
    }
}

/// Rounds `width` logits up to whole 16 bytes, the row size of the kernels.
fn stride(width: usize) -> usize {
    width.next_multiple_of(4)
}

/// Pads each row of `width` with NaN to its stride.
fn padded(logits: &[f32], width: usize) -> Vec<f32> {
    logits.chunks_exact(width).flat_map(|row| [row, &vec![f32::NAN; stride(width) - width]].concat()).collect()
}

/// Returns the probabilities of processed logits from the kernels.
fn probabilities(row: &[f32]) -> Vec<f32> {
    softmax(&row.iter().map(|&logit| if logit == REMOVED { f32::NEG_INFINITY } else { logit }).collect::<Vec<_>>())
}

#[test]
fn processed_logits_have_the_probabilities_of_transformers() {
    let lab = Lab::new(1);
    let mut worst = 0f32;
    for mut case in cases() {
        let vocab = case.logits.len();
        if case.processors.top_p < 1.0 {
            let mut before = case.logits.clone();
            Processors { top_p: 1.0, min_p: 0.0, ..case.processors.clone() }.apply(&mut before, &case.history);
            rename_ties(&before, &mut case.probs);
        }
        let chooser = Chooser { processors: case.processors, ..Chooser::new(vocab, stride(vocab), 9, 1) };
        let found = chooser.process(&lab, &padded(&case.logits, vocab), &case.history);
        let found = probabilities(&found[..vocab]);
        for (token, (found, expected)) in found.iter().zip(&case.probs).enumerate() {
            assert_eq!(*found > 0.0, *expected > 0.0, "{}: token {token}: {found} {expected}", case.name);
            worst = worst.max((found - expected).abs());
        }
        assert!(worst <= 1e-5, "{}: {worst:.1e} from transformers", case.name);
    }
    println!("{}: processed probabilities: at most {worst:.1e} from transformers, bound 1e-5", lab.gpu.info().name);
}

#[test]
fn penalised_logits_are_those_of_transformers_and_vllm() {
    let lab = Lab::new(5);
    for Penalised { processors, history, logits, after } in penalised() {
        let vocab = logits.len();
        let chooser = Chooser { processors, ..Chooser::new(vocab, stride(vocab), history.len() as u32 - 1, 1) };
        let found = chooser.process(&lab, &padded(&logits, vocab), &history);
        for (token, (found, expected)) in found.iter().zip(&after).enumerate() {
            let close = (found - expected).abs() <= 1e-5 * expected.abs().max(1.0);
            let removed = *found == REMOVED && *expected == f32::NEG_INFINITY;
            let Chooser { processors, .. } = &chooser;
            assert!(close || removed, "{processors:?}: token {token}: {found} instead of {expected}");
        }
    }
}

/// Biases of tokens and sequences, penalties of history and draft tokens, each row with its own context.
#[test]
fn adjust_equals_its_twin_row_by_row() {
    let mut lab = Lab::new(2);
    let banned = f32::NEG_INFINITY;
    for case in 0..40 {
        let (vocab, rows) = (33 + lab.random.below(500), lab.random.upto(17));
        let stride = stride(vocab + case % 3);
        // Includes tokens that a draft model lacks.
        let mut text: Vec<u32> = (0..lab.random.upto(60)).map(|_| lab.random.below(vocab + 3) as u32).collect();
        // Draft tokens that the text contains, repeated ones, and new ones.
        let drafts: Vec<u32> = (1..rows).map(|_| lab.random.below(vocab.min(40)) as u32).collect();
        let logits = lab.random.values(INPUTS[case % 2], rows * stride);
        let known = text.len();
        let mut biases = vec![Bias::always(3, 1.5), Bias::always(3, -0.25), Bias::ban(7)];
        biases.push(Bias { until: (known + 2) as u32, ..Bias::ban(9) });
        biases.extend([Bias::always(vocab as u32, 2.5), Bias::ban((vocab + stride) as u32)]);
        let whole = [&text[..], &drafts].concat();
        for end in [known, known + rows / 2, known + rows - 1] {
            for len in [1, 2, 16] {
                let after = whole[end.saturating_sub(len)..end].to_vec();
                let (token, bias) = (lab.random.below(vocab) as u32, lab.random.pick(&[0.75, -2.0, banned]));
                biases.push(Bias { after, ..Bias::always(token, bias) });
            }
        }
        let processors = Processors {
            repetition_penalty: lab.random.pick(&[1.0, 1.3]),
            presence_penalty: lab.random.pick(&[0.0, 0.5]),
            frequency_penalty: lab.random.pick(&[0.0, -0.25, 0.3]),
            no_repeat_ngram_size: lab.random.below(5),
            prompt_len: lab.random.below(known),
            biases,
            ..Processors::default()
        };
        let subtracts = processors.presence_penalty != 0.0 || processors.frequency_penalty != 0.0;
        let mut chooser = Chooser { processors, ..Chooser::new(vocab, stride, known as u32 - 1, rows) };
        for (i, &id) in text.iter().rev().take(16).enumerate() {
            chooser.round[PENDING - i] = id;
        }
        chooser.round[DRAFTS..DRAFTS + drafts.len()].copy_from_slice(&drafts);
        let found = chooser.process(&lab, &logits, &text);
        for (row, (found, raw)) in found.chunks_exact(stride).zip(logits.chunks_exact(stride)).enumerate() {
            let mut expected = raw[..vocab].to_vec();
            reference::adjust(&mut expected, &chooser.processors, &text);
            for (id, (found, expected)) in found.iter().zip(&expected).enumerate() {
                // A subtraction may leave a small number.
                let close =
                    (found - expected).abs() <= (1e-5 * expected.abs()).max(if subtracts { 1e-6 } else { 1e-35 });
                let removed = *found == REMOVED && *expected == banned;
                assert!(close || removed, "case {case}, row {row}, token {id}: {found} instead of {expected}");
            }
            assert_eq!(&found[vocab..], &raw[vocab..]);
            text.extend(drafts.get(row));
        }
    }
}

/// Each row has its own mask. Logits that are not finite stay, and nothing past the vocabulary changes.
#[test]
fn mask_equals_its_twin_row_by_row() {
    let mut lab = Lab::new(3);
    for case in 0..12 {
        let (vocab, rows) = (lab.random.pick(&[1, 31, 32, 33, 4095, 4096, 4097, 9000]) + case % 2, lab.random.upto(9));
        let (stride, words) = (stride(vocab + case % 3), vocab.div_ceil(32));
        let mut logits = lab.random.values(INPUTS[case % 2], rows * stride);
        logits[vocab / 2] = f32::NAN;
        let allowed: Vec<u32> = (0..rows * words).map(|_| lab.random.below(1 << 16) as u32 * 0x1_0003).collect();
        let chooser = Chooser::new(vocab, stride, 5, rows);
        let out = lab.output(cast_slice(&logits));
        let common = [(0, lab.uniform(&chooser.step)), (1, chooser.dims(&lab)), (4, chooser.block(&lab))];
        let own = [(2, out.slice()), (3, lab.uniform(&allowed))];
        lab.run(Kernel::Mask, [chooser.segments() as u32, rows as u32, 1], &[&common[..], &own].concat());
        for (row, found) in lab.read(&out).chunks_exact(stride).enumerate() {
            let mut expected = logits[row * stride..][..stride].to_vec();
            reference::mask(&mut expected[..vocab], &allowed[row * words..][..words]);
            assert_eq!(found, cast_slice::<f32, u32>(&expected), "case {case}, row {row}");
        }
    }
}

/// The filtered tokens of large vocabularies are those that the options require, ties included, and no others.
#[test]
fn filter_keeps_what_its_twin_keeps() {
    let mut lab = Lab::new(3);
    let (mut worst, mut others) = (0f64, 0);
    for (case, vocab) in [1, 2, 127, 128, 129, 4096, 32_000, 151_936].into_iter().enumerate() {
        for (top_k, top_p, min_p, temperature) in [
            (40, 0.9, 0.0, 0.7),
            (0, 0.95, 0.0, 1.0),
            (0, 0.5, 0.05, 1.5),
            (1, 1.0, 0.0, 1.0),
            (vocab, 0.0, 0.0, 0.3),
            (7, 1.0, 0.3, 1.0),
        ] {
            let mut logits: Vec<f32> = lab.random.normals(2 * vocab).into_iter().map(|x| 3.0 * x).collect();
            if case % 2 == 1 {
                logits.iter_mut().for_each(|logit| *logit = logit.round());
            }
            let processors = Processors { temperature, top_k, top_p, min_p, ..Processors::default() };
            let chooser = Chooser { processors, ..Chooser::new(vocab, stride(vocab), 0, 2) };
            let found = chooser.process(&lab, &padded(&logits, vocab), &[]);
            for (found, raw) in found.chunks_exact(stride(vocab)).zip(logits.chunks_exact(vocab)) {
                let mut expected = raw.to_vec();
                reference::filter(&mut expected, &chooser.processors);
                // If the rounding of a sum decides, the last token may be another one: the error is its weight.
                let probs = softmax(&raw.iter().map(|logit| logit / temperature).collect::<Vec<_>>());
                let differ = |id: &usize| (found[*id] == REMOVED) != (expected[*id] == f32::NEG_INFINITY);
                let wrong: f64 = (0..vocab).filter(differ).map(|id| f64::from(probs[id])).sum();
                worst = worst.max(wrong);
                others += (0..vocab).filter(differ).count();
                assert!(wrong <= 1e-5, "{vocab} {:?}: {wrong:.1e} of the weight", chooser.processors);
            }
        }
    }
    println!("{}: filter: {others} tokens of weight {worst:.1e} beside the twin's", lab.gpu.info().name);
}

/// All logits are read once for a greedy choice, and twice to remove tokens. Later kernels see only
/// the tokens that may remain.
#[test]
fn all_logits_are_read_once_or_twice_and_then_only_those_that_may_remain() {
    let mut lab = Lab::new(4);
    for kernel in [Kernel::Sample(Noise::None), Kernel::Sample(Noise::Gumbel), Kernel::Survey, Kernel::Gather] {
        // 16 bytes for each of 256 threads, four times, without a loop: a segment.
        let source = kernel.source(Subnormals::Kept);
        let (_, main) = source.split_once("fn main(").unwrap();
        let reads: Vec<_> = main.split("four_logits(").collect();
        assert_eq!((reads.len() - 1) * 256 * 4, Kernel::SEGMENT, "{kernel:?}");
        assert!(!reads[..reads.len() - 1].concat().contains("for ("), "{kernel:?}");
    }
    let (vocab, rows) = (10_000, 2);
    for (top_k, top_p, min_p, most) in [(40, 0.9, 0.0, 60), (0, 0.5, 0.0, 5_000), (50, 1.0, 0.1, 80)] {
        let logits: Vec<f32> = lab.random.normals(rows * vocab).into_iter().map(|x| 4.0 * x).collect();
        let processors = Processors { temperature: 0.8, top_k, top_p, min_p, ..Processors::default() };
        let chooser = Chooser { processors, ..Chooser::new(vocab, vocab, 0, rows) };
        let [cuts, list] = chooser.filter(&lab, &lab.input(cast_slice(&logits)), rows);
        let (counts, ids) = (lab.read(&cuts), lab.read(&list));
        // Repeats the choice with all other tokens set to NaN after the gathering.
        let mut broken = vec![f32::NAN; rows * vocab];
        for row in 0..rows {
            let count = counts[5 * row + 4] as usize;
            assert!(count >= 1 && count <= most, "{count} tokens may remain of {vocab}, {:?}", chooser.processors);
            for id in &ids[row * vocab..][..count] {
                let at = row * vocab + (id & 0x7fff_ffff) as usize;
                broken[at] = logits[at];
            }
        }
        let tokens = [&logits, &broken].map(|logits| {
            let input = lab.input(cast_slice(logits));
            let (step, round) = (lab.output(&chooser.step), lab.output(&chooser.round));
            let bindings = [
                (0, step.slice()),
                (1, chooser.dims(&lab)),
                (2, input),
                (3, round.slice()),
                (4, chooser.block(&lab)),
                (5, cuts.slice()),
                (6, list.slice()),
            ];
            lab.run(Kernel::SampleKept, [rows as u32, 1, 1], &bindings);
            lab.read(&round)
        });
        assert_eq!(tokens[0], tokens[1]);
        assert!(tokens[0][IDS..IDS + rows].iter().all(|id| (*id as usize) < vocab));
    }
}

#[test]
fn sample_takes_the_lowest_of_the_largest() {
    let mut lab = Lab::new(11);
    let mut sizes = vec![(1, 1), (2, 2), (3, 3), (255, 4), (256, 5), (257, 6), (1009, 16), (32_003, 17)];
    sizes.extend((0..30).map(|_| (lab.random.upto(3000), lab.random.upto(17))));
    for (case, (vocab, rows)) in sizes.into_iter().enumerate() {
        let stride = stride(vocab + case % 3);
        let input = INPUTS[case % 3];
        let mut logits = lab.random.values(input, rows * stride);
        for row in logits.chunks_exact_mut(stride) {
            match lab.random.below(6) {
                0 => row[lab.random.below(vocab)] = lab.random.pick(&[f32::NAN, f32::INFINITY, f32::NEG_INFINITY]),
                1 => (0..3).for_each(|_| row[lab.random.below(vocab)] = 77.0),
                2 => row.iter_mut().for_each(|logit| *logit = logit.round()),
                3 => row.fill(f32::MIN),
                _ => {}
            }
            // Values past the vocabulary do not count.
            row[vocab..].fill(f32::NAN);
        }
        let want = reference::sample(&logits, stride, vocab, |_, _| 0.0);
        let logits = lab.input(cast_slice(&logits));
        for advance in [0, 1] {
            let rows = if advance == 1 { 1 } else { rows };
            let save_at = if case == 0 { u32::MAX } else { 99 };
            // Of rows that read the mask token, the first guesses the next token.
            let masks = case as u32 % 3;
            let (read, first) = if masks > 0 { (1, 3) } else { (1 + case as u32, 0) };
            let step = [100, 1 + case as u32, 7, 3, IDS as u32, 0, 3, 50, 1, save_at, masks, 2, 0, 1];
            let chooser = Chooser { step, advance, ..Chooser::new(vocab, stride, 0, rows) };
            let [after, round] = chooser.choose(&lab, Noise::None, &logits, rows);
            let mut ids = chooser.round.clone();
            ids[IDS..IDS + rows].copy_from_slice(&want[..rows]);
            assert_eq!(round, ids, "{vocab} {input:?}");
            // The next pass: one row, after this one, whose token is the sampled one. It starts from the saved state and saves none.
            let [slot, base] = if case == 0 { [3, 50] } else { [1, 99] };
            let states = [slot, base, 1, u32::MAX];
            let next = [100 + read, 1, IDS as u32, first, IDS as u32 + 1, 1].into_iter().chain(states);
            let next: Vec<u32> = next.chain([masks, 2, 0, 1]).collect();
            assert_eq!(after, if advance == 1 { next } else { step.to_vec() });
        }
    }
}

/// A draft ends after a token that is too unlikely, and the rest is marked.
#[test]
fn a_draft_that_is_not_confident_ends() {
    let lab = Lab::new(12);
    let logits = [1.0f32, 3.0, 0.0, 2.0];
    let likely = softmax(&logits)[1];
    let input = lab.input(cast_slice(&logits));
    for (confidence, goes_on) in [(likely * 0.99, 1), (likely * 1.01, 0), (0.0, 1), (1.0, 0)] {
        let chooser = Chooser { confidence, advance: 1, ..Chooser::new(4, 4, 5, 1) };
        let [after, round] = chooser.choose(&lab, Noise::None, &input, 1);
        assert_eq!((after[1], round[IDS]), (goes_on, 1), "{confidence}");
    }
    let mut chooser = Chooser { advance: 1, ..Chooser::new(4, 4, 5, 1) };
    chooser.step[1] = 0;
    let [after, round] = chooser.choose(&lab, Noise::None, &input, 1);
    assert_eq!((after[1], after[4], round[IDS]), (0, IDS as u32 + 1, u32::MAX - 1));
}

/// A drafter ends its draft if it is less certain than is asked.
#[test]
fn confide_equals_its_twin() {
    let mut lab = Lab::new(16);
    for case in 0..60 {
        let (hidden, rank, row) = (lab.random.upto(600), lab.random.upto(200), lab.random.below(4));
        let width = hidden.next_multiple_of(32);
        let (x, markov) = (lab.random.normals(4 * width), lab.random.normals(rank));
        let weights: Vec<f32> = lab.random.normals(hidden + rank).into_iter().map(|w| 0.1 * w).collect();
        let bias = lab.random.normals(1)[0];
        let want = reference::confide(&x[row * width..][..hidden], &markov, &weights, bias) as f32;
        for (confidence, rows) in [(want * 0.999, 1), (want * 1.001, 0), (0.0, 1)] {
            let chooser = Chooser { confidence, ..Chooser::new(4, 4, 5, 1) };
            let mut words = chooser.step;
            words[5] = row as u32;
            let step = lab.output(&words);
            let dims = lab.uniform(&[hidden as u32, width as u32, rank as u32, 1f32.to_bits()]);
            let inputs = [&x, &markov, &weights, &vec![bias]].map(|floats| lab.input(cast_slice(floats)));
            let [x, markov, weights, bias] = inputs;
            let bindings = [step.slice(), dims, x, markov, chooser.block(&lab), weights, bias];
            lab.run(Kernel::Confide, [1, 1, 1], &(0..).zip(bindings).collect::<Vec<_>>());
            words[1] = rows;
            assert_eq!(lab.read(&step), words, "case {case}: {confidence}");
        }
    }
}

/// The hash has the same bits as in Rust, and the noise is accurate: if two scores are clearly apart, the kernel chooses the
/// twin's token.
#[test]
fn noise_is_that_of_the_twin() {
    let mut lab = Lab::new(13);
    let mut close = 0;
    for case in 0..60u32 {
        let (vocab, rows) = (2 + lab.random.below(3000), lab.random.upto(16));
        let scale = [0.0, 1.0, 8.0][case as usize % 3];
        let logits: Vec<f32> = lab.random.normals(rows * vocab).into_iter().map(|x| scale * x).collect();
        let stream = [stream::TARGET, stream::DRAFT][case as usize % 2];
        let (position, lead) = (1000 * case, case / 2 % 2);
        let decided = |row: usize| position + lead + row as u32 + 1;
        let noise = |row: usize, id: usize| -exponential(SEED, stream, decided(row), id as u32).ln();
        let want = reference::sample(&logits, vocab, vocab, noise);
        let chooser = Chooser { stream, lead, ..Chooser::new(vocab, stride(vocab), position, rows) };
        let input = lab.input(cast_slice(&padded(&logits, vocab)));
        let [_, round] = chooser.choose(&lab, Noise::Gumbel, &input, rows);
        for (row, (&found, want)) in round[IDS..].iter().zip(want).enumerate() {
            if found != want {
                let score = |id: u32| logits[row * vocab + id as usize] + noise(row, id as usize);
                let gap = score(want) - score(found);
                assert!(
                    gap < 1e-5 * scale.max(1.0),
                    "case {case}, row {row}: {found} instead of {want}, {gap:.1e} less"
                );
                close += 1;
            }
        }
    }
    assert!(close <= 2, "{close} near ties are too many");
}

/// Any number of draft tokens of which any number are accepted, with drafts that were cut and ids of broken rows.
#[test]
fn follow_equals_its_twin() {
    let mut lab = Lab::new(15);
    for case in 0..200 {
        let (vocab, drafted) = (33 + lab.random.below(300), lab.random.below(32));
        let (position, has_draft_step) = (PENDING + lab.random.below(100), case % 2 == 0);
        let mut tokens = |count: usize| -> Vec<u32> { (0..count).map(|_| lab.random.below(vocab) as u32).collect() };
        let (text, mut drafts, mut ids) = (tokens(PENDING + 1), tokens(drafted), tokens(drafted + 1));
        let right = lab.random.below(drafted + 1);
        ids[..right].copy_from_slice(&drafts[..right]);
        match case % 5 {
            0 => drafts[right..].fill(u32::MAX - 1),
            1 => ids[right] = u32::MAX,
            _ => {}
        }
        let mut round = vec![UNTOUCHED; ROUND];
        round[..DRAFTS].copy_from_slice(&text);
        round[DRAFTS..][..drafted].copy_from_slice(&drafts);
        round[IDS..][..=drafted].copy_from_slice(&ids);
        let mut seen = vec![0u32; vocab.div_ceil(32)];
        let mark = |seen: &mut [u32], ids: &[u32]| {
            let known = ids.iter().filter(|&&id| id != u32::MAX);
            known.for_each(|&id| seen[id as usize / 32] |= 1 << (id % 32));
        };
        mark(&mut seen, &text);
        let rows = drafted as u32 + 1;
        let saves = case % 3 > 0;
        let save_at = if saves { position as u32 } else { u32::MAX };
        let step = lab.output(&[position as u32, rows, PENDING as u32, 0, IDS as u32, 0, 3, 2, 2, save_at, 0, 0, 0, 0]);
        let (missed, lead) = (1 + lab.random.below(PENDING) as u32 * (case / 2 % 2), case / 4 % 2);
        let (missed, lead, masks) = if has_draft_step { (missed, lead, case / 8 % 4) } else { (0, 0, 0) };
        let skipped = u32::from(has_draft_step) * (case / 16 % 2);
        let before = match has_draft_step {
            true => [9, 0, 20, 3, 21, 5, 1, 7, 1, u32::MAX, masks, missed, skipped, lead],
            false => [0; 14],
        };
        let draft_step = lab.output(&before);
        let of_context = [9, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, missed, 0, 0];
        let context_step = lab.output(&of_context);
        // Counts of the generated tokens, which are the last half.
        let mut counts = vec![0u32; vocab];
        text[PENDING / 2..].iter().for_each(|&id| counts[id as usize] += 1);
        let known = [&vec![0; position - PENDING], &text[..]].concat();
        let mut all = known.clone();
        all.resize(position + 1 + 32, UNTOUCHED);
        // No id has bits in the guard band.
        let (tokens, bits) = (lab.output(&round), lab.output(&seen));
        let (numbers, whole) = (lab.output(&counts), lab.output(&all));
        let lists = [&tokens, &bits, &numbers, &whole];
        let bindings = [&step, &draft_step].into_iter().chain(lists).chain([&context_step]).map(Output::slice);
        let bindings: Vec<_> = (0..).zip(bindings).collect();
        lab.run(Kernel::Follow, [1, 1, 1], &bindings);

        let want = reference::follow(&text, &drafts, &ids);
        let accepted = want.len() - text.len() - 1;
        assert!(accepted >= right);
        let found = lab.read(&tokens);
        assert_eq!(found[..DRAFTS], want[want.len() - DRAFTS..], "case {case}");
        assert_eq!(found[DRAFTS..], round[DRAFTS..], "case {case}: drafts and ids stay");
        mark(&mut seen, &want);
        assert_eq!(lab.read(&bits), seen, "case {case}");
        let fresh = &want[text.len()..];
        fresh.iter().filter(|&&id| id != u32::MAX).for_each(|&id| counts[id as usize] += 1);
        assert_eq!(lab.read(&numbers), counts, "case {case}");
        all[known.len()..][..fresh.len()].copy_from_slice(fresh);
        assert_eq!(lab.read(&whole), all, "case {case}");
        let at = (position + accepted + 1) as u32;
        // Rounds save states in slots 0 to 2 in turn. A round that saved none is continued from the state that it started from.
        let states = if saves { [2, position as u32, 0, at] } else { [3, 2, 0, at] };
        let next = [at, rows, PENDING as u32, 0, IDS as u32, 0].into_iter().chain(states).chain([0; 4]);
        assert_eq!(lab.read(&step), next.collect::<Vec<_>>(), "case {case}");
        let first = at - missed - lead;
        let states = if has_draft_step { [1, 7, 2, first] } else { [0, 0, 1, first] };
        let next = [first, missed + 1 + masks, PENDING as u32 - missed, missed + skipped, DRAFTS as u32, 0].into_iter();
        let next = next.chain(states).chain([masks, missed, skipped, lead]);
        assert_eq!(lab.read(&draft_step), next.collect::<Vec<_>>(), "case {case}");
        let mut next = of_context;
        [next[0], next[1]] = [at - missed, missed];
        assert_eq!(lab.read(&context_step), next, "case {case}");
    }
}

/// The kernel gives the twin's ids for draft tokens, distributions and noise of a round, except if rounding may decide.
#[test]
fn reject_equals_its_twin() {
    let mut lab = Lab::new(14);
    let (mut accepted, mut all) = (0, 0);
    for case in 0..60u32 {
        // Some vocabularies have several segments.
        let vocab = 2 + lab.random.below(400) + if case % 10 == 9 { 2 * Kernel::SEGMENT } else { 0 };
        let rows = 1 + lab.random.upto(15);
        // The draft model's vocabulary is larger or smaller than the target's.
        let draft_stride = if case % 2 == 0 { vocab + 3 } else { vocab - vocab / 4 };
        let (shared, certain) = (vocab.min(draft_stride), case % 3 == 0);
        let p: Vec<f32> = lab.random.normals(rows * vocab).into_iter().map(|x| 2.0 * x).collect();
        // The draft model is unrelated to the target, similar, or equal.
        let mix = [0.0, 0.5, 1.0][case as usize / 3 % 3];
        let mut q = lab.random.normals(rows * draft_stride);
        for (row, q) in q.chunks_exact_mut(draft_stride).enumerate() {
            q.iter_mut().zip(&p[row * vocab..][..vocab]).for_each(|(q, p)| *q = mix * p + (1.0 - mix) * *q);
        }
        let position = 50 * case;
        let dims = if certain { 0 } else { draft_stride };
        let draft = (stride(dims), dims);
        let mut chooser = Chooser {
            draft_stride: draft.0,
            draft_vocab: draft.1,
            ..Chooser::new(vocab, stride(vocab), position, rows)
        };
        let softmaxes = |logits: &[f32], stride: usize| -> Vec<Vec<f32>> {
            let row = |row: &[f32]| {
                let mut whole = softmax(&row[..vocab.min(stride)]);
                whole.resize(vocab, 0.0);
                whole
            };
            logits.chunks_exact(stride).map(row).collect()
        };
        let (ps, mut qs) = (softmaxes(&p, vocab), softmaxes(&q, draft_stride));
        for (row, q) in qs.iter_mut().enumerate().take(rows - 1) {
            let x = lab.random.below(if certain { vocab } else { shared });
            chooser.round[DRAFTS + row] = x as u32;
            if certain {
                *q = (0..vocab).map(|id| f32::from(u8::from(id == x))).collect();
            }
        }
        let target = lab.input(cast_slice(&padded(&p, vocab)));
        let draft = lab.input(cast_slice(&padded(&q, draft_stride)));
        let [round, of_kept] = chooser.reject(&lab, &target, &draft, rows);
        assert_eq!(round, of_kept);
        for row in 0..rows {
            let at = position + row as u32 + 1;
            let wait: Vec<f32> = (0..vocab as u32).map(|id| exponential(SEED, stream::TARGET, at, id)).collect();
            let chance = uniform(SEED, stream::ACCEPTANCE, at);
            let x = chooser.round[DRAFTS + row];
            let drafted = (row + 1 < rows).then_some((x, &qs[row][..]));
            let want = reference::reject(&ps[row], drafted, chance, &wait);
            let found = round[IDS + row];
            let near = drafted.is_some_and(|(x, q)| {
                (chance * q[x as usize] / ps[row][x as usize] - 1.0).abs() < 1e-4 || found == x && want == x
            });
            let rest =
                |id: u32| (ps[row][id as usize] - drafted.map_or(0.0, |(_, q)| q[id as usize])) / wait[id as usize];
            let tie = (rest(found) / rest(want) - 1.0).abs() < 1e-3 || mix == 1.0;
            assert!(found == want || near || tie, "case {case}, row {row}: {found} instead of {want}");
            accepted += usize::from(row + 1 < rows && found == x);
            all += usize::from(row + 1 < rows);
        }
    }
    assert!(accepted > all / 10 && accepted < all * 9 / 10, "{accepted} of {all} accepted: both ways are tried");
}

/// Tokens of the kernel follow p exactly for every q: chi-square over many positions.
#[test]
fn rejection_sampling_on_the_device_follows_the_target() {
    let lab = Lab::new(15);
    let (vocab, rows) = (6, 16);
    let p = [0.4f32, 0.25, 0.2, 0.1, 0.05, 0.0].map(|p| if p == 0.0 { REMOVED } else { p.ln() });
    let q = [0.1f32, 0.05, 0.5, 0.05, 0.1, 0.2];
    let mut counts = [0f64; 6];
    let target = lab.input(cast_slice(&padded(&p.repeat(rows), vocab)));
    let draft = lab.input(cast_slice(&padded(&q.map(f32::ln).repeat(rows), vocab)));
    let mut random = Random(99);
    for call in 0..1500u32 {
        let (draft_stride, draft_vocab) = (stride(vocab), vocab);
        let mut chooser = Chooser { draft_stride, draft_vocab, ..Chooser::new(vocab, stride(vocab), call * 16, rows) };
        for row in 0..rows - 1 {
            let mut left = random.unit() as f32;
            let drawn = q.iter().position(|q| {
                left -= q;
                left < 0.0
            });
            chooser.round[DRAFTS + row] = drawn.unwrap_or(5) as u32;
        }
        let [round, _] = chooser.reject(&lab, &target, &draft, rows);
        round[IDS..IDS + rows].iter().for_each(|&id| counts[id as usize] += 1.0);
    }
    assert_eq!(counts[5], 0.0, "a token that the target never says");
    let all: f64 = counts.iter().sum();
    let expected = softmax(&p[..5]);
    let statistic = chi_square(&counts[..5], |i| f64::from(expected[i]) * all);
    let chance = chi_square_p(statistic, 4.0);
    assert!(chance > 1e-6, "chi-square {statistic}, p {chance:e}: {counts:?}");
}

/// Log-probabilities of rows before they change in place: of chosen and draft tokens, and the most likely ones, ties by id.
#[test]
fn logprobs_equal_their_twin() {
    let mut lab = Lab::new(16);
    for (case, vocab) in [1, 7, 33, 4096, 4097, 32_003].into_iter().enumerate() {
        for top in [1, 5, 20] {
            let rows = lab.random.upto(6);
            let mut logits: Vec<f32> = lab.random.normals(rows * vocab).into_iter().map(|x| 4.0 * x).collect();
            if case % 2 == 1 {
                logits.iter_mut().for_each(|logit| *logit = logit.round());
            }
            let processors = Processors { top_k: top, ..Processors::default() };
            let mut chooser = Chooser { processors, ..Chooser::new(vocab, stride(vocab), 0, rows) };
            chooser.round.resize(CHUNK + rows * (2 + 2 * top), UNTOUCHED);
            let mut ids = |count: usize| -> Vec<u32> { (0..count).map(|_| lab.random.below(vocab) as u32).collect() };
            let (drafts, chosen) = (ids(rows - 1), ids(rows));
            chooser.round[DRAFTS..][..rows - 1].copy_from_slice(&drafts);
            chooser.round[IDS..][..rows].copy_from_slice(&chosen);
            let found = chooser.logprobs(&lab, &padded(&logits, vocab), rows);
            for (row, (found, logits)) in found.chunks_exact(2 + 2 * top).zip(logits.chunks_exact(vocab)).enumerate() {
                let want = reference::logprobs(logits, chosen[row], drafts.get(row).copied(), top);
                let close = |bits: u32, expected: f32| {
                    (f32::from_bits(bits) - expected).abs() <= 2e-5 * expected.abs().max(1.0)
                };
                assert!(close(found[0], want.0), "{vocab}: {} instead of {}", f32::from_bits(found[0]), want.0);
                assert!(row + 1 == rows || close(found[1], want.1), "{vocab}: a draft token");
                let (pairs, _) = found[2..].as_chunks::<2>();
                let pairs: Vec<_> = pairs.iter().take_while(|[id, _]| (*id as usize) < vocab).collect();
                assert_eq!(pairs.len(), top.min(vocab));
                for ([id, bits], (want, logprob)) in pairs.into_iter().zip(&want.2) {
                    assert!(id == want && close(*bits, *logprob), "{vocab}, row {row}: {id} instead of {want}");
                }
            }
        }
    }
}
