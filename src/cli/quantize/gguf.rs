//! A GGUF file from a GGUF file: the metadata as it was, the matrices as another type.

use super::{Output, bad_type, write_rows};
use crate::error::Result;
use crate::weights::{Dtype, Folder, Tensor, Weights};
use std::path::Path;

/// What can be written, and llama.cpp's number for a file that consists of it (`llama_ftype`).
const TYPES: [(Dtype, u32); 8] = [
    (Dtype::F32, 0),
    (Dtype::F16, 1),
    (Dtype::Bf16, 32),
    (Dtype::Q4_0, 2),
    (Dtype::Q4_1, 3),
    (Dtype::Q5_0, 8),
    (Dtype::Q5_1, 9),
    (Dtype::Q8_0, 7),
];
const ALIGNMENT: usize = 32;
const U32: u32 = 4;
/// The key with that number.
const FILE_TYPE: &str = "general.file_type";
/// Keys that say something about the old file alone.
const OLD: [&str; 3] = [FILE_TYPE, "general.alignment", "general.quantization_version"];

pub(super) async fn write(source: Folder, file: &str, output: &Path, dtype: &str) -> Result<()> {
    let Some((to, number)) = TYPES.into_iter().find(|(to, _)| to.name() == dtype) else {
        return bad_type(dtype, TYPES.map(|(dtype, _)| dtype.name()).join(", "));
    };
    let (weights, metadata) = Weights::open_gguf(source, file).await?;
    let kept: Vec<_> =
        metadata.entries().filter(|(key, ..)| !OLD.contains(key) && !key.starts_with("split.")).collect();
    let tensors: Vec<_> = weights.iter().map(|(name, tensor)| (name, tensor, as_wanted(name, tensor, to))).collect();

    let mut header = b"GGUF\x03\0\0\0".to_vec();
    let text = |header: &mut Vec<u8>, text: &str| {
        header.extend((text.len() as u64).to_le_bytes());
        header.extend(text.as_bytes());
    };
    header.extend((tensors.len() as u64).to_le_bytes());
    header.extend((kept.len() as u64 + 2).to_le_bytes());
    for (key, kind, value) in kept {
        text(&mut header, key);
        header.extend(kind.to_le_bytes());
        header.extend(value);
    }
    for (key, value) in [(FILE_TYPE, number), ("general.quantization_version", 2)] {
        text(&mut header, key);
        header.extend(U32.to_le_bytes());
        header.extend(value.to_le_bytes());
    }
    let mut end = 0;
    for (name, tensor, dtype) in &tensors {
        text(&mut header, name);
        header.extend((tensor.shape.len() as u32).to_le_bytes());
        tensor.shape.iter().rev().for_each(|size| header.extend(size.to_le_bytes()));
        header.extend(dtype.gguf_number().unwrap_or_default().to_le_bytes());
        header.extend(u64::to_le_bytes(end));
        end += bytes(tensor, *dtype).next_multiple_of(ALIGNMENT as u64);
    }
    header.resize(header.len().next_multiple_of(ALIGNMENT), 0);

    let mut out = Output::create(output)?;
    out.write(&header)?;
    for (name, tensor, dtype) in tensors {
        write_rows(&weights, name, tensor, dtype, &mut out).await?;
        let size = bytes(tensor, dtype) as usize;
        out.write(&[0; ALIGNMENT][..size.next_multiple_of(ALIGNMENT) - size])?;
    }
    out.finish()
}

/// Matrices of whole blocks; llama.cpp wants vectors and tables of positions as they were.
fn as_wanted(name: &str, tensor: &Tensor, to: Dtype) -> Dtype {
    let is_matrix = tensor.shape.len() == 2 && !name.starts_with("position_embd");
    if is_matrix && to.bytes(tensor.row_elements()).is_some() { to } else { tensor.dtype }
}

fn bytes(tensor: &Tensor, dtype: Dtype) -> u64 {
    dtype.bytes(tensor.rows() * tensor.row_elements()).unwrap_or_default()
}
