//! Stored weights -> f32.

use super::block::{self, Factors, IQ4_LEVELS, MOST};
use super::dtype::{Dtype, Float};
use half::{bf16, f16};

/// Little-endian stored weights as f32: floats exactly, quantised ones as `gguf.quants.dequantize` of Python does, to the bit, and
/// MLX's as `scale * q + bias` in f32. Bytes behind the last whole block are ignored.
pub fn widen(dtype: Dtype, bytes: &[u8]) -> Vec<f32> {
    match dtype {
        Dtype::F32 => floats(Float::F32, bytes).collect(),
        Dtype::F16 => floats(Float::F16, bytes).collect(),
        Dtype::Bf16 => floats(Float::Bf16, bytes).collect(),
        _ => {
            let size = dtype.block();
            let mut values = Vec::with_capacity(bytes.len() / size.bytes * size.elements);
            bytes.chunks_exact(size.bytes).for_each(|block| widen_block(dtype, block, &mut values));
            values
        }
    }
}

fn floats(float: Float, bytes: &[u8]) -> impl Iterator<Item = f32> {
    bytes.chunks_exact(float.size()).map(move |bytes| match (float, bytes) {
        (Float::F32, &[a, b, c, d]) => f32::from_le_bytes([a, b, c, d]),
        (Float::F16, &[a, b]) => f16::from_le_bytes([a, b]).to_f32(),
        (Float::Bf16, &[a, b]) => bf16::from_le_bytes([a, b]).to_f32(),
        _ => 0.0,
    })
}

fn widen_block(dtype: Dtype, block: &[u8], values: &mut Vec<f32>) {
    let mut codes = [0; MOST];
    let codes = &mut codes[..dtype.block().elements];
    block::codes(dtype, block, codes);
    let (float, range) = dtype.floats();
    let mut found = floats(float, &block[range]);
    let (scale, min) = (found.next().unwrap_or(0.0), found.next());
    let Factors { scales, mins } = block::factors(dtype, block);
    for ((codes, by), min_by) in codes.chunks_exact(block::group(dtype)).zip(scales).zip(mins) {
        let scale = scale * f32::from(by);
        let offset = match (dtype, min) {
            // Adding it changes nothing, not even the sign of a zero.
            (_, None) => -0.0,
            (Dtype::Q2K | Dtype::Q4K | Dtype::Q5K, Some(min)) => -(min * f32::from(min_by)),
            (_, Some(min)) => min,
        };
        values.extend(codes.iter().map(|&code| {
            let level = match block::center(dtype) {
                Some(center) => i16::from(code) - i16::from(center),
                None => i16::from(IQ4_LEVELS[usize::from(code & 15)]),
            };
            scale * f32::from(level) + offset
        }));
    }
}
