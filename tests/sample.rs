//! Sampling: processors against Hugging Face transformers, keyed noise against the distributions that it should give.

use foretoken::sample::{Processors, draw, gumbel, softmax};
use serde_json::Value;

struct Case {
    name: String,
    logits: Vec<f32>,
    history: Vec<u32>,
    processors: Processors,
    probs: Vec<f32>,
}

fn cases() -> Vec<Case> {
    let text = include_str!("golden/sampling.json");
    let file: Value = serde_json::from_str(text).unwrap();
    let floats = |value: &Value| value.as_array().unwrap().iter().map(|x| x.as_f64().unwrap() as f32).collect();
    let cases = file["cases"].as_array().unwrap().iter().map(|case| {
        let number = |name: &str, default: f64| case["options"][name].as_f64().unwrap_or(default);
        Case {
            name: format!("{} {}", case["shape"], case["options"]),
            logits: floats(&case["logits"]),
            history: case["history"].as_array().unwrap().iter().map(|id| id.as_u64().unwrap() as u32).collect(),
            processors: Processors {
                repetition_penalty: number("repetition_penalty", 1.0) as f32,
                temperature: number("temperature", 1.0) as f32,
                top_k: number("top_k", 0.0) as usize,
                top_p: number("top_p", 1.0) as f32,
                min_p: number("min_p", 0.0) as f32,
                ..Processors::default()
            },
            probs: floats(&case["probs"]),
        }
    });
    cases.collect()
}

/// Which of equal logits top-p keeps, transformers leaves to an unstable sort: the reference with the lowest ids kept.
fn rename_ties(logits: &[f32], probs: &mut [f32]) {
    for token in 0..logits.len() {
        let equal: Vec<usize> = (0..logits.len()).filter(|&other| logits[other] == logits[token]).collect();
        let mut kept: Vec<f32> = equal.iter().map(|&other| probs[other]).collect();
        kept.sort_by(|a, b| b.total_cmp(a));
        equal.into_iter().zip(kept).for_each(|(other, prob)| probs[other] = prob);
    }
}

#[test]
fn probabilities_are_those_of_transformers() {
    let cases = cases();
    assert_eq!(cases.len(), 180);
    for Case { name, mut logits, history, processors, mut probs } in cases {
        if processors.top_p < 1.0 {
            let mut before = logits.clone();
            Processors { top_p: 1.0, min_p: 0.0, ..processors.clone() }.apply(&mut before, &history, &[]);
            rename_ties(&before, &mut probs);
        }
        processors.apply(&mut logits, &history, &[]);
        for (token, (found, expected)) in softmax(&logits).iter().zip(&probs).enumerate() {
            assert_eq!(*found > 0.0, *expected > 0.0, "{name}: token {token} survives: {found} {expected}");
            assert!((found - expected).abs() <= 1e-6, "{name}: token {token}: {found} instead of {expected}");
        }
    }
}

/// Upper tail of the chi-square distribution, by the cube-root approximation of Wilson and Hilferty.
fn chi_square_p(statistic: f64, freedom: f64) -> f64 {
    let z = ((statistic / freedom).cbrt() - (1.0 - 2.0 / (9.0 * freedom))) / (2.0 / (9.0 * freedom)).sqrt();
    // Upper tail of the normal distribution (Abramowitz and Stegun 26.2.17).
    let t = 1.0 / (1.0 + 0.231_641_9 * z.abs());
    let poly =
        t * (0.319_381_53 + t * (-0.356_563_782 + t * (1.781_477_937 + t * (-1.821_255_978 + t * 1.330_274_429))));
    let tail = (-z * z / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt() * poly;
    if z >= 0.0 { tail } else { 1.0 - tail }
}

fn chi_square(counts: &[f64], expected: impl Fn(usize) -> f64) -> f64 {
    counts.iter().enumerate().map(|(i, count)| (count - expected(i)).powi(2) / expected(i)).sum()
}

const DRAWS: u32 = 1_000_000;

#[test]
fn draws_follow_the_softmax() {
    for (index, temperature) in [(0u64, 0.3f32), (1, 0.7), (2, 1.0), (3, 1.5)] {
        let logits: Vec<f32> = (0..10).map(|i| ((i * 7 % 10) as f32 / 3.0 - 1.0) / temperature).collect();
        let expected = softmax(&logits);
        let mut counts = [0f64; 10];
        for position in 0..DRAWS {
            counts[draw(&logits, 1234 + index, position) as usize] += 1.0;
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
fn bans_and_biases_come_before_the_rest() {
    let mut logits = vec![3.0, 2.0, 1.0, 0.0];
    let processors = Processors { logit_bias: vec![(3, 9.0), (99, 1.0)], top_k: 2, ..Processors::default() };
    processors.apply(&mut logits, &[], &[0, 77]);
    assert_eq!(logits, [f32::NEG_INFINITY, 2.0, f32::NEG_INFINITY, 9.0]);
}
