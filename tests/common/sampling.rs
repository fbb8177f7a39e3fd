//! Reference cases of the processors, and the chi-square test.

use foretoken::internals::sample::Processors;
use serde_json::Value;

/// A reference case of transformers.
pub struct Case {
    pub name: String,
    pub logits: Vec<f32>,
    pub history: Vec<u32>,
    pub processors: Processors,
    pub probs: Vec<f32>,
}

pub fn cases() -> Vec<Case> {
    let text = include_str!("../golden/sampling.json");
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

/// A case of penalties and n-grams that may not repeat (`tests/golden/penalties.py`).
pub struct Penalised {
    pub processors: Processors,
    pub history: Vec<u32>,
    pub logits: Vec<f32>,
    pub after: Vec<f32>,
}

pub fn penalised() -> Vec<Penalised> {
    let file: Value = serde_json::from_str(include_str!("../golden/penalties.json")).unwrap();
    let cases = file["cases"].as_array().unwrap().iter().map(|case| {
        let number = |name: &str| case["options"][name].as_f64().unwrap();
        let ids = |name: &str| -> Vec<u32> { serde_json::from_value(case[name].clone()).unwrap() };
        let floats = |name: &str| -> Vec<f32> {
            case[name].as_array().unwrap().iter().map(|x| x.as_f64().map_or(f32::NEG_INFINITY, |x| x as f32)).collect()
        };
        let (prompt, generated) = (ids("prompt"), ids("generated"));
        Penalised {
            processors: Processors {
                repetition_penalty: number("repetition_penalty") as f32,
                presence_penalty: number("presence_penalty") as f32,
                frequency_penalty: number("frequency_penalty") as f32,
                no_repeat_ngram_size: number("no_repeat_ngram_size") as usize,
                prompt_len: prompt.len(),
                ..Processors::default()
            },
            history: [prompt, generated].concat(),
            logits: floats("logits"),
            after: floats("after"),
        }
    });
    cases.collect()
}

/// Moves the kept probabilities of equal logits to the lowest ids, because transformers breaks such ties with an unstable sort.
pub fn rename_ties(logits: &[f32], probs: &mut [f32]) {
    for token in 0..logits.len() {
        let equal: Vec<usize> = (0..logits.len()).filter(|&other| logits[other] == logits[token]).collect();
        let mut kept: Vec<f32> = equal.iter().map(|&other| probs[other]).collect();
        kept.sort_by(|a, b| b.total_cmp(a));
        equal.into_iter().zip(kept).for_each(|(other, prob)| probs[other] = prob);
    }
}

/// Upper tail of the chi-square distribution, by the cube-root approximation of Wilson and Hilferty.
pub fn chi_square_p(statistic: f64, freedom: f64) -> f64 {
    let z = ((statistic / freedom).cbrt() - (1.0 - 2.0 / (9.0 * freedom))) / (2.0 / (9.0 * freedom)).sqrt();
    // Upper tail of the normal distribution (Abramowitz and Stegun 26.2.17).
    let t = 1.0 / (1.0 + 0.231_641_9 * z.abs());
    let poly =
        t * (0.319_381_53 + t * (-0.356_563_782 + t * (1.781_477_937 + t * (-1.821_255_978 + t * 1.330_274_429))));
    let tail = (-z * z / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt() * poly;
    if z >= 0.0 { tail } else { 1.0 - tail }
}

/// Returns the chi-square statistic.
pub fn chi_square(counts: &[f64], expected: impl Fn(usize) -> f64) -> f64 {
    counts.iter().enumerate().map(|(i, count)| (count - expected(i)).powi(2) / expected(i)).sum()
}
