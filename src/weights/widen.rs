//! Conversion of stored weights to f32.

use super::block::{self, FP4_LEVELS, Factors, IQ4_LEVELS};
use super::dtype::{Dtype, Float};
use half::{bf16, f16};

/// Converts little-endian stored weights to f32. Floats are exact. Quantised types match `gguf.quants.dequantize` of Python bit for bit;
/// MLX's types are `scale * q + bias` in f32. Bytes after the last whole block are ignored.
pub fn widen(dtype: Dtype, bytes: &[u8]) -> Vec<f32> {
    match dtype {
        Dtype::F32 => bytes.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect(),
        Dtype::F16 => bytes.as_chunks().0.iter().map(|bytes| f16::from_le_bytes(*bytes).to_f32()).collect(),
        Dtype::Bf16 => bytes.as_chunks().0.iter().map(|bytes| bf16::from_le_bytes(*bytes).to_f32()).collect(),
        _ => {
            let CodedBlock { codes, scales, offsets } = coded(dtype, bytes);
            let (group, center) = (dtype.group(), f32::from(dtype.center()));
            let shared = dtype.groups_per_block();
            let values = codes.chunks_exact(group).enumerate().flat_map(|(i, codes)| {
                let scale = scales.number(i, shared).unwrap_or(0.0);
                // Adding -0 changes nothing.
                let offset = offsets.number(i, shared).unwrap_or(-0.0);
                codes.iter().map(move |&code| scale * (f32::from(code) - center) + offset)
            });
            values.collect()
        }
    }
}

/// Quantised weights split into codes, scales and offsets. Weight i is `scale * (code - center) + offset`, with the scale and offset of its
/// group.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CodedBlock {
    /// One code per weight.
    pub codes: Vec<u8>,
    /// Scales of the groups.
    pub scales: Scaling,
    /// Offsets of the groups; empty if the type has none.
    pub offsets: Scaling,
}

/// Scales or offsets of groups: the base of the group's block, times a factor.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Scaling {
    /// One per block.
    pub bases: Vec<f32>,
    /// One per group; empty: all are 1.
    pub factors: Vec<i8>,
}

impl Scaling {
    /// Returns the number of a group; `None`: there is none. `shared`: groups per block.
    fn number(&self, group: usize, shared: usize) -> Option<f32> {
        let base = *self.bases.get(group / shared)?;
        Some(self.factors.get(group).map_or(base, |factor| base * f32::from(*factor)))
    }
}

/// Splits stored blocks of a quantised type. Bytes after the last whole block are ignored.
pub fn coded(dtype: Dtype, bytes: &[u8]) -> CodedBlock {
    let size = dtype.block();
    let weights = bytes.len() / size.bytes * size.elements;
    let mut coded = CodedBlock { codes: Vec::with_capacity(weights), ..CodedBlock::default() };
    bytes.chunks_exact(size.bytes).for_each(|block| coded.push(dtype, block));
    coded
}

fn floats(float: Float, bytes: &[u8]) -> impl Iterator<Item = f32> {
    bytes.chunks_exact(float.size()).map(move |bytes| match (float, bytes) {
        (Float::F32, &[a, b, c, d]) => f32::from_le_bytes([a, b, c, d]),
        (Float::F16, &[a, b]) => f16::from_le_bytes([a, b]).to_f32(),
        (Float::Bf16, &[a, b]) => bf16::from_le_bytes([a, b]).to_f32(),
        _ => 0.0,
    })
}

impl CodedBlock {
    fn push(&mut self, dtype: Dtype, block: &[u8]) {
        let from = self.codes.len();
        self.codes.resize(from + dtype.block().elements, 0);
        let codes = &mut self.codes[from..];
        block::codes(dtype, block, codes);
        if block::center(dtype).is_none() {
            let levels = if dtype == Dtype::Mxfp4 { FP4_LEVELS } else { IQ4_LEVELS };
            codes.iter_mut().for_each(|code| *code = (levels[usize::from(*code & 15)] as u8) ^ 0x80);
        }
        let (float, range) = dtype.floats();
        let mut found = floats(float, &block[range]);
        let (scale, min) = match dtype {
            Dtype::Mxfp4 => (block::power(block[0]), None),
            _ => (found.next().unwrap_or(0.0), found.next()),
        };
        self.scales.bases.push(scale);
        let groups = dtype.groups_per_block();
        if groups == 1 {
            return self.offsets.bases.extend(min);
        }
        let Factors { scales, mins } = block::factors(dtype, block);
        self.scales.factors.extend(&scales[..groups]);
        // The mins of types with factors are subtracted.
        if let Some(min) = min {
            self.offsets.bases.push(-min);
            self.offsets.factors.extend(mins[..groups].iter().map(|min| *min as i8));
        }
    }
}
