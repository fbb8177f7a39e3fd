//! Shared code of the tests: the device, the goldens, engines.

pub mod altered;
pub mod blocks;
pub mod experts;
pub mod foreign;
pub mod gguf;
pub mod hub;
pub mod lab;
pub mod reference;
pub mod sampling;
pub mod scenario;
pub mod served;
pub mod small;
pub mod tokenizers;

#[cfg(target_os = "linux")]
pub use ash;
pub use {cap, fancy_regex, jsonschema, naga, peak_alloc, safetensors, tempfile};

use foretoken::internals::backend::Backend;
use foretoken::internals::backend::cpu::{CpuBackend, CpuModel, Processor};
use foretoken::internals::backend::gpu::{GpuBackend, GpuModel, RoundBuffers};
use foretoken::internals::checkpoint;
use foretoken::internals::gpu::{Gpu, GpuOptions};
use foretoken::internals::model::{AttentionSpec, Blueprint, Capacity, HiddenStates, ModelSpec};
use foretoken::internals::target::{Draft, Target, run_round};
use foretoken::internals::weights::{Dtype, Folder, InMemory, Weights, narrow, widen};
use foretoken::{KvDtype, WeightDtype};
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Waker};
use std::time::Duration;

pub fn run<T>(future: impl Future<Output = T>) -> T {
    pollster::block_on(future)
}

/// Returns the largest difference, relative to max(1, max |`theirs`|), or infinity if it is NaN anywhere.
pub fn difference(ours: &[f32], theirs: &[f32]) -> f32 {
    assert_eq!(ours.len(), theirs.len());
    let worst = ours.iter().zip(theirs).map(|(a, b)| (a - b).abs());
    let worst = worst.fold(0f32, |worst, x| if x.is_nan() { f32::INFINITY } else { worst.max(x) });
    worst / theirs.iter().fold(1f32, |most, x| most.max(x.abs()))
}

/// Seconds after which a test counts as hanging, even on a busy machine. The longest takes 150 on an idle one.
const HANGS: u64 = 1200;

/// Runs a test, and fails if it hangs.
pub fn within<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, result) = std::sync::mpsc::channel();
    let thread = std::thread::spawn(move || done.send(work()));
    match result.recv_timeout(Duration::from_secs(HANGS)) {
        Ok(result) => result,
        Err(std::sync::mpsc::RecvTimeoutError::Timeout) => panic!("it hangs"),
        Err(_) => std::panic::resume_unwind(thread.join().err().unwrap()),
    }
}

/// Opens the adapter. If there is none, the test fails; it is never skipped.
pub fn gpu() -> Rc<Gpu> {
    gpu_with(0)
}

pub fn gpu_with(max_binding_size: u64) -> Rc<Gpu> {
    gpu_of(&GpuOptions { max_binding_size, ..GpuOptions::default() })
}

pub fn gpu_of(options: &GpuOptions) -> Rc<Gpu> {
    run(Gpu::open(options)).expect("an adapter")
}

/// Returns a software adapter, and the same device treated as a GPU: with the kernels of GPUs, which are compiled and compared before
/// the first round that needs them.
pub fn gpus() -> [Rc<Gpu>; 2] {
    [false, true].map(|as_on_gpus| gpu_of(&GpuOptions { as_on_gpus, ..GpuOptions::default() }))
}

/// Returns a path in the repository.
pub fn path(relative: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().join(relative)
}

/// Returns the folders of the golden models. FORETOKEN_GOLDEN_DIR replaces them.
pub fn goldens() -> Vec<PathBuf> {
    let dir = std::env::var_os("FORETOKEN_GOLDEN_DIR").map_or_else(|| path("tests/golden/models"), PathBuf::from);
    let mut folders: Vec<_> = std::fs::read_dir(&dir)
        .unwrap_or_else(|error| panic!("{}: {error}", dir.display()))
        .map(|entry| entry.unwrap().path())
        .filter(|folder| folder.join("golden.safetensors").is_file())
        .collect();
    folders.sort();
    assert!(!folders.is_empty(), "{} holds no golden models", dir.display());
    folders
}

