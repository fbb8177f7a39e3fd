//! Conversion of a folder to a folder: small files unchanged, matrices in another type or in MLX's layout.

use super::{OutputFile, bad_type, portions, too_large, unwritable, write_rows};
use foretoken::internals::checkpoint;
use foretoken::internals::model::{ModelSpec, Plan};
use foretoken::internals::weights::{Dtype, Folder, Source, Tensor, narrow, read_small, widen};
use foretoken::{Error, Result};
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use std::path::Path;

const CONFIG: &str = "config.json";
/// Endings of files that are not copied: weights.
const WEIGHTS: [&str; 8] =
    [".safetensors", ".safetensors.index.json", ".bin", ".bin.index.json", ".pt", ".pth", ".gguf", ".onnx"];
/// Largest file that is copied, in bytes.
const SMALL: u64 = 64 << 20;

/// Target type of a tensor.
enum To {
    Float(Dtype),
    /// MLX codes: bits, and weights per group.
    Mlx(u32, u64),
}

pub(super) async fn write(source: Folder, output: &Path, dtype: &str) -> Result<()> {
    let bits = [4, 8].into_iter().find(|bits| format!("mlx{bits}").eq_ignore_ascii_case(dtype));
    let floats = [Dtype::F32, Dtype::F16, Dtype::Bf16];
    let float = floats.into_iter().find(|float| float.name().eq_ignore_ascii_case(dtype));
    if bits.is_none() && float.is_none() {
        let allowed = "F32, F16, BF16, mlx4, mlx8; the types of GGUF are for an output that is called NAME.gguf".into();
        return bad_type(dtype, allowed);
    }
    let missing = || Error::NotFound { path: source.name(), reason: format!("there is no {CONFIG}") };
    let config = read_small(&source, CONFIG, SMALL).await?.ok_or_else(missing)?;
    let files = source.list().await?;
    let opened = checkpoint::open(Box::new(source), None).await?;
    let (matrices, weights) = (matrices(opened.spec()), opened.into_weights());
    if weights.iter().any(|(_, tensor)| tensor.dtype == Dtype::Mxfp4) {
        let allowed =
            "a name that ends with .gguf: matrices stored in MXFP4 can be converted only to such a file".into();
        return Err(Error::BadOption { option: "output".into(), value: output.display().to_string(), allowed });
    }
    let wanted = |name: &str, tensor: &Tensor| match (float, bits) {
        (Some(float), _) => To::Float(float),
        (_, Some(bits)) if matrices.contains(name) => {
            match [64, 32].into_iter().find(|group| tensor.row_elements().is_multiple_of(*group)) {
                Some(group) => To::Mlx(bits, group),
                None => To::Float(tensor.dtype),
            }
        }
        _ => To::Float(tensor.dtype),
    };
    let tensors: Vec<_> = weights.iter().map(|(name, tensor)| (name, tensor, wanted(name, tensor))).collect();

    std::fs::create_dir(output).map_err(|error| unwritable(output, &error))?;
    let copy = |file: &str, bytes: &[u8]| {
        OutputFile::create(&output.join(file)).and_then(|mut out| out.write_bytes(bytes).and_then(|()| out.finish()))
    };
    for file in files.iter().filter(|file| !WEIGHTS.iter().any(|ending| file.ends_with(ending)) && *file != CONFIG) {
        // Folders cannot be read as files.
        if let Ok(Some(bytes)) = read_small(weights.source(), file, SMALL).await {
            copy(file, &bytes)?;
        }
    }
    copy(CONFIG, &described(&config, &tensors, float)?)?;
    let mut out = OutputFile::create(&output.join("model.safetensors"))?;
    out.write_bytes(&header(&tensors))?;
    for (name, tensor, to) in &tensors {
        match to {
            To::Float(dtype) => write_rows(&weights, name, tensor, *dtype, &mut out).await?,
            To::Mlx(bits, group) => {
                let [mut scales, mut biases] = [Vec::new(), Vec::new()];
                for rows in portions(tensor) {
                    let values = widen(tensor.dtype, &weights.read_rows(name, rows).await?);
                    for values in values.chunks_exact(*group as usize) {
                        let (scale, bias, codes) = affine(values, *bits);
                        scales.push(scale);
                        biases.push(bias);
                        out.write_bytes(&codes)?;
                    }
                }
                for floats in [scales, biases] {
                    out.write_bytes(&narrow(Dtype::F16, &floats).ok_or_else(|| too_large(&weights, name, "F16"))?)?;
                }
            }
        }
    }
    out.finish()
}

