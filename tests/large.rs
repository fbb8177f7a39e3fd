//! Loading a model of 1.7 billion weights takes little host memory, in f16 and as the smaller GGUF file that most people use. The files
//! are sparse: their sizes are real, the weights are zero.

use common::gguf::{File, TEXT, U32, text};
use common::peak_alloc::PeakAlloc;
use common::{blueprint_as, gpu, path, run, unchecked_engine_of};
use foretoken::internals::model::Capacity;
use foretoken::internals::target::{Draft, run_round};
use foretoken::{KvDtype, WeightDtype};
use serde_json::{Map, Value, json};
use std::fs::{self, create_dir_all, write};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Counts Rust's allocations. A software adapter's memory, which holds the weights, is not included.
#[global_allocator]
static HEAP: PeakAlloc = PeakAlloc;

// SmolLM2-1.7B.
const HIDDEN: u64 = 2048;
const LAYERS: u64 = 24;
const HEADS: u64 = 32;
const MLP: u64 = 8192;
const VOCAB: u64 = 49152;
const POSITIONS: u64 = 8192;

/// A tensor: its name in Hugging Face, its name in llama.cpp, its shape.
type Tensor = (&'static str, &'static str, &'static [u64]);
const TABLE: Tensor = ("model.embed_tokens", "token_embd", &[VOCAB, HIDDEN]);
const LAST_NORM: Tensor = ("model.norm", "output_norm", &[HIDDEN]);
const OF_LAYER: [Tensor; 9] = [
    ("input_layernorm", "attn_norm", &[HIDDEN]),
    ("post_attention_layernorm", "ffn_norm", &[HIDDEN]),
    ("self_attn.q_proj", "attn_q", &[HIDDEN, HIDDEN]),
    ("self_attn.k_proj", "attn_k", &[HIDDEN, HIDDEN]),
    ("self_attn.v_proj", "attn_v", &[HIDDEN, HIDDEN]),
    ("self_attn.o_proj", "attn_output", &[HIDDEN, HIDDEN]),
    ("mlp.gate_proj", "ffn_gate", &[MLP, HIDDEN]),
    ("mlp.up_proj", "ffn_up", &[MLP, HIDDEN]),
    ("mlp.down_proj", "ffn_down", &[HIDDEN, MLP]),
];

/// Writes 3.4 GB of f16 in two shards.
fn folder() -> PathBuf {
    let folder = path("target/tmp/large");
    create_dir_all(&folder).unwrap();
    let config = json!({
        "model_type": "llama", "hidden_size": HIDDEN, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS,
        "num_key_value_heads": HEADS, "intermediate_size": MLP, "vocab_size": VOCAB, "max_position_embeddings": POSITIONS,
        "rms_norm_eps": 1e-5, "rope_theta": 130_000.0, "tie_word_embeddings": true,
    });
    write(folder.join("config.json"), config.to_string()).unwrap();
    let mut tensors: Vec<_> =
        [TABLE, LAST_NORM].into_iter().map(|(name, _, shape)| (format!("{name}.weight"), shape)).collect();
    for layer in 0..LAYERS {
        tensors.extend(OF_LAYER.map(|(name, _, shape)| (format!("model.layers.{layer}.{name}.weight"), shape)));
    }
    let mut shard_of = Map::new();
    for (number, tensors) in [&tensors[..tensors.len() / 2], &tensors[tensors.len() / 2..]].into_iter().enumerate() {
        let shard = format!("model-0000{}-of-00002.safetensors", number + 1);
        let mut end = 0;
        let mut header = Map::new();
        for (name, shape) in tensors {
            let start = end;
            end += shape.iter().product::<u64>() * 2;
            header.insert(name.clone(), json!({ "dtype": "F16", "shape": shape, "data_offsets": [start, end] }));
            shard_of.insert(name.clone(), Value::from(&*shard));
        }
        let header = Value::from(header).to_string();
        let length = (header.len() as u64).to_le_bytes();
        hollow(&folder.join(&shard), &[&length, header.as_bytes()].concat(), end);
    }
    let index = json!({ "metadata": {}, "weight_map": shard_of });
    write(folder.join("model.safetensors.index.json"), index.to_string()).unwrap();
    folder
}

/// Writes a file of 1.1 GB, in the types that llama.cpp mixes as Q4_K_M.
fn file() -> PathBuf {
    // Number of the type; elements and bytes of a block.
    const F32: (u32, u64, u64) = (0, 1, 4);
    const Q4_K: (u32, u64, u64) = (12, 256, 144);
    const Q6_K: (u32, u64, u64) = (14, 256, 210);
    let mut file = File::default().key("general.architecture", TEXT, text("llama"));
    for (key, value) in [
        ("context_length", POSITIONS),
        ("block_count", LAYERS),
        ("embedding_length", HIDDEN),
        ("feed_forward_length", MLP),
        ("attention.head_count", HEADS),
    ] {
        file = file.key(&format!("llama.{key}"), U32, (value as u32).to_le_bytes());
    }
    let mut tensors = vec![(TABLE.1.to_owned(), TABLE.2, Q6_K), (LAST_NORM.1.to_owned(), LAST_NORM.2, F32)];
    for layer in 0..LAYERS {
        // The first and the last eighth, and every third layer between them.
        let (eighth, last) = (LAYERS / 8, LAYERS - LAYERS / 8);
        let finer = layer < eighth || layer >= last || (layer - eighth) % 3 == 2;
        for (_, name, shape) in OF_LAYER {
            let kind = match name {
                "attn_v" | "ffn_down" if finer => Q6_K,
                _ if shape.len() == 1 => F32,
                _ => Q4_K,
            };
            tensors.push((format!("blk.{layer}.{name}"), shape, kind));
        }
    }
    for (name, shape, (kind, elements, bytes)) in tensors {
        let dims: Vec<u64> = shape.iter().rev().copied().collect();
        let length = shape.iter().product::<u64>() / elements * bytes;
        file = file.hollow(&format!("{name}.weight"), &dims, kind, length);
    }
    let path = path("target/tmp/large-Q4_K_M.gguf");
    hollow(&path, &file.header(), file.end);
    path
}

/// Writes a sparse file.
fn hollow(path: &Path, header: &[u8], data: u64) {
    let mut file = fs::File::create(path).unwrap();
    file.write_all(header).unwrap();
    file.set_len(header.len() as u64 + data).unwrap();
}

#[test]
fn a_model_of_3_gb_needs_little_memory_of_the_host() {
    let (folder, file) = (folder(), file());
    let capacity = Capacity { max_context: 64, prefill_chunk: 64, kv_dtype: KvDtype::F16 };
    for (path, dtype, least) in [
        (&folder, WeightDtype::Auto, 3_400_000_000),
        (&folder, WeightDtype::Q4, 900_000_000),
        (&file, WeightDtype::Auto, 1_000_000_000),
    ] {
        let files = blueprint_as(path, capacity, dtype);
        let bytes = files.0.memory().weights;
        HEAP.reset_peak_usage();
        let began = Instant::now();
        let mut engine = unchecked_engine_of(&gpu(), files, None);
        let (peak, seconds) = (HEAP.peak_usage_as_mb(), began.elapsed().as_secs_f64());
        let what = format!("{}, {dtype:?}", path.display());
        println!("{what}: {} MB on the GPU, {peak:.0} MB of heap at most, loaded in {seconds:.1} s", bytes / 1_000_000);
        assert!(bytes > least, "{what}: {bytes}");
        assert!(peak < 600.0, "{what}: {peak} MB");
        // All logits are zero.
        assert_eq!(run(run_round(&mut engine, 7, &Draft::Tokens(Vec::new()))).unwrap().ids, [0]);
    }
    fs::remove_dir_all(folder).unwrap();
    fs::remove_file(file).unwrap();
}
