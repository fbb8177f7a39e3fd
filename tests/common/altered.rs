//! Models with one altered file.

use foretoken::internals::weights::InMemory;
use half::{bf16, f16};
use safetensors::SafeTensors;
use safetensors::tensor::{Dtype, TensorView};
use serde_json::{Map, Value, json};
use std::path::Path;

const FILES: [&str; 5] =
    ["config.json", "generation_config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"];

/// Returns a model's folder with one file altered.
fn altered(folder: &Path, file: &str, alter: impl Fn(Vec<u8>) -> Vec<u8>) -> InMemory {
    let files = FILES.into_iter().filter_map(|name| {
        let bytes = std::fs::read(folder.join(name)).ok()?;
        Some((name, if name == file { alter(bytes) } else { bytes }.into()))
    });
    InMemory::new(folder.display().to_string(), files)
}

/// Sets a value in a JSON file.
pub fn configured(folder: &Path, file: &str, key: &str, value: &Value) -> InMemory {
    altered(folder, file, |bytes| {
        let mut json: Value = serde_json::from_slice(&bytes).unwrap();
        json[key] = value.clone();
        json.to_string().into()
    })
}

/// Adds a tokenizer with the same number of tokens to a model that has none.
pub fn with_tokenizer(folder: &Path) -> InMemory {
    let read = |name: &str| std::fs::read(folder.join(name)).unwrap();
    let config: Value = serde_json::from_slice(&read("config.json")).unwrap();
    let token = |id: u32| (char::from_u32(0x4e00 + id).unwrap().to_string(), id.into());
    let vocab: Map<String, Value> = (0..config["vocab_size"].as_u64().unwrap() as u32).map(token).collect();
    let model = json!({ "type": "BPE", "vocab": vocab, "merges": [] });
    let tokenizer = json!({ "version": "1.0", "added_tokens": [], "model": model }).to_string();
    let files = ["config.json", "model.safetensors"].map(|name| (name, read(name).into()));
    InMemory::new(
        folder.display().to_string(),
        files.into_iter().chain([("tokenizer.json", tokenizer.into_bytes().into())]),
    )
}

/// Adds an LM head with the rows of the embedding table, in the order of `rows`.
pub fn with_head(folder: &Path, rows: impl Fn(usize) -> usize) -> InMemory {
    altered(folder, "model.safetensors", |bytes| {
        let tensors = SafeTensors::deserialize(&bytes).unwrap();
        let table = tensors.tensor("model.embed_tokens.weight").unwrap();
        let width = table.data().len() / table.shape()[0];
        let head: Vec<u8> =
            (0..table.shape()[0]).flat_map(|row| table.data()[rows(row) * width..][..width].iter().copied()).collect();
        let mut views = tensors.tensors();
        views.push(("lm_head.weight".into(), TensorView::new(table.dtype(), table.shape().to_vec(), &head).unwrap()));
        safetensors::serialize(views, None).unwrap()
    })
}

/// Adds an LM head of a type that no model has.
pub fn with_head_of_integers(folder: &Path) -> InMemory {
    altered(folder, "model.safetensors", |bytes| {
        let tensors = SafeTensors::deserialize(&bytes).unwrap();
        let shape = tensors.tensor("model.embed_tokens.weight").unwrap().shape().to_vec();
        let zeros = vec![0; 8 * shape.iter().product::<usize>()];
        let mut views = tensors.tensors();
        views.push(("lm_head.weight".into(), TensorView::new(Dtype::I64, shape, &zeros).unwrap()));
        safetensors::serialize(views, None).unwrap()
    })
}

/// Removes a tensor.
pub fn without(folder: &Path, name: &str) -> InMemory {
    altered(folder, "model.safetensors", |bytes| {
        let tensors = SafeTensors::deserialize(&bytes).unwrap();
        safetensors::serialize(tensors.tensors().into_iter().filter(|(other, _)| other != name), None).unwrap()
    })
}

/// Makes the weights of a tensor so large that no logit is finite. Weights that are not finite themselves are refused on loading.
pub fn overflowing(folder: &Path, name: &str) -> InMemory {
    altered(folder, "model.safetensors", |bytes| {
        let tensors = SafeTensors::deserialize(&bytes).unwrap();
        let shape = tensors.tensor(name).unwrap().shape().to_vec();
        let largest: Vec<u8> = f32::MAX.to_le_bytes().repeat(shape.iter().product());
        let mut views: Vec<_> = tensors.tensors().into_iter().filter(|(other, _)| other != name).collect();
        views.push((name.into(), TensorView::new(Dtype::F32, shape, &largest).unwrap()));
        safetensors::serialize(views, None).unwrap()
    })
}

/// Converts the model to bf16 with keys larger by `scale`, a power of two, and queries smaller by it: the same function.
pub fn with_large_keys(folder: &Path, scale: f32) -> InMemory {
    altered(folder, "model.safetensors", |bytes| {
        let tensors = SafeTensors::deserialize(&bytes).unwrap();
        let scaled: Vec<(String, Vec<usize>, Vec<u8>)> = tensors
            .tensors()
            .into_iter()
            .map(|(name, tensor)| {
                assert_eq!(tensor.dtype(), Dtype::F16);
                let by = if name.contains("k_proj") {
                    scale
                } else if name.contains("q_proj") {
                    1.0 / scale
                } else {
                    1.0
                };
                let widened = tensor.data().as_chunks::<2>().0.iter().map(|&half| f16::from_le_bytes(half).to_f32());
                let bytes = widened.flat_map(|value| bf16::from_f32(value * by).to_le_bytes()).collect();
                (name, tensor.shape().to_vec(), bytes)
            })
            .collect();
        let view = |(name, shape, bytes)| (name, TensorView::new(Dtype::BF16, shape, bytes).unwrap());
        let views = scaled.iter().map(|(name, shape, bytes)| view((name.as_str(), shape.clone(), bytes.as_slice())));
        safetensors::serialize(views, None).unwrap()
    })
}
