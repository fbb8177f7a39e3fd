//! The tales draft model with other tokenizers: the same weights, other ids, other token boundaries.

use crate::path;
use safetensors::SafeTensors;
use safetensors::tensor::TensorView;
use serde_json::{Value, json};
use std::path::Path;
use tempfile::TempDir;

/// A temporary folder with such a model.
pub struct Foreign(TempDir);

/// Permutes ids: the factor is coprime to their number, a power of two.
fn renumbered(id: u64) -> u64 {
    (id * 5 + 7) % 4096
}

/// Returns the tales tokenizer with other ids and only the first `merges` of its merges.
pub fn tokenizer(merges: usize) -> Value {
    let mut tokenizer: Value =
        serde_json::from_slice(&std::fs::read(path("models/tales/draft/tokenizer.json")).unwrap()).unwrap();
    let renumber = |id: &mut Value| *id = json!(renumbered(id.as_u64().unwrap()));
    tokenizer["model"]["vocab"].as_object_mut().unwrap().values_mut().for_each(renumber);
    tokenizer["added_tokens"].as_array_mut().unwrap().iter_mut().for_each(|token| renumber(&mut token["id"]));
    tokenizer["model"]["merges"].as_array_mut().unwrap().truncate(merges);
    tokenizer
}

impl Foreign {
    /// Writes the draft model with other ids. Only the first `merges` merges of the tokenizer remain, so that rarer words take more
    /// tokens.
    pub fn new(merges: usize) -> Self {
        let own = path("models/tales/draft");
        let scratch = TempDir::new().unwrap();
        let folder = scratch.path();
        std::fs::copy(own.join("config.json"), folder.join("config.json")).unwrap();

        std::fs::write(folder.join("tokenizer.json"), tokenizer(merges).to_string()).unwrap();

        let bytes = std::fs::read(own.join("model.safetensors")).unwrap();
        let tensors = SafeTensors::deserialize(&bytes).unwrap();
        let embeddings = tensors.tensor("model.embed_tokens.weight").unwrap();
        let row = embeddings.data().len() / embeddings.shape()[0];
        let mut rows = vec![0; embeddings.data().len()];
        for (id, values) in embeddings.data().chunks(row).enumerate() {
            rows[renumbered(id as u64) as usize * row..][..row].copy_from_slice(values);
        }
        let renumbered = tensors.tensors().into_iter().map(|(name, tensor)| {
            let own = if name == "model.embed_tokens.weight" { &rows[..] } else { tensor.data() };
            (name, TensorView::new(tensor.dtype(), tensor.shape().to_vec(), own).unwrap())
        });
        safetensors::serialize_to_file(renumbered, None, &folder.join("model.safetensors")).unwrap();
        Self(scratch)
    }

    pub fn folder(&self) -> &Path {
        self.0.path()
    }
}
