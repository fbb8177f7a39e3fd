//! Rejection sampling follows the target: exactly, by the crate's own rules, and end to end through the loop and on the device. Each
//! known mistake of implementations is made once here, and must be detected.

use async_trait::async_trait;
use common::lab::Random;
use common::reference::reject;
use common::sampling::{chi_square, chi_square_p};
use common::scenario::Scenario;
use common::{Tales, engine, gpu, path, run};
use foretoken::internals::backend::Backend;
use foretoken::internals::sample::{Draw, Processors, Sampling, accepts, recovered, softmax};
use foretoken::internals::speculate::{Drafter, Round};
use foretoken::internals::target::{Draft, Queue, Target, Verified};
use foretoken::{Origin, Result};

type Accepts = fn(f32, f32, f32) -> bool;
type Recovered = fn(&[f32], &[f32]) -> Vec<f32>;

/// Returns the chance that a token is accepted: the largest uniform number that the rule accepts.
fn chance(accepts: Accepts, p: f32, q: f32) -> f64 {
    let steps = 1u32 << 24;
    let (mut yes, mut no) = (0, steps);
    if !accepts(p, q, 0.0) {
        return 0.0;
    }
    while no - yes > 1 {
        let middle = yes + (no - yes) / 2;
        if accepts(p, q, middle as f32 / steps as f32) { yes = middle } else { no = middle }
    }
    f64::from(no) / f64::from(steps)
}

/// Returns the largest difference between p and the distribution that the two rules give for drafts from q.
fn deviation(p: &[f32], q: &[f32], accepts: Accepts, recovered: Recovered) -> f64 {
    let accepted: Vec<f64> = p.iter().zip(q).map(|(&p, &q)| f64::from(q) * chance(accepts, p, q)).collect();
    let rejected = q.iter().map(|&q| f64::from(q)).sum::<f64>() - accepted.iter().sum::<f64>();
    let rest = recovered(p, q);
    let given = accepted.iter().zip(&rest).map(|(accepted, rest)| accepted + rejected * f64::from(*rest));
    given.zip(p).map(|(given, p)| (given - f64::from(*p)).abs()).fold(0.0, f64::max)
}

/// Returns a pair of distributions over [vocab], by kind: alike, disjoint, equal, one-hot, with zeros, tied.
fn pair(random: &mut Random, kind: usize, vocab: usize) -> (Vec<f32>, Vec<f32>) {
    let scale = [0.5, 2.0, 6.0][random.below(3)];
    let mut logits = || random.normals(vocab).into_iter().map(|x| scale * x).collect::<Vec<f32>>();
    let (mut p, mut q) = (logits(), logits());
    match kind {
        1 => {
            for i in 0..vocab {
                if i % 2 == 0 { p[i] = f32::NEG_INFINITY } else { q[i] = f32::NEG_INFINITY }
            }
        }
        2 => q.clone_from(&p),
        3 => q.iter_mut().skip(1).for_each(|logit| *logit = f32::NEG_INFINITY),
        4 => p.iter_mut().skip(vocab / 2).for_each(|logit| *logit = f32::NEG_INFINITY),
        5 => [&mut p, &mut q].into_iter().flatten().for_each(|logit| *logit = logit.round()),
        _ => {}
    }
    (softmax(&p), softmax(&q))
}

#[test]
fn the_marginal_is_the_target_to_a_millionth() {
    let mut random = Random(1);
    let mut worst = 0f64;
    for case in 0..1000 {
        let vocab = match case % 200 {
            0 => 151_936,
            1 | 2 => 32_000,
            _ => 2 + random.below(300),
        };
        let (p, q) = pair(&mut random, case % 7, vocab);
        worst = worst.max(deviation(&p, &q, accepts, recovered));
        assert!(worst <= 1e-6, "case {case}, {vocab} tokens: {worst:e}");
    }
    println!("worst deviation of the marginal: {worst:.1e}, bound 1e-6");
}

/// A mistake in the rules changes the marginal distribution, or accepts a token of probability 0.
#[test]
fn wrong_rules_are_found() {
    let never: Accepts = accepts;
    assert!(!never(0.0, 0.5, 0.0), "a token that the target never says is never accepted");
    let lenient: Accepts = |p, q, u| u * q <= p;
    assert!(lenient(0.0, 0.5, 0.0), "the mutant of <= for < would be found by the line above");
    let (p, q) = pair(&mut Random(2), 0, 50);
    let always: Accepts = |_, _, _| true;
    let whole: Recovered = |p, _| p.to_vec();
    assert!(deviation(&p, &q, always, recovered) > 1e-3, "accepting always");
    assert!(deviation(&p, &q, accepts, whole) > 1e-3, "drawing from p again");
    let slightly: Accepts = |p, q, u| u * q < p * 1.003;
    assert!(deviation(&p, &q, slightly, recovered) > 1e-5, "accepting 0.3 % too often");
}

