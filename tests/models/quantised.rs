//! Quantised weights: the values of each stored type, compared with the oracles of GGUF and MLX, and models made of them.

use common::blocks::quantised;
use common::small::Small;
use common::{blueprint_as, capacity, difference, engine_of, gpu, gpu_of, path, rounded, run};
use foretoken::internals::backend::Backend;
use foretoken::internals::backend::gpu::{GpuBackend, GpuModel, RoundBuffers};
use foretoken::internals::gpu::GpuOptions;
use foretoken::internals::model::Blueprint;
use foretoken::internals::target::{Draft, Target, run_round};
use foretoken::internals::weights::{Affine, Dtype, Float, InMemory, Quantization, Weights, narrow, widen};
use foretoken::{Arithmetic, ArithmeticChoice, Error, WeightDtype, WeightsRule as Rule};
use safetensors::SafeTensors;
use safetensors::tensor::TensorView;
use serde_json::{Value, json};

/// `tests/golden/blocks.safetensors`, made by `blocks.py`.
struct Blocks(Vec<u8>);

impl Blocks {
    fn read() -> Self {
        Self(std::fs::read(path("tests/golden/blocks.safetensors")).unwrap())
    }

    fn bytes(&self, name: &str) -> Vec<u8> {
        let tensors = SafeTensors::deserialize(&self.0).unwrap();
        tensors.tensor(name).unwrap_or_else(|error| panic!("{name}: {error}")).data().to_vec()
    }

    fn values(&self, name: &str) -> Vec<f32> {
        widen(Dtype::F32, &self.bytes(name))
    }
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}

#[test]
fn every_type_widens_as_python_gguf_does() {
    let golden = Blocks::read();
    let mut count = 0;
    for dtype in quantised().filter(|dtype| !matches!(dtype, Dtype::Affine(_))) {
        let want = golden.values(&format!("{}.values", dtype.name()));
        let got = widen(dtype, &golden.bytes(dtype.name()));
        assert!(want.iter().all(|value| value.is_finite()) && want.iter().any(|value| *value != 0.0));
        for (i, (got, want)) in got.iter().zip(&want).enumerate() {
            assert_eq!(got.to_bits(), want.to_bits(), "{dtype:?}: {got} for {want}, element {i}");
        }
        assert_eq!(got.len(), want.len(), "{dtype:?}");
        count += 1;
    }
    assert_eq!(count, 15);
}

#[test]
fn floats_are_quantised_as_python_gguf_does() {
    let golden = Blocks::read();
    let floats = golden.values("floats");
    for dtype in [Dtype::Q4_0, Dtype::Q4_1, Dtype::Q5_0, Dtype::Q5_1, Dtype::Q8_0] {
        let want = golden.bytes(&format!("{}.floats", dtype.name()));
        let got = narrow(dtype, &floats).unwrap();
        let size = dtype.block().bytes;
        for (i, (got, want)) in got.chunks(size).zip(want.chunks(size)).enumerate() {
            assert_eq!(got, want, "{dtype:?}: block {i}");
        }
        assert_eq!(got.len(), want.len());
        assert_eq!(narrow(dtype, &[1e9; 32]), None, "{dtype:?}: its scale is an f16");
    }
    assert_eq!(narrow(Dtype::F16, &[65_520.0]), None);
    assert_eq!(narrow(Dtype::Q4K, &[0.0; 256]), None, "nothing is quantised to that here");
}

#[test]
fn affine_types_widen_as_mlx_does() {
    let golden = Blocks::read();
    for dtype in Dtype::all() {
        let Dtype::Affine(Affine { bits: width, group_size, scales }) = dtype else { continue };
        let kind = match scales {
            Float::F32 => "float32",
            Float::F16 => "float16",
            Float::Bf16 => "bfloat16",
        };
        let part = |part: &str| golden.bytes(&format!("mlx {width} {group_size} {kind}.{part}"));
        let (codes, scales_of, biases) = (part("weight"), part("scales"), part("biases"));
        let codes = codes.chunks(usize::from(group_size) * usize::from(width) / 8);
        let floats = scales_of.chunks(scales.size()).zip(biases.chunks(scales.size()));
        let blocks: Vec<u8> =
            floats.zip(codes).flat_map(|((scale, bias), codes)| [scale, bias, codes].concat()).collect();
        let got = widen(dtype, &blocks);
        let want = widen(Dtype::F32, &part("values"));
        assert_eq!(bits(&got), bits(&want), "{dtype:?}");
    }
}

