//! A model of 1.7 billion weights goes through little memory of the host's. Its files are holes: the sizes are real, the weights are
//! zero.

mod common;
use common::{blueprint_as, engine_of, gpu, path, run};
use foretoken::decode::{Capacity, Draft, Target};
use foretoken::gpu::KvDtype;
use foretoken::options::WeightDtype;
use peak_alloc::PeakAlloc;
use serde_json::{Map, Value, json};
use std::fs::{File, create_dir_all, write};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Counts what Rust allocates: a software adapter's memory, which holds the weights, is not among it.
#[global_allocator]
static HEAP: PeakAlloc = PeakAlloc;

const HIDDEN: u64 = 2048;
const LAYERS: u64 = 24;
const MLP: u64 = 8192;
const VOCAB: u64 = 49152;

/// SmolLM2-1.7B in f16: 3.4 GB in two shards.
fn folder() -> PathBuf {
    let folder = path("target/tmp/large");
    create_dir_all(&folder).unwrap();
    let config = json!({
        "model_type": "llama", "hidden_size": HIDDEN, "num_hidden_layers": LAYERS, "num_attention_heads": 32,
        "num_key_value_heads": 32, "intermediate_size": MLP, "vocab_size": VOCAB, "max_position_embeddings": 8192,
        "rms_norm_eps": 1e-5, "rope_theta": 130_000.0, "tie_word_embeddings": true,
    });
    write(folder.join("config.json"), config.to_string()).unwrap();
    let mut shapes =
        vec![("model.embed_tokens.weight".into(), vec![VOCAB, HIDDEN]), ("model.norm.weight".into(), vec![HIDDEN])];
    for layer in 0..LAYERS {
        let mut add =
            |name: &str, shape: &[u64]| shapes.push((format!("model.layers.{layer}.{name}.weight"), shape.to_vec()));
        add("input_layernorm", &[HIDDEN]);
        add("post_attention_layernorm", &[HIDDEN]);
        for name in ["q_proj", "k_proj", "v_proj", "o_proj"] {
            add(&format!("self_attn.{name}"), &[HIDDEN, HIDDEN]);
        }
        add("mlp.gate_proj", &[MLP, HIDDEN]);
        add("mlp.up_proj", &[MLP, HIDDEN]);
        add("mlp.down_proj", &[HIDDEN, MLP]);
    }
    let mut shard_of = Map::new();
    for (number, tensors) in [&shapes[..shapes.len() / 2], &shapes[shapes.len() / 2..]].into_iter().enumerate() {
        let shard = format!("model-0000{}-of-00002.safetensors", number + 1);
        hollow(&folder.join(&shard), tensors);
        shard_of.extend(tensors.iter().map(|(name, _)| (name.clone(), Value::from(&*shard))));
    }
    let index = json!({ "metadata": {}, "weight_map": shard_of });
    write(folder.join("model.safetensors.index.json"), index.to_string()).unwrap();
    folder
}

/// A safetensors file whose data take no room on the disk.
fn hollow(file: &Path, tensors: &[(String, Vec<u64>)]) {
    let mut end = 0;
    let mut header = Map::new();
    for (name, shape) in tensors {
        let start = end;
        end += shape.iter().product::<u64>() * 2;
        header.insert(name.clone(), json!({ "dtype": "F16", "shape": shape, "data_offsets": [start, end] }));
    }
    let header = Value::from(header).to_string();
    let mut open = File::create(file).unwrap();
    open.write_all(&(header.len() as u64).to_le_bytes()).unwrap();
    open.write_all(header.as_bytes()).unwrap();
    open.set_len(8 + header.len() as u64 + end).unwrap();
}

#[test]
fn a_model_of_3_gb_needs_little_memory_of_the_host() {
    let folder = folder();
    let capacity = Capacity { max_context: 64, prefill_chunk: 64, kv_dtype: KvDtype::F16 };
    for dtype in [WeightDtype::Auto, WeightDtype::Q4] {
        let files = blueprint_as(&folder, capacity, dtype);
        let bytes = files.0.memory().weights;
        HEAP.reset_peak_usage();
        let began = Instant::now();
        let mut engine = engine_of(&gpu(), files, None);
        let (peak, seconds) = (HEAP.peak_usage_as_mb(), began.elapsed().as_secs_f64());
        println!(
            "{dtype:?}: {} MB on the GPU, {peak:.0} MB of heap at most, loaded in {seconds:.1} s",
            bytes / 1_000_000
        );
        assert!(bytes > if dtype == WeightDtype::Auto { 3_400_000_000 } else { 900_000_000 }, "{bytes}");
        assert!(peak < 600.0, "{dtype:?}: {peak} MB");
        // Zeros all the way.
        assert_eq!(run(engine.verify(7, &Draft::Tokens(Vec::new()))).unwrap().ids, [0]);
    }
    std::fs::remove_dir_all(folder).unwrap();
}
