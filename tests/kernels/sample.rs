//! Sampling: processors compared with Hugging Face transformers, keyed noise compared with its theoretical distributions.

use common::sampling::{Case, Penalised, cases, chi_square, chi_square_p, penalised, rename_ties};
use foretoken::internals::sample::{
    Bias, Draw, Processors, Sampling, choose, draw, gumbel, log_sum_exp, most_likely, softmax, stream, threefry2x32,
    uniform,
};

#[test]
fn probabilities_are_those_of_transformers() {
    let cases = cases();
    assert_eq!(cases.len(), 180);
    for Case { name, mut logits, history, processors, mut probs } in cases {
        if processors.top_p < 1.0 {
            let mut before = logits.clone();
            Processors { top_p: 1.0, min_p: 0.0, ..processors.clone() }.apply(&mut before, &history);
            rename_ties(&before, &mut probs);
        }
        processors.apply(&mut logits, &history);
        for (token, (found, expected)) in softmax(&logits).iter().zip(&probs).enumerate() {
            assert_eq!(*found > 0.0, *expected > 0.0, "{name}: token {token} survives: {found} {expected}");
            assert!((found - expected).abs() <= 1e-6, "{name}: token {token}: {found} instead of {expected}");
        }
    }
}

#[test]
fn penalties_are_those_of_transformers_and_vllm() {
    let cases = penalised();
    assert_eq!(cases.len(), 72);
    for Penalised { processors, history, mut logits, after } in cases {
        processors.adjust(&mut logits, &history);
        for (token, (found, expected)) in logits.iter().zip(&after).enumerate() {
            let close = found == expected || (found - expected).abs() <= 1e-6 * expected.abs().max(1.0);
            assert!(close, "{processors:?}, {history:?}: token {token}: {found} instead of {expected}");
        }
    }
}

#[test]
fn the_most_likely_tokens_are_the_first_of_a_stable_sort() {
    let logits = [1.0f32, -0.0, 3.0, 0.0, 3.0, -2.0];
    assert_eq!(most_likely(&logits, 4), [2, 4, 0, 1]);
    assert_eq!(most_likely(&logits, 0), [] as [u32; 0]);
    assert_eq!(most_likely(&logits, 9), [2, 4, 0, 1, 3, 5]);
    let all = log_sum_exp(&logits);
    for (logit, p) in logits.iter().zip(softmax(&logits)) {
        assert!(((logit - all).exp() - p).abs() < 1e-6);
    }
}

/// Such a token is rejected, without an error about logits.
#[test]
fn a_draft_token_that_the_target_lacks_is_never_chosen() {
    let sampling = Sampling { draw: Draw::Rejection, seed: 3, ..Sampling::default() };
    let drafts_logits = [0.0; 8];
    for position in 1..200 {
        let history = vec![1; position];
        for drawn_from in [None, Some(&drafts_logits[..])] {
            let chosen = choose(&mut [0.0, 1.0, 2.0, -1.0], &sampling, &history, Some((6, drawn_from)));
            assert!(chosen.is_some_and(|id| id < 4), "{chosen:?}");
        }
    }
}

const DRAWS: u32 = 1_000_000;

#[test]
fn draws_follow_the_softmax() {
    for (index, temperature) in [(0u64, 0.3f32), (1, 0.7), (2, 1.0), (3, 1.5)] {
        let logits: Vec<f32> = (0..10).map(|i| ((i * 7 % 10) as f32 / 3.0 - 1.0) / temperature).collect();
        let expected = softmax(&logits);
        let mut counts = [0f64; 10];
        for position in 0..DRAWS {
            counts[draw(&logits, 1234 + index, stream::TARGET, position) as usize] += 1.0;
        }
        let statistic = chi_square(&counts, |i| f64::from(expected[i]) * f64::from(DRAWS));
        let p = chi_square_p(statistic, 9.0);
        assert!(p > 1e-6, "temperature {temperature}: chi-square {statistic}, p {p:e}");
    }
}