/// Opens a safetensors file of zeros with these tensors: name, type, bytes of an element, shape.
fn open(tensors: &[(&str, safetensors::Dtype, usize, &[usize])], quantization: Value) -> foretoken::Result<Weights> {
    let zeros = vec![0; 1 << 16];
    let view = |dtype, size, shape: &[usize]| {
        TensorView::new(dtype, shape.to_vec(), &zeros[..size * shape.iter().product::<usize>()]).unwrap()
    };
    let views = tensors.iter().map(|(name, dtype, size, shape)| (*name, view(*dtype, *size, shape)));
    let file = safetensors::serialize(views, None).unwrap();
    let config = json!({ "quantization": quantization }).to_string();
    let mut weights = run(Weights::open(Box::new(InMemory::new("m", [("model.safetensors", file.into())]))))?;
    weights.join(&Quantization::parse(config.as_bytes())?.unwrap())?;
    Ok(weights)
}

/// Opens a module of 3 rows of 128 weights of 4 bits in groups of 64, with one of its three tensors replaced.
fn module(part: usize, dtype: safetensors::Dtype, size: usize, shape: &[usize]) -> foretoken::Result<Weights> {
    use safetensors::Dtype::{BF16, U32};
    let mut tensors: [(&str, _, _, &[usize]); 3] =
        [("a.weight", U32, 4, &[3, 16]), ("a.scales", BF16, 2, &[3, 2]), ("a.biases", BF16, 2, &[3, 2])];
    let name = tensors[part].0;
    tensors[part] = (name, dtype, size, shape);
    open(&tensors, json!({ "bits": 4, "group_size": 64 }))
}

#[test]
fn three_tensors_of_mlx_are_one() {
    use safetensors::Dtype::{BF16, F16, F32, I32, U32};
    let weights = module(1, BF16, 2, &[3, 2]).unwrap();
    let names: Vec<_> = weights.iter().collect();
    let [("a.weight", tensor)] = names[..] else { panic!("{names:?}") };
    assert_eq!(tensor.dtype, Dtype::Affine(Affine { bits: 4, group_size: 64, scales: Float::Bf16 }));
    assert_eq!((&tensor.shape[..], tensor.row_bytes(), tensor.bytes()), (&[3, 128][..], 72, 216));
    assert_eq!(run(weights.read_rows("a.weight", 1..3)).unwrap().len(), 144);
    // A module with its own quantisation, and one that is not quantised.
    let three: [(&str, _, _, &[usize]); 4] = [
        ("a.weight", U32, 4, &[3, 32]),
        ("a.scales", F16, 2, &[3, 4]),
        ("a.biases", F16, 2, &[3, 4]),
        ("b.weight", F16, 2, &[3, 32]),
    ];
    let quantization = json!({ "bits": 4, "group_size": 64, "a": { "bits": 8, "group_size": 32 }, "b": false });
    let weights = open(&three, quantization).unwrap();
    let dtype = Dtype::Affine(Affine { bits: 8, group_size: 32, scales: Float::F16 });
    assert_eq!(weights.get("a.weight").unwrap().dtype, dtype);
    assert_eq!(weights.get("b.weight").unwrap().dtype, Dtype::F16);
    // Integer tensors that are not codes are ignored.
    let weights = open(&[("ids", U32, 4, &[3]), ("more", I32, 4, &[3])], json!({ "bits": 4, "group_size": 64 }));
    assert!(weights.unwrap().get("ids").is_none());
    assert!(module(1, F32, 4, &[3, 2]).is_err(), "scales and biases of two types");
}

