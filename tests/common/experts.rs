//! Weights of golden models whose experts are stored as published checkpoints store them.

use crate::lab::Random;
use crate::safetensors_file;
use safetensors::{Dtype, SafeTensors};
use std::collections::BTreeMap;
use std::path::Path;

type Matrix = (Dtype, Vec<usize>, Vec<u8>);
type Tensors = Vec<(String, Dtype, Vec<usize>, Vec<u8>)>;

fn tensors(folder: &Path) -> Tensors {
    let file = std::fs::read(folder.join("model.safetensors")).unwrap();
    let all = SafeTensors::deserialize(&file).unwrap();
    all.iter().map(|(name, of)| (name.into(), of.dtype(), of.shape().to_vec(), of.data().to_vec())).collect()
}

/// Returns the weights of a folder with one tensor for gate and up of all experts, and one for down (Qwen3.5).
pub fn stacked(folder: &Path) -> Vec<u8> {
    let mut rest = Vec::new();
    let mut layers: BTreeMap<String, BTreeMap<(usize, usize), Matrix>> = BTreeMap::new();
    let parts = [["gate_proj", "w1"], ["up_proj", "w3"], ["down_proj", "w2"]];
    for (name, dtype, shape, bytes) in tensors(folder) {
        let Some((layer, of)) = name.split_once(".experts.") else {
            rest.push((name, dtype, shape, bytes));
            continue;
        };
        let (expert, of) = of.split_once('.').unwrap();
        let part = parts.iter().position(|names| names.contains(&of.trim_end_matches(".weight"))).unwrap();
        layers.entry(layer.into()).or_default().insert((expert.parse().unwrap(), part), (dtype, shape, bytes));
    }
    assert!(!layers.is_empty());
    for (layer, tensors) in layers {
        let experts = tensors.len() / 3;
        for (name, parts) in [("gate_up_proj", 0..2), ("down_proj", 2..3)] {
            let (dtype, shape, _) = &tensors[&(0, parts.start)];
            let shape = vec![experts, parts.len() * shape[0], shape[1]];
            let all = tensors.iter().filter(|((_, part), _)| parts.contains(part));
            let bytes = all.flat_map(|(_, (.., bytes))| bytes).copied().collect();
            rest.push((format!("{layer}.experts.{name}"), *dtype, shape, bytes));
        }
    }
    safetensors_file(&rest)
}

/// Returns the weights of a gpt-oss with random experts in MXFP4, and the same weights as floats.
pub fn mxfp4(folder: &Path) -> [Vec<u8>; 2] {
    const LEVELS: [f32; 8] = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0];
    let mut random = Random(5);
    let (mut published, mut floats) = (Vec::new(), Vec::new());
    for tensor in tensors(folder) {
        let (name, _, shape, _) = &tensor;
        if !name.ends_with(".experts.gate_up_proj") && !name.ends_with(".experts.down_proj") {
            published.push(tensor.clone());
            floats.push(tensor);
            continue;
        }
        let &[experts, inputs, outputs] = &shape[..] else { panic!("{name}: {shape:?}") };
        let groups = inputs / 32;
        let rows = experts * outputs;
        let codes: Vec<u8> = (0..rows * groups * 16).map(|_| random.below(256) as u8).collect();
        let exponents: Vec<u8> = (0..rows * groups).map(|_| 121 + random.below(4) as u8).collect();
        let value = |expert: usize, input: usize, output: usize| {
            let group = (expert * outputs + output) * groups + input / 32;
            // Neighbours share a byte, the first one in its low bits.
            let code = codes[group * 16 + input % 32 / 2] >> (input % 2 * 4) & 15;
            let sign = if code & 8 == 0 { 1.0 } else { -1.0 };
            sign * LEVELS[usize::from(code & 7)] * (f32::from(exponents[group]) - 127.0).exp2()
        };
        let values = (0..experts)
            .flat_map(|expert| (0..inputs).map(move |input| (expert, input)))
            .flat_map(|(expert, input)| (0..outputs).map(move |output| (expert, input, output)))
            .flat_map(|(expert, input, output)| value(expert, input, output).to_le_bytes());
        floats.push((name.clone(), Dtype::F32, shape.clone(), values.collect()));
        published.push((format!("{name}_blocks"), Dtype::U8, vec![experts, outputs, groups, 16], codes.clone()));
        published.push((format!("{name}_scales"), Dtype::U8, vec![experts, outputs, groups], exponents.clone()));
    }
    [published, floats].map(|all| safetensors_file(&all))
}