fn matrices(spec: &ModelSpec) -> BTreeSet<String> {
    let plans = [Some(Plan::new(spec)), spec.mtp(|_| true).map(|layer| Plan::new(&layer))];
    let matrices = plans.into_iter().flatten().flat_map(|plan| plan.matrices);
    let matrices = matrices.filter(|matrix| !matrix.layout.transposed && !matrix.is_router);
    let parts = matrices.flat_map(|matrix| matrix.layout.parts);
    parts.filter(|part| part.experts == 1).map(|part| part.tensor).collect()
}

/// Returns the config with the new types of the weights.
fn described(config: &[u8], tensors: &[(&str, &Tensor, To)], float: Option<Dtype>) -> Result<Vec<u8>> {
    let bad = |error: serde_json::Error| Error::BadConfig {
        file: CONFIG.into(),
        key: CONFIG.into(),
        reason: error.to_string(),
    };
    let mut config: Map<String, Value> = serde_json::from_slice(config).map_err(bad)?;
    let keys = ["quantization", "quantization_config"];
    keys.iter().for_each(|key| drop(config.remove(*key)));
    let mut quantization = Map::new();
    for (name, _, to) in tensors {
        let To::Mlx(bits, group) = to else { continue };
        let all = json!({ "group_size": group, "bits": bits, "mode": "affine" });
        if quantization.is_empty() {
            quantization = all.as_object().cloned().unwrap_or_default();
        } else if quantization["group_size"] != all["group_size"] {
            quantization.insert(name.trim_end_matches(".weight").into(), all);
        }
    }
    if !quantization.is_empty() {
        // MLX reads the first key; other programs read the second.
        config.extend(keys.map(|key| (key.into(), quantization.clone().into())));
    }
    let name = match float {
        Some(Dtype::F32) => Some("float32"),
        Some(Dtype::F16) => Some("float16"),
        Some(_) => Some("bfloat16"),
        None => None,
    };
    if let Some(name) = name {
        config.remove("torch_dtype");
        config.insert("dtype".into(), name.into());
    }
    serde_json::to_vec_pretty(&config).map_err(bad)
}

/// Returns the header of the safetensors file, including its length.
fn header(tensors: &[(&str, &Tensor, To)]) -> Vec<u8> {
    let mut header = Map::from_iter([("__metadata__".to_owned(), json!({ "format": "mlx" }))]);
    let mut end = 0;
    let mut add = |name: &str, dtype: &str, shape: &[u64], bytes: u64| {
        let entry = json!({ "dtype": dtype, "shape": shape, "data_offsets": [end, end + bytes] });
        end += bytes;
        header.insert(name.to_owned(), entry);
    };
    for (name, tensor, to) in tensors {
        let elements = tensor.shape.iter().product::<u64>();
        match to {
            To::Float(dtype) => add(name, dtype.name(), &tensor.shape, elements * dtype.block().bytes as u64),
            To::Mlx(bits, group) => {
                let (rows, cols) = (tensor.rows(), tensor.row_elements());
                let words = cols * u64::from(*bits) / 32;
                let module = name.trim_end_matches(".weight");
                add(name, "U32", &[rows, words], rows * words * 4);
                for part in ["scales", "biases"] {
                    add(&format!("{module}.{part}"), "F16", &[rows, cols / group], elements / group * 2);
                }
            }
        }
    }
    let mut json = Value::from(header).to_string().into_bytes();
    json.resize(json.len().next_multiple_of(8), b' ');
    [&(json.len() as u64).to_le_bytes()[..], &json].concat()
}

/// Returns scale, bias and packed codes of a group, like MLX's `affine_quantize`. Zero has its own code. Scale and bias are rounded to f16
/// before codes are chosen, so that codes compensate for the rounding.
fn affine(values: &[f32], bits: u32) -> (f32, f32, Vec<u8>) {
    let least = values.iter().copied().fold(f32::MAX, f32::min);
    let most = values.iter().copied().fold(f32::MIN, f32::max);
    let last = ((1 << bits) - 1) as f32;
    let f16 = |value: f32| half::f16::from_f32(value).to_f32();
    let from_below = least.abs() > most.abs();
    let step = ((most - least) / last).max(1e-7) * if from_below { 1.0 } else { -1.0 };
    let edge = if from_below { least } else { most };
    let steps = (edge / step).round();
    let (scale, bias) = if steps == 0.0 { (f16(step), 0.0) } else { (f16(edge / steps), f16(edge)) };
    let code = |value: &f32| if scale == 0.0 { 0 } else { ((value - bias) / scale).round().clamp(0.0, last) as u8 };
    let codes = match bits {
        4 => values.as_chunks::<2>().0.iter().map(|[low, high]| code(low) | code(high) << 4).collect(),
        _ => values.iter().map(code).collect(),
    };
    (scale, bias, codes)
}