#[test]
fn affine_mismatch() {
    use safetensors::Dtype::{BF16, F16, U8, U32};
    let rule = Rule::AffineMismatch { tensor: "a.weight".into(), bits: 4, group_size: 64 };
    let wrong: [(usize, _, _, &[usize]); 6] = [
        (0, U32, 4, &[3, 8]),
        (0, U32, 4, &[2, 16]),
        (0, U32, 4, &[48]),
        (1, BF16, 2, &[3, 4]),
        (2, F16, 2, &[3, 2]),
        (1, BF16, 2, &[6]),
    ];
    for (part, dtype, size, shape) in wrong {
        let Err(Error::BadWeights { rule: found, .. }) = module(part, dtype, size, shape) else {
            panic!("{part} {shape:?}");
        };
        assert_eq!(found, rule, "{part} {shape:?}");
    }
    for (part, name) in [(1, "a.scales"), (2, "a.biases")] {
        let Err(Error::BadWeights { rule: found, .. }) = module(part, U8, 1, &[3, 2]) else { panic!("{name}") };
        assert_eq!(found, Rule::UnsupportedDtype { tensor: name.into(), dtype: "U8".into() });
    }
    let alone = open(&[("a.weight", U32, 4, &[3, 16])], json!({ "bits": 4, "group_size": 64 }));
    let Err(Error::BadWeights { rule: found, .. }) = alone else { panic!("without scales") };
    assert_eq!(found, Rule::MissingTensor { tensor: "a.scales".into() });
}

#[test]
fn what_mlx_can_do_and_this_cannot_is_refused_by_name() {
    let cases = [
        (json!({ "bits": 4, "group_size": 32, "mode": "mxfp4" }), "quantization.mode", "\"mxfp4\""),
        (json!({ "bits": 3, "group_size": 64 }), "quantization.bits", "3"),
        (json!({ "bits": 4, "group_size": 16 }), "quantization.group_size", "16"),
        (json!({ "group_size": 64 }), "quantization.bits", "null"),
        (json!({ "bits": 4, "group_size": 64, "lm_head": { "bits": 6 } }), "quantization.lm_head.bits", "6"),
    ];
    for (quantization, wanted, value) in cases {
        let config = json!({ "quantization": quantization }).to_string();
        let error = Quantization::parse(config.as_bytes()).unwrap_err();
        let Error::BadConfig { key, reason, .. } = error else { panic!("{error}") };
        assert_eq!(key, wanted);
        assert!(reason.starts_with(&format!("{value} is not supported")), "{reason}");
    }
    assert!(Quantization::parse(b"{}").unwrap().is_none());
}

const TEXT: usize = 40;

fn logits(engine: &mut GpuBackend, rows: usize) -> Vec<f32> {
    let tokens: Vec<u32> = (0..TEXT).map(|i| (i * 37 % Small::VOCAB) as u32).collect();
    engine.truncate(0);
    run(engine.logits(&tokens, rows)).unwrap()
}

#[test]
fn models_of_all_types_compute_as_their_widened_weights_do_and_rows_are_alone() {
    use Dtype::{Iq4Nl, Iq4Xs, Mxfp4, Q1_0, Q2_0, Q2K, Q3K, Q4_0, Q4_1, Q4K, Q5_0, Q5_1, Q5K, Q6K, Q8_0};
    let gpu = gpu();
    let models = [
        // q, k and v have different types.
        [Q6K, Q4K, Q5K, Q8_0, Q2K, Q3K, Q3K, Iq4Xs, Q4_0],
        // Gate and up differ, and their rows alternate: they become f32.
        [Iq4Nl, Q4_1, Q5_0, Q5_1, Q4_0, Q8_0, Q6K, Iq4Nl, Q2K],
        [Q2_0, Q1_0, Mxfp4, Mxfp4, Q1_0, Mxfp4, Mxfp4, Q1_0, Q1_0],
    ];
    let all = models.map(|types| (types, Small::new(types))).into_iter();
    for (types, small) in all.chain([(models[0], Small::with_experts(models[0]))]) {
        let (mut quantised, bytes) = small.load(&gpu, WeightDtype::Auto);
        let (mut wide, wide_bytes) = small.widened().load(&gpu, WeightDtype::Auto);
        let planned = |engine: &GpuBackend, bytes: u64| engine.target().memory().weights - bytes;
        assert_eq!(planned(&quantised, bytes), planned(&wide, wide_bytes), "all but the vectors is told");
        let alone = logits(&mut quantised, 1);
        let error = difference(&alone, &logits(&mut wide, 17));
        println!("{types:?}: {error:.1e}, {bytes} bytes instead of {wide_bytes}");
        assert!(error < 1e-5, "{types:?}: {error:e}");
        for rows in [2, 4, 8, 16, 17, TEXT] {
            assert_eq!(bits(&logits(&mut quantised, rows)), bits(&alone), "{types:?}, {rows} rows");
        }
        let (mut f32, bytes) = small.load(&gpu, WeightDtype::F32);
        assert_eq!(bits(&logits(&mut f32, 1)), bits(&logits(&mut wide, 1)), "{types:?} as f32");
        assert_eq!(bytes, wide_bytes);
    }
}