/// Returns the attention of a layer, which must have one.
pub fn attention(spec: &ModelSpec, layer: usize) -> &AttentionSpec {
    spec.layers[layer].attention().unwrap()
}

pub fn capacity() -> Capacity {
    Capacity { max_context: 512, prefill_chunk: 64, kv_dtype: KvDtype::F32 }
}

/// Returns the blueprint of a model folder and its weights.
pub fn blueprint(folder: &Path, capacity: Capacity) -> (Blueprint, Weights) {
    blueprint_as(folder, capacity, WeightDtype::Auto)
}

/// Returns the blueprint of any checkpoint stored as `dtype`, and its weights.
pub fn blueprint_as(path: &Path, capacity: Capacity, dtype: WeightDtype) -> (Blueprint, Weights) {
    run(async {
        let checkpoint = checkpoint::open(Box::new(Folder::open(path).unwrap()), None).await.unwrap();
        let blueprint = Blueprint::new(checkpoint.spec().clone(), checkpoint.weights(), capacity, dtype).unwrap();
        (blueprint, checkpoint.into_weights())
    })
}

type Loadable = (Blueprint, Weights);

/// Loads a target, and a draft model if one is given, on one device, and checks the device's arithmetic.
pub fn engine_of(gpu: &Rc<Gpu>, target: Loadable, draft: Option<Loadable>) -> GpuBackend {
    let mut engine = unchecked_engine_of(gpu, target, draft);
    run(engine.check_invariance()).unwrap();
    engine
}

/// As [`engine_of`], but does not compare rows of several passes, which takes a software adapter long for a large model.
pub fn unchecked_engine_of(gpu: &Rc<Gpu>, target: Loadable, draft: Option<Loadable>) -> GpuBackend {
    run(async {
        let buffers = RoundBuffers::new(gpu, &target.0.capacity, target.0.spec.vocab_size).unwrap();
        let load = async |(blueprint, weights): Loadable| {
            GpuModel::load(gpu, &blueprint, Some(&weights), &buffers, None, &mut |_| ()).await.unwrap()
        };
        let target = load(target).await;
        let draft = match draft {
            Some(draft) => Some(load(draft).await),
            None => None,
        };
        GpuBackend::new(gpu, buffers.clone(), target, draft).unwrap()
    })
}

/// Loads a target with its MTP layer on a GPU, and on the CPU.
pub fn mtp_backends(gpu: &Rc<Gpu>, folder: &Path, capacity: Capacity) -> [Box<dyn Backend>; 2] {
    let (mut target, weights) = blueprint(folder, capacity);
    let layer = target.take_mtp(&weights, WeightDtype::Auto).unwrap().expect("an MTP layer");
    backends(gpu, [(target, &weights), (layer, &weights)])
}

/// Loads a target with a drafter of its hidden states on a GPU, and on the CPU.
pub fn drafter_backends(gpu: &Rc<Gpu>, folders: [&Path; 2], capacity: Capacity) -> [Box<dyn Backend>; 2] {
    let (mut target, weights) = blueprint(folders[0], capacity);
    let drafter = run(checkpoint::open(Box::new(Folder::open(folders[1]).unwrap()), None)).unwrap();
    let spec = drafter.spec().clone().for_target(&target.spec, |tensor| drafter.weights().contains(tensor)).unwrap();
    let after = match &spec.hidden_states {
        HiddenStates::Context { after } => after.clone(),
        _ => Vec::new(),
    };
    let own = Blueprint::new_for(Some(&target), spec, drafter.weights(), capacity, WeightDtype::Auto).unwrap();
    target.keep_hidden(after);
    backends(gpu, [(target, &weights), (Blueprint { shares_sampler: true, ..own }, drafter.weights())])
}

