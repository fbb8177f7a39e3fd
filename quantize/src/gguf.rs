//! Conversion of a GGUF file to a GGUF file: metadata unchanged, matrices in another type.

use super::header::Header;
use super::{OutputFile, bad_type, write_rows};
use foretoken::Result;
use foretoken::internals::weights::{Dtype, Folder, Tensor, Weights};
use std::path::Path;

/// Types that can be written, with llama.cpp's number for a file of this type (`llama_ftype`).
const TYPES: [(Dtype, usize); 8] = [
    (Dtype::F32, 0),
    (Dtype::F16, 1),
    (Dtype::Bf16, 32),
    (Dtype::Q4_0, 2),
    (Dtype::Q4_1, 3),
    (Dtype::Q5_0, 8),
    (Dtype::Q5_1, 9),
    (Dtype::Q8_0, 7),
];
/// Key of that number.
const FILE_TYPE: &str = "general.file_type";
const QUANTIZATION_VERSION: &str = "general.quantization_version";
/// Keys that apply only to the old file.
const OLD: [&str; 3] = [FILE_TYPE, QUANTIZATION_VERSION, "general.alignment"];

/// Returns the type with this name, and a header that names it.
pub(super) fn begin(dtype: &str) -> Result<(Dtype, Header)> {
    let Some((to, number)) = TYPES.into_iter().find(|(to, _)| to.name().eq_ignore_ascii_case(dtype)) else {
        return bad_type(dtype, TYPES.map(|(dtype, _)| dtype.name()).join(", "));
    };
    let mut header = Header::default();
    header.count(FILE_TYPE, number);
    header.count(QUANTIZATION_VERSION, 2);
    Ok((to, header))
}

pub(super) async fn write(source: Folder, file: &str, output: &Path, dtype: &str) -> Result<()> {
    let (to, mut header) = begin(dtype)?;
    let (weights, metadata) = Weights::open_gguf(Box::new(source), file).await?;
    for (key, kind, value) in metadata.entries() {
        if !OLD.contains(&key) && !key.starts_with("split.") {
            header.put(key, kind, value);
        }
    }
    let tensors: Vec<_> = weights
        .iter()
        .map(|(name, tensor)| {
            let dtype = as_wanted(name, tensor, to);
            (name, tensor, dtype, header.tensor(name, &tensor.shape, dtype))
        })
        .collect();
    let mut out = OutputFile::create(output)?;
    out.write_bytes(&header.bytes())?;
    for (name, tensor, dtype, zeros) in tensors {
        write_rows(&weights, name, tensor, dtype, &mut out).await?;
        out.write_bytes(&vec![0; zeros])?;
    }
    out.finish()
}

/// Returns `to` for matrices of whole blocks; llama.cpp requires vectors, position tables and routers unchanged.
fn as_wanted(name: &str, tensor: &Tensor, to: Dtype) -> Dtype {
    let is_kept = name.starts_with("position_embd") || name.contains("ffn_gate_inp");
    let is_matrix = tensor.shape.len() > 1 && !is_kept;
    if is_matrix && to.bytes(tensor.row_elements()).is_some() { to } else { tensor.dtype }
}
