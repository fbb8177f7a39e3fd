//! Quantised weights: what each stored type means, by the oracles of GGUF and MLX, and models made of them.

mod common;
use common::path;
use foretoken::weights::{Affine, Dtype, Float, narrow, widen};
use safetensors::SafeTensors;

/// `tests/golden/blocks.safetensors`; `blocks.py` beside it says how it was made.
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
    let types = Dtype::all().into_iter().filter(|dtype| dtype.block().elements > 1);
    let types = types.filter(|dtype| !matches!(dtype, Dtype::Affine(_)));
    let mut count = 0;
    for dtype in types {
        let want = golden.values(&format!("{}.values", dtype.name()));
        let got = widen(dtype, &golden.bytes(dtype.name()));
        assert!(want.iter().all(|value| value.is_finite()) && want.iter().any(|value| *value != 0.0));
        for (i, (got, want)) in got.iter().zip(&want).enumerate() {
            assert_eq!(got.to_bits(), want.to_bits(), "{dtype:?}: {got} for {want}, element {i}");
        }
        assert_eq!(got.len(), want.len(), "{dtype:?}");
        count += 1;
    }
    assert_eq!(count, 12);
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
