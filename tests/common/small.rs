//! A small Llama with random weights of any stored types.

use crate::blocks::random_weights;
use crate::lab::Random;
use crate::{capacity, run, safetensors_file};
use foretoken::internals::backend::gpu::{GpuBackend, GpuModel, RoundBuffers};
use foretoken::internals::gpu::Gpu;
use foretoken::internals::model::{Blueprint, ModelSpec, parse_config};
use foretoken::internals::weights::{Affine, Dtype, InMemory, Quantization, Weights, widen};
use foretoken::{ArithmeticChoice, WeightDtype};
use serde_json::json;
use std::rc::Rc;

/// A Llama whose tensors have types of their own.
pub struct Small {
    pub spec: ModelSpec,
    /// Name, shape [rows, cols], type, stored bytes.
    pub tensors: Vec<(String, Vec<usize>, Dtype, Vec<u8>)>,
}

impl Small {
    pub const HIDDEN: usize = 256;
    pub const VOCAB: usize = 96;

    /// Types of: embedding, q, k, v, o, gate, up, down, head.
    pub fn new(types: [Dtype; 9]) -> Self {
        let config = json!({
            "model_type": "llama", "vocab_size": Self::VOCAB, "hidden_size": Self::HIDDEN, "num_attention_heads": 4,
            "num_key_value_heads": 2, "num_hidden_layers": 1, "intermediate_size": Self::HIDDEN,
            "max_position_embeddings": 256,
        });
        Self::of(config, 1, types)
    }

    /// Returns a Qwen3 with four experts of the same size, of which each row uses two.
    pub fn with_experts(types: [Dtype; 9]) -> Self {
        let config = json!({
            "model_type": "qwen3_moe", "vocab_size": Self::VOCAB, "hidden_size": Self::HIDDEN, "num_attention_heads": 4,
            "num_key_value_heads": 2, "num_hidden_layers": 1, "intermediate_size": Self::HIDDEN, "num_experts": 4,
            "num_experts_per_tok": 2, "moe_intermediate_size": Self::HIDDEN, "max_position_embeddings": 256,
        });
        let mut small = Self::of(config, 4, types);
        let layer = |name: &str| format!("model.layers.0.{name}.weight");
        for name in ["self_attn.q_norm", "self_attn.k_norm"] {
            small.tensors.push((layer(name), vec![64], Dtype::F32, 1f32.to_le_bytes().repeat(64)));
        }
        let router = random_weights(&mut Random(20), Dtype::F32, 4 * Self::HIDDEN);
        small.tensors.push((layer("mlp.gate"), vec![4, Self::HIDDEN], Dtype::F32, router));
        small
    }

    fn of(config: serde_json::Value, experts: usize, types: [Dtype; 9]) -> Self {
        let spec = parse_config(config.to_string().as_bytes(), None).unwrap();
        let layer = |name: &str| format!("model.layers.0.{name}.weight");
        let hidden = Self::HIDDEN;
        let [embedding, q, k, v, o, gate, up, down, head] = types;
        let mut matrices = vec![
            ("model.embed_tokens.weight".into(), Self::VOCAB, hidden, embedding),
            (layer("self_attn.q_proj"), hidden, hidden, q),
            (layer("self_attn.k_proj"), hidden / 2, hidden, k),
            (layer("self_attn.v_proj"), hidden / 2, hidden, v),
            (layer("self_attn.o_proj"), hidden, hidden, o),
        ];
        for expert in 0..experts {
            let mlp = if experts > 1 { format!("mlp.experts.{expert}") } else { "mlp".into() };
            for (name, dtype) in [("gate_proj", gate), ("up_proj", up), ("down_proj", down)] {
                matrices.push((layer(&format!("{mlp}.{name}")), hidden, hidden, dtype));
            }
        }
        matrices.push(("lm_head.weight".into(), Self::VOCAB, hidden, head));
        let mut random = Random(16);
        let mut tensors = Vec::new();
        for (name, rows, cols, dtype) in matrices {
            tensors.push((name, vec![rows, cols], dtype, random_weights(&mut random, dtype, rows * cols)));
        }
        for name in [layer("input_layernorm"), layer("post_attention_layernorm"), "model.norm.weight".into()] {
            tensors.push((name, vec![hidden], Dtype::F32, 1f32.to_le_bytes().repeat(hidden)));
        }
        Self { spec, tensors }
    }

