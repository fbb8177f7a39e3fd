//! Conversion of f32 to stored weights.

use super::block;
use super::dtype::Dtype;
use super::finite::first_non_finite;
use half::{bf16, f16};

/// Converts whole rows to `dtype`, rounded to nearest. Quantised types match `gguf.quants.quantize` of Python bit for bit. `None`: `dtype`
/// cannot hold a value, or is not supported here. Supported are F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0.
pub fn narrow(dtype: Dtype, values: &[f32]) -> Option<Vec<u8>> {
    let bytes = match dtype {
        Dtype::F32 => bytemuck::cast_slice(values).to_vec(),
        Dtype::F16 => {
            values.iter().map(|value| f16::from_f32(*value).to_le_bytes()).collect::<Vec<_>>().into_flattened()
        }
        Dtype::Bf16 => {
            values.iter().map(|value| bf16::from_f32(*value).to_le_bytes()).collect::<Vec<_>>().into_flattened()
        }
        Dtype::Q4_0 | Dtype::Q4_1 | Dtype::Q5_0 | Dtype::Q5_1 | Dtype::Q8_0 => {
            let (values, size) = (values.as_chunks().0, dtype.block().bytes);
            let mut bytes = vec![0; values.len() * size];
            values.iter().zip(bytes.chunks_exact_mut(size)).for_each(|(values, block)| quantise(dtype, values, block));
            bytes
        }
        _ => return None,
    };
    first_non_finite(dtype, &bytes).is_none().then_some(bytes)
}

fn quantise(dtype: Dtype, values: &[f32; 32], block: &mut [u8]) {
    let least = values.iter().copied().fold(f32::MAX, f32::min);
    let most = values.iter().copied().fold(f32::MIN, f32::max);
    // The first of the values with the largest magnitude.
    let far = values.iter().fold(0.0_f32, |far, value| if value.abs() > far.abs() { *value } else { far });
    // Code 0 is `min`, or is `center` steps below zero.
    let center = f32::from(block::center(dtype).unwrap_or(0));
    let last: u8 = if matches!(dtype, Dtype::Q4_0 | Dtype::Q4_1) { 15 } else { 31 };
    let (scale, min) = match dtype {
        Dtype::Q4_1 | Dtype::Q5_1 => ((most - least) / f32::from(last), least),
        Dtype::Q8_0 => (far.abs() / 127.0, 0.0),
        _ => (far / -center, 0.0),
    };
    let per_step = if scale == 0.0 { 0.0 } else { 1.0 / scale };
    // Not `values.map`, which is not inlined.
    let mut codes = [0; 32];
    for (code, value) in codes.iter_mut().zip(values) {
        *code = match dtype {
            Dtype::Q8_0 => ((value * per_step).round() + center) as u8,
            _ => (((value - min) * per_step + (center + 0.5)) as u8).min(last),
        };
    }
    let scales = block[dtype.floats().1].as_chunks_mut().0;
    scales.iter_mut().zip([scale, min]).for_each(|(to, value)| *to = f16::from_f32(value).to_le_bytes());
    block::put_codes(dtype, &mut codes, block);
}
