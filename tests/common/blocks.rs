//! Random weights in stored types.

use crate::lab::Random;
use foretoken::internals::weights::{Affine, Dtype, Float, narrow};
use half::f16;

/// Returns the positions of a block's scales, if it has several floats. In GGUF's types all are f16.
fn scales(dtype: Dtype) -> &'static [usize] {
    match dtype {
        Dtype::Q4_1 | Dtype::Q5_1 | Dtype::Q4K | Dtype::Q5K => &[0, 2],
        Dtype::Q2K => &[80, 82],
        Dtype::Q3K => &[108],
        Dtype::Q6K => &[208],
        _ => &[0],
    }
}

/// Returns the stored bytes of `count` random weights of a quantised type, some scales subnormal.
pub fn random_blocks(random: &mut Random, dtype: Dtype, count: usize) -> Vec<u8> {
    let block = dtype.block();
    let mut bytes: Vec<u8> = (0..count / block.elements * block.bytes).map(|_| random.bits() as u8).collect();
    for bytes in bytes.chunks_exact_mut(block.bytes) {
        if dtype == Dtype::Mxfp4 {
            bytes[0] = 108 + random.below(16) as u8;
            continue;
        }
        let size = random.pick(&[1e-2, 1e-2, 1e-2, 1e-6]);
        let mut set = |float, at: usize| {
            let value = (random.unit() - 0.5) as f32 * size;
            let stored = match float {
                Float::F32 => value.to_le_bytes().to_vec(),
                Float::F16 => f16::from_f32(value).to_le_bytes().to_vec(),
                Float::Bf16 => narrow(Dtype::Bf16, &[value]).unwrap(),
            };
            bytes[at..][..stored.len()].copy_from_slice(&stored);
        };
        match dtype {
            Dtype::Affine(Affine { scales, .. }) => [0, scales.size()].into_iter().for_each(|at| set(scales, at)),
            _ => scales(dtype).iter().for_each(|at| set(Float::F16, *at)),
        }
    }
    bytes
}

/// Returns the stored bytes of `count` random weights of any type.
pub fn random_weights(random: &mut Random, dtype: Dtype, count: usize) -> Vec<u8> {
    if dtype.block().elements > 1 {
        return random_blocks(random, dtype, count);
    }
    let values: Vec<f32> = (0..count).map(|_| (random.unit() - 0.5) as f32 * 0.2).collect();
    narrow(dtype, &values).unwrap()
}

/// Returns all quantised types.
pub fn quantised() -> impl Iterator<Item = Dtype> {
    Dtype::all().into_iter().filter(|dtype| dtype.block().elements > 1)
}