/// Types with integers in chunks of 16 and of 32, with one scale and with two, and one type without integers, with the kernels of CPUs
/// and of GPUs.
#[test]
fn with_integers_rows_are_alone_too() {
    use Dtype::{Iq4Nl, Mxfp4, Q1_0, Q2_0, Q4K, Q6K, Q8_0};
    let types = [Q8_0, Q4K, Q1_0, Iq4Nl, Q6K, Q4K, Q4K, Q2_0, Q6K];
    let of_experts = [Q8_0, Q8_0, Q4K, Iq4Nl, Q8_0, Mxfp4, Mxfp4, Q6K, Q6K];
    [Small::new(types), Small::with_experts(of_experts)].iter().for_each(check_integers);
}

fn check_integers(small: &Small) {
    let texts = [false, true].map(|as_on_gpus| {
        let gpu = gpu_of(&GpuOptions { as_on_gpus, ..GpuOptions::default() });
        let (mut engine, _) = small.load_with(&gpu, WeightDtype::Auto, ArithmeticChoice::Int8);
        assert_eq!(engine.target().arithmetic(), Arithmetic::Int8);
        let alone = logits(&mut engine, 1);
        for rows in [2, 8, 16, TEXT] {
            assert_eq!(bits(&logits(&mut engine, rows)), bits(&alone), "{rows} rows");
        }
        // Rounds choose the best of these logits, whatever was drafted.
        let best = |row: &[f32]| (0..row.len()).reduce(|a, b| if row[b] > row[a] { b } else { a }).unwrap() as u32;
        engine.truncate(0);
        let draft: Vec<u32> = (1..16).map(|i| i * 37 % Small::VOCAB as u32).collect();
        let expected: Vec<u32> = alone.chunks(Small::VOCAB).take(draft.len() + 1).map(best).collect();
        assert_eq!(run(run_round(&mut engine, 0, &Draft::Tokens(draft))).unwrap().ids, expected);
        alone
    });
    let floats = logits(&mut small.load(&gpu(), WeightDtype::Auto).0, TEXT);
    let apart = difference(&texts[0], &texts[1]);
    println!("{apart:.1e} between processors and GPUs");
    assert!(apart < 1e-5, "{apart:e}");
    for text in &texts {
        let error = difference(text, &floats);
        println!("{error:.1e} from floats");
        assert!((1e-5..0.2).contains(&error), "{error:e}");
    }
}

#[test]
fn the_arithmetic_is_measured_once_or_as_it_was_asked_for() {
    let gpu = gpu();
    let quantised = Small::new([Dtype::Q4K; 9]);
    let of = |small: &Small, wanted| small.load_with(&gpu, WeightDtype::Auto, wanted).0;
    let mut measured = of(&quantised, ArithmeticChoice::Auto);
    let chosen = measured.target().arithmetic();
    println!("{chosen:?} was measured to be faster here");
    let mut asked = of(&quantised, chosen.into());
    assert_eq!(bits(&logits(&mut measured, 3)), bits(&logits(&mut asked, 40)));
    assert_eq!(measured.target().memory(), asked.target().memory(), "what is not needed is given back");
    // If no type has integers, nothing is measured.
    for small in [Small::new([Dtype::Iq4Xs; 9]), Small::new([Dtype::Q8_0; 9]).widened()] {
        for wanted in [ArithmeticChoice::Auto, ArithmeticChoice::Int8] {
            assert_eq!(of(&small, wanted).target().arithmetic(), Arithmetic::F32);
        }
    }
}