/// The test detects a generator whose uniforms are off by 0.3 %, so it can fail.
#[test]
fn the_chi_square_test_finds_a_small_bias() {
    let logits = [0.0f32, 0.0];
    let mut counts = [0f64; 2];
    for position in 0..DRAWS {
        let score = |token: u32| gumbel(5, position, token) + if token == 0 { 0.012 } else { 0.0 };
        counts[usize::from(score(1) > score(0))] += 1.0;
    }
    let statistic = chi_square(&counts, |i| f64::from(softmax(&logits)[i]) * f64::from(DRAWS));
    assert!(chi_square_p(statistic, 1.0) < 1e-6, "{statistic}");
}

/// Mean 0.5772, variance pi^2 / 6, and a uniform distribution of exp(-exp(-g)), over positions, tokens and seeds.
#[test]
fn noise_is_gumbel_noise_along_every_key() {
    type Noise = fn(u32) -> f32;
    let along: [(&str, Noise); 3] = [
        ("positions", |i| gumbel(7, i, 11)),
        ("tokens", |i| gumbel(7, 11, i)),
        ("seeds", |i| gumbel(u64::from(i) << 16, 11, 7)),
    ];
    for (name, noise) in along {
        let (mut sum, mut squares) = (0f64, 0f64);
        let mut counts = vec![0f64; 1000];
        for i in 0..DRAWS {
            let g = f64::from(noise(i));
            sum += g;
            squares += g * g;
            let uniform = (-(-g).exp()).exp();
            counts[((uniform * 1000.0) as usize).min(999)] += 1.0;
        }
        let mean = sum / f64::from(DRAWS);
        let variance = squares / f64::from(DRAWS) - mean * mean;
        assert!((mean - 0.577_215_66).abs() < 0.007, "{name}: mean {mean}");
        assert!((variance - std::f64::consts::PI.powi(2) / 6.0).abs() < 0.02, "{name}: variance {variance}");
        let p = chi_square_p(chi_square(&counts, |_| f64::from(DRAWS) / 1000.0), 999.0);
        assert!(p > 1e-6, "{name}: p {p:e}");
    }
}

#[test]
fn biases_come_before_the_rest_and_know_their_place() {
    let mut logits = vec![3.0, 2.0, 1.0, 0.0];
    let biases = vec![Bias::always(3, 9.0), Bias::always(99, 1.0), Bias::ban(0), Bias::ban(77)];
    Processors { biases, top_k: 2, ..Processors::default() }.apply(&mut logits, &[]);
    assert_eq!(logits, [f32::NEG_INFINITY, 2.0, f32::NEG_INFINITY, 9.0]);
    let biases = vec![
        Bias { after: vec![5, 6], ..Bias::always(1, 1.0) },
        Bias { after: vec![6, 5], ..Bias::always(2, 1.0) },
        Bias { until: 3, ..Bias::always(3, 1.0) },
    ];
    let processors = Processors { biases, ..Processors::default() };
    for (history, expected) in [(&[5, 6][..], [0.0, 1.0, 0.0, 1.0]), (&[5, 6, 5], [0.0, 0.0, 1.0, 0.0])] {
        let mut logits = vec![0.0; 4];
        processors.apply(&mut logits, history);
        assert_eq!(logits, expected);
    }
}

/// Applies top-p by its definition: sorts all tokens.
fn nucleus_by_sorting(logits: &mut [f32], top_p: f32) {
    let probabilities = softmax(logits);
    let mut order: Vec<usize> = (0..logits.len()).collect();
    order.sort_by(|&a, &b| (logits[a] + 0.0).total_cmp(&(logits[b] + 0.0)).then(b.cmp(&a)));
    let mut sum = 0f64;
    for &token in &order[..order.len() - 1] {
        sum += f64::from(probabilities[token]);
        if sum > f64::from(1.0 - top_p) {
            break;
        }
        logits[token] = f32::NEG_INFINITY;
    }
}