/// Loads a target and a drafter that shares its matrices on a GPU, and on the CPU.
fn backends(gpu: &Rc<Gpu>, models: [(Blueprint, &Weights); 2]) -> [Box<dyn Backend>; 2] {
    let [(target, weights), (drafter, own)] = models;
    run(async {
        let buffers = RoundBuffers::new(gpu, &target.capacity, target.spec.vocab_size).unwrap();
        let model = GpuModel::load(gpu, &target, Some(weights), &buffers, None, &mut |_| ()).await.unwrap();
        let draft = GpuModel::load(gpu, &drafter, Some(own), &buffers, Some(&model), &mut |_| ()).await.unwrap();
        let mut on_gpu = GpuBackend::new(gpu, buffers.clone(), model, Some(draft)).unwrap();
        on_gpu.check_invariance().await.unwrap();
        let processor = Rc::new(Processor::new(None).yielding_after(Duration::ZERO));
        let model = CpuModel::load(&processor, &target, weights, None, &mut |_| ()).await.unwrap();
        let draft = CpuModel::load(&processor, &drafter, own, Some(&model), &mut |_| ()).await.unwrap();
        [Box::new(on_gpu) as Box<dyn Backend>, Box::new(CpuBackend::new(model, Some(draft)))]
    })
}

/// Calls [`engine_of`] with models from folders.
pub fn engine(gpu: &Rc<Gpu>, target: &Path, draft: Option<&Path>, capacity: Capacity) -> GpuBackend {
    engine_of(gpu, blueprint(target, capacity), draft.map(|draft| blueprint(draft, capacity)))
}

/// Returns what a layer of the target keeps, in the buffer's layout.
pub fn kv_words(engine: &GpuBackend, layer: usize) -> Vec<u32> {
    let buffer = &engine.target().layers()[layer];
    run(engine.gpu().read_buffer(buffer, 0, buffer.size())).unwrap()
}

/// Loads models from folders on the CPU, with all threads.
pub fn cpu_engine(target: &Path, draft: Option<&Path>, capacity: Capacity) -> CpuBackend {
    cpu_engine_on(Processor::new(None), target, draft, capacity)
}

/// Loads models on the CPU with passes that yield after each step, so that [`yields`] can end them.
pub fn yielding_engine(target: &Path, draft: Option<&Path>, capacity: Capacity) -> CpuBackend {
    cpu_engine_on(Processor::new(None).yielding_after(Duration::ZERO), target, draft, capacity)
}

/// Polls `work` until it is complete, or has yielded `most` times, and drops it. Returns the times that it yielded.
pub fn yields(work: impl Future, most: usize) -> usize {
    let mut work = pin!(work);
    let mut context = Context::from_waker(Waker::noop());
    (0..most).take_while(|_| work.as_mut().poll(&mut context).is_pending()).count()
}

fn cpu_engine_on(processor: Processor, target: &Path, draft: Option<&Path>, capacity: Capacity) -> CpuBackend {
    let processor = Rc::new(processor);
    let load = |folder: &Path| {
        let (blueprint, weights) = blueprint(folder, capacity);
        run(CpuModel::load(&processor, &blueprint, &weights, None, &mut |_| ())).unwrap()
    };
    CpuBackend::new(load(target), draft.map(load))
}

/// Writes a safetensors file of tensors: name, type, shape, bytes.
pub fn safetensors_file(tensors: &[(String, safetensors::Dtype, Vec<usize>, Vec<u8>)]) -> Vec<u8> {
    let views = tensors.iter().map(|(name, dtype, shape, bytes)| {
        let view = safetensors::tensor::TensorView::new(*dtype, shape.clone(), bytes);
        (name, view.unwrap())
    });
    safetensors::serialize(views, None).unwrap()
}

