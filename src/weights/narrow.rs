//! Conversion of f32 to stored weights.

use super::block;
use super::dtype::{Dtype, Float};
use super::finite::first_non_finite;
use half::{bf16, f16};

/// Converts whole rows to `dtype`, rounded to nearest. Quantised types match `gguf.quants.quantize` of Python bit for bit. `None`: `dtype`
/// cannot hold a value, or is not supported here. Supported are F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0.
pub fn narrow(dtype: Dtype, values: &[f32]) -> Option<Vec<u8>> {
    let bytes = match dtype {
        Dtype::F32 => floats(Float::F32, values),
        Dtype::F16 => floats(Float::F16, values),
        Dtype::Bf16 => floats(Float::Bf16, values),
        Dtype::Q4_0 | Dtype::Q4_1 | Dtype::Q5_0 | Dtype::Q5_1 | Dtype::Q8_0 => {
            values.as_chunks().0.iter().flat_map(|block| quantise(dtype, block)).collect()
        }
        _ => return None,
    };
    first_non_finite(dtype, &bytes).is_none().then_some(bytes)
}

fn floats(float: Float, values: &[f32]) -> Vec<u8> {
    match float {
        Float::F32 => bytemuck::cast_slice(values).to_vec(),
        Float::F16 => values.iter().flat_map(|value| f16::from_f32(*value).to_le_bytes()).collect(),
        Float::Bf16 => values.iter().flat_map(|value| bf16::from_f32(*value).to_le_bytes()).collect(),
    }
}

fn quantise(dtype: Dtype, values: &[f32; 32]) -> Vec<u8> {
    let least = values.iter().copied().fold(f32::MAX, f32::min);
    let most = values.iter().copied().fold(f32::MIN, f32::max);
    // The first of the values with the largest magnitude.
    let far = values.iter().fold(0.0_f32, |far, value| if value.abs() > far.abs() { *value } else { far });
    // Code 0 is `min`, or is `center` steps below zero.
    let center = f32::from(block::center(dtype).unwrap_or(0));
    let last: u8 = if matches!(dtype, Dtype::Q4_0 | Dtype::Q4_1) { 15 } else { 31 };
    let (scale, min) = match dtype {
        Dtype::Q4_1 | Dtype::Q5_1 => ((most - least) / f32::from(last), Some(least)),
        Dtype::Q8_0 => (far.abs() / 127.0, None),
        _ => (far / -center, None),
    };
    let per_step = if scale == 0.0 { 0.0 } else { 1.0 / scale };
    let codes = values.map(|value| match dtype {
        Dtype::Q8_0 => ((value * per_step).round() + center) as u8,
        _ => (((value - min.unwrap_or(0.0)) * per_step + (center + 0.5)) as u8).min(last),
    });
    let scales: Vec<f32> = [scale].into_iter().chain(min).collect();
    block::join(dtype, &floats(Float::F16, &scales), &codes)
}