/// Applies penalties by their definition: sorts the text.
fn penalties_by_sorting(processors: &Processors, logits: &mut [f32], history: &[u32]) {
    let mut seen: Vec<(u32, bool)> =
        history.iter().enumerate().map(|(at, token)| (*token, at >= processors.prompt_len)).collect();
    seen.sort_unstable();
    for same in seen.chunk_by(|(a, _), (b, _)| a == b) {
        let count = same.iter().filter(|(_, generated)| *generated).count() as f32;
        if let Some(logit) = logits.get_mut(same[0].0 as usize) {
            let penalty = processors.repetition_penalty;
            let penalised = if *logit < 0.0 { *logit * penalty } else { *logit / penalty };
            *logit = penalised - processors.frequency_penalty * count - processors.presence_penalty * count.min(1.0);
        }
    }
}

/// Returns a generator of pseudorandom numbers.
fn numbers(seed: u64) -> impl FnMut(usize) -> usize {
    let mut next = 0;
    move |below| {
        next += 1;
        (uniform(seed, stream::TARGET, next) * below as f32) as usize
    }
}

#[test]
fn what_is_not_sorted_changes_no_bit() {
    let bits = |logits: &[f32]| logits.iter().map(|logit| logit.to_bits()).collect::<Vec<_>>();
    for case in 0..600 {
        let mut number = numbers(case);
        let vocab = [1, 2, 3, 50, 1000, 20_000][number(6)];
        // Coarse logits are often equal, flat ones are all likely, and single ones are banned.
        let (range, step) = ([0.0, 1.0, 10.0, 60.0, 300.0][number(5)], [1.0, 8.0, 4096.0][number(3)]);
        let mut logits: Vec<f32> =
            (0..vocab).map(|_| ((number(1 << 20) as f32 / 1_048_576.0 - 0.5) * range * step).round() / step).collect();
        for _ in 0..number(4) {
            logits[number(vocab)] = [f32::NEG_INFINITY, -0.0, f32::MIN, 0.0][number(4)];
        }
        if case == 0 {
            logits.fill(f32::NEG_INFINITY);
        }
        let top_p = [0.9, 0.5, 0.1, 0.999, 1.0 - f32::EPSILON, f32::MIN_POSITIVE, 0.75][number(7)];
        let (mut found, mut expected) = (logits.clone(), logits.clone());
        Processors { top_p, ..Processors::default() }.filter(&mut found);
        nucleus_by_sorting(&mut expected, top_p);
        assert!(bits(&found) == bits(&expected), "case {case}: {vocab} tokens, top_p {top_p}");

        let history: Vec<u32> = (0..number(300)).map(|_| number(vocab + 2) as u32).collect();
        let processors = Processors {
            repetition_penalty: [1.0, 1.3][number(2)],
            presence_penalty: [0.5, -0.25][number(2)],
            frequency_penalty: [0.0, 0.125][number(2)],
            prompt_len: number(history.len() + 2),
            ..Processors::default()
        };
        let (mut found, mut expected) = (logits.clone(), logits);
        processors.adjust(&mut found, &history);
        penalties_by_sorting(&processors, &mut expected, &history);
        assert!(bits(&found) == bits(&expected), "case {case}: {processors:?}");
    }
}

/// Sums that equal 1 - top_p exactly: the order of addition could decide.
#[test]
fn ties_with_top_p_change_no_bit() {
    for vocab in 2..200 {
        for kept in 1..vocab {
            let top_p = kept as f32 / vocab as f32;
            let logits: Vec<f32> = (0..vocab).map(|token| (token % 3) as f32 * 1e-7).collect();
            let (mut found, mut expected) = (logits.clone(), logits);
            Processors { top_p, ..Processors::default() }.filter(&mut found);
            nucleus_by_sorting(&mut expected, top_p);
            assert_eq!(found, expected, "{kept} of {vocab}");
        }
    }
}

/// Known answers of the reference implementation (Random123, kat_vectors).
#[test]
fn threefry_gives_the_known_answers() {
    let ones = [u32::MAX; 2];
    assert_eq!(threefry2x32([0, 0], [0, 0]), [0x6b20_0159, 0x99ba_4efe]);
    assert_eq!(threefry2x32(ones, ones), [0x1cb9_96fc, 0xbb00_2be7]);
    assert_eq!(threefry2x32([0x1319_8a2e, 0x0370_7344], [0x243f_6a88, 0x85a3_08d3]), [0xc492_3a9c, 0x483d_f7a0]);
}