/// Rounds the matrices of a safetensors file of floats to a type and stores them as f32. If `is_transposed`, columns are rounded.
pub fn rounded(file: &[u8], dtype: Dtype, is_transposed: impl Fn(&str) -> bool) -> Weights {
    let tensors = safetensors::SafeTensors::deserialize(file).unwrap();
    let rounded = tensors.iter().map(|(name, tensor)| {
        let stored = if tensor.dtype() == safetensors::Dtype::F32 { Dtype::F32 } else { Dtype::F16 };
        let mut values = widen(stored, tensor.data());
        if let [rows, cols] = tensor.shape() {
            let turn = |values: &[f32], rows: usize, cols: usize| -> Vec<f32> {
                (0..cols).flat_map(|col| (0..rows).map(move |row| values[row * cols + col])).collect()
            };
            let round = |values: &[f32]| widen(dtype, &narrow(dtype, values).unwrap());
            values = match is_transposed(name) {
                true => turn(&round(&turn(&values, *rows, *cols)), *cols, *rows),
                false => round(&values),
            };
        }
        let bytes = bytemuck::cast_slice(&values).to_vec();
        (name.to_owned(), safetensors::Dtype::F32, tensor.shape().to_vec(), bytes)
    });
    let file = safetensors_file(&rounded.collect::<Vec<_>>());
    run(Weights::open(Box::new(InMemory::new("rounded", [("model.safetensors", file.into())])))).unwrap()
}

/// A case of Hugging Face transformers: prompt, logits after each prompt token, greedy continuation.
pub struct Golden {
    pub prompt_ids: Vec<u32>,
    pub prompt_logits: Vec<f32>,
    pub greedy_ids: Vec<u32>,
    pub greedy_logits: Vec<f32>,
}

impl Golden {
    pub fn read(folder: &Path) -> Self {
        let bytes = std::fs::read(folder.join("golden.safetensors")).unwrap();
        let tensors = safetensors::SafeTensors::deserialize(&bytes).unwrap();
        let ids = |name: &str| {
            let data = tensors.tensor(name).unwrap().data().to_vec();
            data.chunks_exact(8).map(|id| i64::from_le_bytes(id.try_into().unwrap()) as u32).collect()
        };
        let floats = |name: &str| {
            let data = tensors.tensor(name).unwrap().data().to_vec();
            data.chunks_exact(4).map(|x| f32::from_le_bytes(x.try_into().unwrap())).collect()
        };
        Self {
            prompt_ids: ids("prompt_ids"),
            prompt_logits: floats("prompt_logits"),
            greedy_ids: ids("greedy_ids"),
            greedy_logits: floats("greedy_logits"),
        }
    }
}

pub fn plain(engine: &mut dyn Target, prompt: &[u32], count: usize) -> Vec<u32> {
    run(async {
        engine.truncate(0);
        let (pending, head) = prompt.split_last().unwrap();
        engine.prefill(head).await.unwrap();
        let mut out = vec![*pending];
        while out.len() <= count {
            let pending = *out.last().unwrap();
            out.extend(run_round(engine, pending, &Draft::Tokens(Vec::new())).await.unwrap().ids);
        }
        out.split_off(1)
    })
}

/// A prompt that transformers continued with the tales pair.
#[derive(serde::Deserialize)]
pub struct Tale {
    pub kind: String,
    pub prompt: String,
    pub prompt_ids: Vec<u32>,
    pub max_new_tokens: usize,
    pub greedy_ids: Vec<u32>,
    pub modes: std::collections::BTreeMap<String, TaleRounds>,
}

/// Rounds of transformers' assisted generation.
#[derive(serde::Deserialize)]
pub struct TaleRounds {
    pub rounds: usize,
    pub drafted: Vec<usize>,
    pub accepted: Vec<usize>,
}

/// The tales pair and its reference cases.
pub struct Tales;

impl Tales {
    /// Returns the attention of a layer, which must have one.
    pub fn attention(spec: &ModelSpec, layer: usize) -> &AttentionSpec {
        spec.layers[layer].attention().unwrap()
    }

    pub fn capacity() -> Capacity {
        Capacity { max_context: 512, prefill_chunk: 64, kv_dtype: KvDtype::F32 }
    }

    pub fn cases() -> Vec<Tale> {
        #[derive(serde::Deserialize)]
        struct File {
            cases: Vec<Tale>,
        }
        let text = std::fs::read(path("tests/golden/tales.json")).unwrap();
        serde_json::from_slice::<File>(&text).unwrap().cases
    }
}