/// Mistakes in the loop around the rules.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Mutant {
    None,
    ResamplesFromP,
    AcceptsAlways,
    BonusFromTheRowBefore,
    TemperatureOnOneSide,
    StaleDraftProbabilities,
    TruncatesOneLess,
}

const VOCAB: usize = 4;

/// A target and a draft model given by tables: the distribution of a token depends on the two tokens before it.
struct Tables {
    cached: Vec<u32>,
    random: Random,
    mutant: Mutant,
    stale: Vec<f32>,
    /// Pending token and number of draft tokens.
    submitted: Option<(u32, usize)>,
}

impl Tables {
    fn logits(seed: u64, before: u32, last: u32) -> Vec<f32> {
        Random(seed ^ u64::from(before * 8 + last) << 32).normals(VOCAB).into_iter().map(|x| 1.2 * x).collect()
    }

    fn p(before: u32, last: u32) -> Vec<f32> {
        softmax(&Self::logits(1, before, last))
    }

    fn q(before: u32, last: u32, temperature: f32) -> Vec<f32> {
        softmax(&Self::logits(2, before, last).into_iter().map(|logit| logit / temperature).collect::<Vec<_>>())
    }

    fn wait(&mut self) -> Vec<f32> {
        (0..VOCAB).map(|_| -((1.0 - self.random.unit()).ln() as f32)).collect()
    }
}

#[async_trait(?Send)]
impl Target for Tables {
    fn sample_by(&mut self, _sampling: &Sampling) -> Result<()> {
        Ok(())
    }
    fn cached(&self) -> &[u32] {
        &self.cached
    }

    fn capacity(&self) -> usize {
        1 << 20
    }

    fn truncate(&mut self, len: usize) {
        let kept = if self.mutant == Mutant::TruncatesOneLess { len + 1 } else { len };
        self.cached.truncate(kept);
    }

    async fn prefill(&mut self, tokens: &[u32]) -> Result<()> {
        self.cached.extend_from_slice(tokens);
        Ok(())
    }

    async fn submit(&mut self, pending: u32, draft: &Draft) -> Result<()> {
        self.submitted = Some((pending, draft.len()));
        Ok(())
    }

    async fn finish(&mut self) -> Result<Verified> {
        let (pending, drafted) = self.submitted.take().unwrap();
        let mut text = self.cached.clone();
        text.push(pending);
        let first = text.len();
        let (mut drawn, mut qs) = (Vec::new(), Vec::new());
        for _ in 0..drafted {
            let [before, last] = text[text.len() - 2..] else { panic!("two tokens are always there") };
            let q = Self::q(before, last, 0.6);
            let x = reject(&q, None, 0.0, &self.wait());
            let seen = if self.mutant == Mutant::TemperatureOnOneSide { Self::q(before, last, 1.0) } else { q.clone() };
            qs.push(seen);
            drawn.push(x);
            text.push(x);
        }
        if self.mutant == Mutant::StaleDraftProbabilities && !qs.is_empty() {
            let fresh = qs[0].clone();
            if !self.stale.is_empty() {
                qs[0].clone_from(&self.stale);
            }
            self.stale = fresh;
        }
        let mut ids = Vec::new();
        let drafts = drawn.iter().zip(&qs).map(|(&x, q)| Some((x, &q[..]))).chain([None]);
        for (row, draft) in drafts.enumerate() {
            let from =
                if self.mutant == Mutant::BonusFromTheRowBefore && row == drawn.len() && row > 0 { 1 } else { 0 };
            let at = first + row - from;
            let p = Self::p(text[at - 2], text[at - 1]);
            let (chance, wait) = (self.random.unit() as f32, self.wait());
            ids.push(match (self.mutant, draft) {
                (Mutant::AcceptsAlways, Some((x, _))) => x,
                (Mutant::ResamplesFromP, Some((x, q))) if !accepts(p[x as usize], q[x as usize], chance) => {
                    reject(&p, None, 0.0, &wait)
                }
                _ => reject(&p, draft, chance, &wait),
            });
        }
        self.cached.push(pending);
        self.cached.extend_from_slice(&drawn);
        Ok(Verified { draft: drawn, ids, ..Verified::default() })
    }
}

impl Queue for Tables {}

struct Steady;

impl Drafter for Steady {
    fn draft(&mut self, _tokens: &[u32], room: usize) -> Draft {
        Draft::Model(3.min(room - 1))
    }
    fn learn(&mut self, _round: &Round) {}
    fn origin(&self) -> Origin {
        Origin::DraftModel
    }
}

fn generate(mutant: Mutant, most: usize, ends: &[u32]) -> Vec<u32> {
    let mut target = Tables { cached: Vec::new(), random: Random(7), mutant, stale: Vec::new(), submitted: None };
    Scenario::new(&[0, 1, 2]).drafter(&mut Steady).ends(ends).most(most).run(&mut target).ids
}