    /// Returns a copy with all weights widened to the f32 values that they represent.
    pub fn widened(&self) -> Self {
        let widen = |(name, shape, dtype, bytes): &(String, Vec<usize>, Dtype, Vec<u8>)| {
            (name.clone(), shape.clone(), Dtype::F32, bytemuck::cast_slice(&widen(*dtype, bytes)).to_vec())
        };
        Self { spec: self.spec.clone(), tensors: self.tensors.iter().map(widen).collect() }
    }

    /// Returns the tensors, read from a file of the format that has their types.
    pub fn weights(&self) -> Weights {
        let affine = |(_, _, dtype, _): &(String, Vec<usize>, Dtype, Vec<u8>)| match dtype {
            Dtype::Affine(affine) => Some(*affine),
            _ => None,
        };
        match self.tensors.iter().find_map(affine) {
            Some(affine) => self.mlx(affine),
            None => {
                let memory = InMemory::new("small", [("m.gguf", self.file().into())]);
                run(Weights::open_gguf(Box::new(memory), "m.gguf")).unwrap().0
            }
        }
    }

    /// Reads the tensors from a file in MLX's layout, where all quantised matrices have this type.
    fn mlx(&self, Affine { bits, group_size, .. }: Affine) -> Weights {
        use safetensors::Dtype::{BF16, F16, F32, U32};
        let mut tensors = Vec::new();
        for (name, shape, dtype, bytes) in &self.tensors {
            let Dtype::Affine(Affine { scales, .. }) = *dtype else {
                tensors.push((name.clone(), F32, shape.clone(), bytes.clone()));
                continue;
            };
            let size = scales.size();
            let float = [F32, F16, BF16][scales as usize];
            let blocks = bytes.chunks_exact(dtype.block().bytes);
            let of = |from: usize, to: usize| blocks.clone().flat_map(|block| block[from..to].to_vec()).collect();
            let groups = vec![shape[0], shape[1] / usize::from(group_size)];
            let module = name.trim_end_matches(".weight");
            tensors.push((
                name.clone(),
                U32,
                vec![shape[0], shape[1] * usize::from(bits) / 32],
                of(2 * size, dtype.block().bytes),
            ));
            tensors.push((format!("{module}.scales"), float, groups.clone(), of(0, size)));
            tensors.push((format!("{module}.biases"), float, groups, of(size, 2 * size)));
        }
        let file = safetensors_file(&tensors);
        let config = json!({ "quantization": { "bits": bits, "group_size": group_size } }).to_string();
        let mut weights =
            run(Weights::open(Box::new(InMemory::new("small", [("model.safetensors", file.into())])))).unwrap();
        weights.join(&Quantization::parse(config.as_bytes()).unwrap().unwrap()).unwrap();
        weights
    }

    /// Returns a GGUF file, version 3, without metadata.
    pub fn file(&self) -> Vec<u8> {
        let mut header = b"GGUF\x03\0\0\0".to_vec();
        header.extend((self.tensors.len() as u64).to_le_bytes());
        header.extend(0u64.to_le_bytes());
        let mut data = Vec::new();
        for (name, shape, dtype, bytes) in &self.tensors {
            header.extend((name.len() as u64).to_le_bytes());
            header.extend(name.as_bytes());
            header.extend((shape.len() as u32).to_le_bytes());
            shape.iter().rev().for_each(|size| header.extend((*size as u64).to_le_bytes()));
            header.extend(dtype.gguf_number().unwrap().to_le_bytes());
            header.extend((data.len() as u64).to_le_bytes());
            data.extend(bytes);
            data.resize(data.len().next_multiple_of(32), 0);
        }
        header.resize(header.len().next_multiple_of(32), 0);
        [header, data].concat()
    }

    /// Loads an engine. Returns also the bytes of weights that the loader reported.
    pub fn load(&self, gpu: &Rc<Gpu>, wanted: WeightDtype) -> (GpuBackend, u64) {
        self.load_with(gpu, wanted, ArithmeticChoice::F32)
    }

    pub fn load_with(&self, gpu: &Rc<Gpu>, wanted: WeightDtype, arithmetic: ArithmeticChoice) -> (GpuBackend, u64) {
        let weights = self.weights();
        run(async {
            let blueprint = Blueprint::new(self.spec.clone(), &weights, capacity(), wanted).unwrap();
            let blueprint = Blueprint { arithmetic, ..blueprint };
            let buffers = RoundBuffers::new(gpu, &blueprint.capacity, Self::VOCAB).unwrap();
            let mut bytes = 0;
            let model =
                GpuModel::load(gpu, &blueprint, Some(&weights), &buffers, None, &mut |more| bytes += more).await;
            (GpuBackend::new(gpu, buffers, model.unwrap(), None).unwrap(), bytes)
        })
    }
}
