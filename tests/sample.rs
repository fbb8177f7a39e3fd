//! Sampling: processors against Hugging Face transformers, keyed noise against the distributions that it should give.

mod common;

use common::sampling::{Case, Penalised, cases, chi_square, chi_square_p, penalised, rename_ties};
use foretoken::internals::sample::{
    Bias, Draw, Processors, Sampling, choose, draw, gumbel, log_sum_exp, most_likely, softmax, stream,
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

/// It is rejected, and no reason to call logits bad.
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

/// A generator whose uniforms are 0.3 % off would be found: the test can fail.
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