/// Returns the chance of counts at least as extreme, if tokens follow the target.
fn fit(mutant: Mutant) -> f64 {
    let text = generate(mutant, 60_000, &[]);
    let mut counts = vec![0f64; VOCAB * VOCAB * VOCAB];
    for three in text.windows(3) {
        counts[three.iter().fold(0, |at, &id| at * VOCAB + id as usize)] += 1.0;
    }
    let expected = |at: usize| {
        let (context, next) = (at / VOCAB, at % VOCAB);
        let seen: f64 = counts[context * VOCAB..][..VOCAB].iter().sum();
        seen * f64::from(Tables::p((context / VOCAB) as u32, (context % VOCAB) as u32)[next])
    };
    chi_square_p(chi_square(&counts, expected), (VOCAB * VOCAB * (VOCAB - 1)) as f64)
}

#[test]
fn the_loop_follows_the_target_and_every_mutant_is_found() {
    let chance = fit(Mutant::None);
    assert!(chance > 1e-6, "p {chance:e}");
    for mutant in [
        Mutant::ResamplesFromP,
        Mutant::AcceptsAlways,
        Mutant::BonusFromTheRowBefore,
        Mutant::TemperatureOnOneSide,
        Mutant::StaleDraftProbabilities,
        Mutant::TruncatesOneLess,
    ] {
        let chance = fit(mutant);
        assert!(chance < 1e-6, "{mutant:?} survives: p {chance:e}");
    }
}

#[test]
fn an_end_inside_a_draft_ends_the_text() {
    let ended = generate(Mutant::None, 1000, &[3]);
    assert_eq!(ended.iter().position(|&id| id == 3), Some(ended.len() - 1));
    let ignored = generate(Mutant::None, 1000, &[]);
    assert!(ignored.iter().position(|&id| id == 3).is_some_and(|end| end + 1 < ignored.len()));
    assert_eq!(ended, ignored[..ended.len()], "up to the end it is the same text");
}

/// On the device, through the loop's own rounds: the first two tokens after a prompt, over many seeds.
#[test]
fn two_tokens_of_a_real_model_follow_its_distribution() {
    let prompt = Tales::cases()[1].prompt_ids.clone();
    let mut engine = engine(&gpu(), &path("models/tales/target"), Some(&path("models/tales/draft")), Tales::capacity());
    let processors = Processors { top_k: 3, temperature: 2.0, ..Processors::default() };
    let vocab = engine.target().spec().vocab_size;
    let mut after = |tokens: &[u32]| {
        engine.truncate(0);
        let logits = run(engine.logits(tokens, 1)).unwrap();
        let mut last = logits[logits.len() - vocab..].to_vec();
        processors.apply(&mut last, tokens);
        softmax(&last)
    };
    let first = after(&prompt);
    let firsts: Vec<u32> = (0..vocab as u32).filter(|&id| first[id as usize] > 0.0).collect();
    let mut cells = Vec::new();
    for &id in &firsts {
        let second = after(&[&prompt[..], &[id]].concat());
        let seconds = (0..vocab as u32).filter(|&next| second[next as usize] > 0.0);
        cells
            .extend(seconds.map(|next| ([id, next], f64::from(first[id as usize]) * f64::from(second[next as usize]))));
    }
    let mut counts = vec![0f64; cells.len()];
    let mut accepted = 0;
    let draws = 250;
    for seed in 0..draws {
        engine
            .sample_by(&Sampling { processors: processors.clone(), draw: Draw::Rejection, seed, ..Sampling::default() })
            .unwrap();
        let found = Scenario::new(&prompt).drafter(&mut Steady).most(2).keeping_all().run(&mut engine);
        accepted += found.stats.num_accepted_draft_tokens;
        let cell = cells.iter().position(|(pair, _)| found.ids == pair).expect("tokens that the target may say");
        counts[cell] += 1.0;
    }
    assert!(
        (1..draws).contains(&(accepted as u64)),
        "{accepted} of {draws} draft tokens were accepted: both ways are tried"
    );
    // Cells that are too rare for the test count as one.
    let expected = |i: usize| cells[i].1 * draws as f64;
    let (often, rare): (Vec<usize>, Vec<usize>) = (0..cells.len()).partition(|&i| expected(i) >= 5.0);
    let mut found: Vec<f64> = often.iter().map(|&i| counts[i]).collect();
    let mut wanted: Vec<f64> = often.iter().map(|&i| expected(i)).collect();
    found.push(rare.iter().map(|&i| counts[i]).sum());
    wanted.push(rare.iter().map(|&i| expected(i)).sum::<f64>().max(1e-9));
    let chance = chi_square_p(chi_square(&found, |i| wanted[i]), found.len() as f64 - 1.0);
    assert!(chance > 1e-6, "p {chance:e}: {found:?} where {wanted:?} was expected");
}