#[test]
fn floats_are_quantised_while_loading() {
    let gpu = gpu();
    let float = Small::new([Dtype::Q8_0; 9]).widened();
    let exact = logits(&mut float.load(&gpu, WeightDtype::Auto).0, 17);
    let wanted = [(WeightDtype::F16, Dtype::F16), (WeightDtype::Q8, Dtype::Q8_0), (WeightDtype::Q4, Dtype::Q4_1)];
    let mut before = 0.0;
    for (wanted, dtype) in wanted {
        let mut rounded = Small { spec: float.spec.clone(), tensors: float.tensors.clone() };
        for (_, shape, _, bytes) in rounded.tensors.iter_mut().filter(|(_, shape, ..)| shape.len() == 2) {
            assert_eq!(bytes.len(), shape.iter().product::<usize>() * 4);
            let values = widen(dtype, &narrow(dtype, &widen(Dtype::F32, bytes)).unwrap());
            *bytes = bytemuck::cast_slice(&values).to_vec();
        }
        let want = logits(&mut rounded.load(&gpu, WeightDtype::Auto).0, 17);
        let (mut engine, bytes) = float.load(&gpu, wanted);
        let got = logits(&mut engine, 1);
        assert!(difference(&got, &want) < 1e-5, "{wanted:?}");
        let loss = difference(&got, &exact);
        println!("{wanted:?}: {loss:.1e} from the floats, {bytes} bytes");
        assert!(loss >= before, "{wanted:?}: fewer bits lose more");
        before = loss;
    }
    assert!(before > 1e-3, "4 bits lose something");
}

/// GPT-2's matrices are stored as [inputs, outputs].
#[test]
fn transposed_matrices_are_quantised_while_loading_too() {
    let (gpu, folder) = (gpu(), path("tests/golden/models/gpt2"));
    let file = std::fs::read(folder.join("model.safetensors")).unwrap();
    let tokens: Vec<u32> = (0..TEXT as u32).map(|i| i * 37 % 512).collect();
    for (wanted, dtype) in [(WeightDtype::Q8, Dtype::Q8_0), (WeightDtype::Q4, Dtype::Q4_1)] {
        let mut quantised = engine_of(&gpu, blueprint_as(&folder, capacity(), wanted), None);
        let spec = quantised.target().spec().clone();
        let weights = rounded(&file, dtype, |name| name.contains(".h."));
        let blueprint = Blueprint::new(spec, &weights, capacity(), WeightDtype::Auto).unwrap();
        let mut wide = engine_of(&gpu, (blueprint, weights), None);
        let [got, want] = [&mut quantised, &mut wide].map(|engine| run(engine.logits(&tokens, 17)).unwrap());
        assert!(difference(&got, &want) < 1e-5, "{wanted:?}: {:e}", difference(&got, &want));
    }
}

#[test]
fn too_large_for() {
    let mut large = Small::new([Dtype::Q8_0; 9]).widened();
    large.tensors[1].3[..4].copy_from_slice(&1e6f32.to_le_bytes());
    for (wanted, dtype) in [(WeightDtype::F16, "F16"), (WeightDtype::Q4, "Q4_1")] {
        let memory = InMemory::new("large", [("m.gguf", large.file().into())]);
        let error = run(async {
            let (weights, _) = Weights::open_gguf(Box::new(memory), "m.gguf").await.unwrap();
            let blueprint = Blueprint::new(large.spec.clone(), &weights, capacity(), wanted).unwrap();
            let gpu = gpu();
            let buffers = RoundBuffers::new(&gpu, &blueprint.capacity, Small::VOCAB).unwrap();
            GpuModel::load(&gpu, &blueprint, Some(&weights), &buffers, None, &mut |_| ()).await.err().unwrap()
        });
        let Error::BadWeights { rule, .. } = error else { panic!("{error}") };
        assert_eq!(rule, Rule::TooLargeFor { tensor: large.tensors[1].0.clone(), dtype });
    }
}

#[test]
fn row_not_whole_blocks() {
    let mut small = Small::new([Dtype::Q8_0; 9]);
    // Three blocks in all, but one and a half per row.
    (small.tensors[1].1, small.tensors[1].3) = (vec![2, 48], vec![0; 102]);
    let memory = InMemory::new("small", [("m.gguf", small.file().into())]);
    let Err(Error::BadWeights { rule, .. }) = run(Weights::open_gguf(Box::new(memory), "m.gguf")) else {
        panic!("it is accepted")
    };
    let tensor = small.tensors[1].0.clone();
    assert_eq!(rule, Rule::RowNotWholeBlocks { tensor, elements: 48, dtype: "Q8_0", block: 32 });
}
