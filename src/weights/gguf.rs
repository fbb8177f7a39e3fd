//! The GGUF format: parses untrusted bytes into checked metadata and tensors, or returns the rule that they break.
//!
//! A file is a header (magic, version, counts, keys with values, tensors with shapes and offsets; all numbers little-endian) and the data
//! in the order of the header, each tensor aligned. Sizes are checked as in `safetensors.rs`. The specification is docs/gguf.md of ggml.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry as Slot;

use super::dtype::Dtype;
use super::metadata::{Metadata, MetadataReader, Stop};
use super::{MAX_DIMS, MAX_TENSORS, Stored, Tensor, check_name, quote};
use crate::error::WeightsRule;

/// Maximum number of metadata keys; models have about forty.
const MAX_KEYS: u64 = 4096;
const ALIGNMENT: u64 = 32;

/// Contents of a header.
pub(super) struct GgufHeader {
    pub metadata: Metadata,
    pub tensors: BTreeMap<String, Stored>,
}

/// Names of tensor types, indexed by type number.
pub(super) const TYPES: [&str; 43] = [
    "F32",
    "F16",
    "Q4_0",
    "Q4_1",
    "Q4_2",
    "Q4_3",
    "Q5_0",
    "Q5_1",
    "Q8_0",
    "Q8_1",
    "Q2_K",
    "Q3_K",
    "Q4_K",
    "Q5_K",
    "Q6_K",
    "Q8_K",
    "IQ2_XXS",
    "IQ2_XS",
    "IQ3_XXS",
    "IQ1_S",
    "IQ4_NL",
    "IQ3_S",
    "IQ2_S",
    "IQ4_XS",
    "I8",
    "I16",
    "I32",
    "I64",
    "F64",
    "IQ1_M",
    "BF16",
    "Q4_0_4_4",
    "Q4_0_4_8",
    "Q4_0_8_8",
    "TQ1_0",
    "TQ2_0",
    "IQ4_NL_4_4",
    "IQ4_NL_4_8",
    "IQ4_NL_8_8",
    "MXFP4",
    "NVFP4",
    "Q1_0",
    "Q2_0",
];

/// Parses the header of a file of `size` bytes from the file's first bytes. Only this function decides whether a file is valid.
pub(super) fn parse(file: &str, bytes: &[u8], size: u64) -> Result<GgufHeader, Stop> {
    let mut reader = MetadataReader::new(bytes, size);
    let magic = reader.take(4)?;
    match magic {
        b"GGUF" => {}
        b"vers" => return Err(WeightsRule::LfsPointer.into()),
        _ => return Err(WeightsRule::NotGguf.into()),
    }
    match reader.u32()? {
        2 | 3 => {}
        version if version.swap_bytes() < 1 << 16 => return Err(WeightsRule::BigEndian.into()),
        version => return Err(WeightsRule::GgufVersion { version }.into()),
    }
    let tensors = reader.u64()?;
    if tensors > MAX_TENSORS as u64 {
        return Err(WeightsRule::TooManyTensors { limit: MAX_TENSORS }.into());
    }
    let keys = reader.u64()?;
    if keys > MAX_KEYS {
        return Err(WeightsRule::TooManyKeys { limit: MAX_KEYS }.into());
    }
    let mut values = BTreeMap::new();
    for _ in 0..keys {
        let (key, field) = reader.key()?;
        match values.entry(key) {
            Slot::Vacant(slot) => slot.insert(field),
            Slot::Occupied(slot) => return Err(WeightsRule::DuplicateKey { key: slot.key().clone() }.into()),
        };
    }
    let infos = (0..tensors).map(|_| info(&mut reader)).collect::<Result<Vec<_>, _>>()?;
    let metadata = Metadata { bytes: bytes.get(..reader.at).unwrap_or_default().to_vec(), values };
    let alignment = match metadata.get("general.alignment") {
        None => ALIGNMENT,
        Some(value) => match value.as_u64().filter(|alignment| alignment.is_power_of_two() && *alignment <= 1 << 20) {
            Some(alignment) => alignment,
            None => return Err(WeightsRule::BadAlignment { alignment: quote(&value.to_string()) }.into()),
        },
    };
    let data = (reader.at as u64).next_multiple_of(alignment);
    let tensors = place(file, infos, alignment, data, size)?;
    Ok(GgufHeader { metadata, tensors })
}

/// Name of a part of a split file: `NAME-00001-of-00003.gguf`.
#[derive(Clone, Copy)]
pub(crate) struct SplitFile<'a> {
    name: &'a str,
    pub parts: u64,
}

impl<'a> SplitFile<'a> {
    /// Parses a file name; `None` if it is not the name of a part.
    pub fn from_name(file: &'a str) -> Option<Self> {
        let (rest, parts) = file.strip_suffix(".gguf")?.rsplit_once("-of-")?;
        let (name, part) = rest.rsplit_once('-')?;
        let five = |digits: &str| digits.len() == 5 && digits.bytes().all(|byte| byte.is_ascii_digit());
        (five(part) && five(parts)).then_some(())?;
        Some(Self { name, parts: parts.parse().ok()? })
    }

    /// Returns the name of part `number`, counted from 0.
    pub fn part(self, number: u64) -> String {
        format!("{}-{:05}-of-{:05}.gguf", self.name, number + 1, self.parts)
    }
}

/// Returns the number of parts, after checking that this file is part `number`, counted from 0. A file that is not split has 1 part.
pub(super) fn parts(metadata: &Metadata, number: u64) -> Result<u64, WeightsRule> {
    let count = |key| metadata.get(key).map(|value| value.as_u64().unwrap_or(u64::MAX));
    match (count("split.no").unwrap_or(0), count("split.count").unwrap_or(0)) {
        (found, _) if found != number => Err(WeightsRule::SplitNumber { expected: number, found }),
        (_, parts) => Ok(parts.max(1)),
    }
}

/// Tensor as described by the header.
struct GgufInfo {
    shape: Vec<u64>,
    kind: u32,
    offset: u64,
}

fn info(reader: &mut MetadataReader) -> Result<(String, GgufInfo), Stop> {
    let name = reader.text()?;
    check_name(name)?;
    let dims = reader.u32()?;
    if dims as usize > MAX_DIMS {
        return Err(WeightsRule::TooManyDims { tensor: name.to_owned(), limit: MAX_DIMS }.into());
    }
    let mut shape = (0..dims).map(|_| reader.u64()).collect::<Result<Vec<_>, _>>()?;
    // The file lists the innermost dimension first.
    shape.reverse();
    Ok((name.to_owned(), GgufInfo { shape, kind: reader.u32()?, offset: reader.u64()? }))
}

/// Returns all tensors. Each must be inside the file, and together they may neither overlap nor leave gaps, so no data can be hidden in the
/// file. A tensor of an unknown type has an unknown length, so a gap after it is not detected.
fn place(
    file: &str,
    mut infos: Vec<(String, GgufInfo)>,
    alignment: u64,
    data: u64,
    size: u64,
) -> Result<BTreeMap<String, Stored>, WeightsRule> {
    infos.sort_by_key(|(_, info)| info.offset);
    let mut tensors = BTreeMap::new();
    let mut covered = Some(data);
    let mut end = data;
    let mut other = String::new();
    for (name, GgufInfo { shape, kind, offset }) in infos {
        let tensor = || name.clone();
        if tensors.contains_key(&name) {
            return Err(WeightsRule::DuplicateTensor { tensor: name });
        }
        if !offset.is_multiple_of(alignment) {
            return Err(WeightsRule::Misaligned { tensor: tensor(), offset, size: alignment });
        }
        let start = data.saturating_add(offset);
        let type_name = usize::try_from(kind).ok().and_then(|kind| TYPES.get(kind));
        let dtype = type_name.and_then(|name| Dtype::of_gguf(name));
        let bytes = dtype.map(|dtype| tensor_bytes(&name, &shape, dtype)).transpose()?;
        let tensor_end = start.saturating_add(bytes.unwrap_or(0));
        if tensor_end > size {
            return Err(WeightsRule::OffsetBeyondFile { tensor: tensor(), end: tensor_end, bytes: size });
        }
        if start < covered.unwrap_or(end) {
            return Err(WeightsRule::Overlap { tensor: tensor(), other });
        }
        if let Some(covered) = covered.filter(|covered| start > *covered) {
            return Err(WeightsRule::Gap { tensor: tensor(), bytes: start - covered });
        }
        end = tensor_end;
        covered = bytes.map(|_| tensor_end.next_multiple_of(alignment));
        other = tensor();
        let file = file.to_owned();
        let stored = match dtype {
            Some(dtype) => Stored::Usable(Tensor { file, dtype, shape, range: start..tensor_end, scales: Vec::new() }),
            None => {
                let dtype = type_name.map_or_else(|| format!("type {kind}"), |name| (*name).to_owned());
                Stored::Other { file, dtype }
            }
        };
        tensors.insert(name, stored);
    }
    match covered {
        Some(covered) if size > covered => Err(WeightsRule::DataTail { bytes: size - covered }),
        _ => Ok(tensors),
    }
}

/// Returns the bytes of a tensor, whose rows must be whole blocks.
fn tensor_bytes(name: &str, shape: &[u64], dtype: Dtype) -> Result<u64, WeightsRule> {
    let tensor = || name.to_owned();
    // A zero dimension counts as 1 here, as in safetensors.rs: it must not hide an overflow of the other dimensions.
    let (elements, block) = (shape.last().copied().unwrap_or(1), dtype.block());
    if !elements.is_multiple_of(block.elements as u64) {
        let (dtype, block) = (dtype.name(), block.elements);
        return Err(WeightsRule::RowNotWholeBlocks { tensor: tensor(), elements, dtype, block });
    }
    let all = shape.iter().try_fold(1_u64, |product, &dim| product.checked_mul(dim.max(1)));
    match all.and_then(|all| all.checked_mul(block.bytes as u64)) {
        None => Err(WeightsRule::SizeOverflow { tensor: tensor() }),
        Some(_) if shape.contains(&0) => Ok(0),
        // The product of all dimensions and the block's bytes did not overflow.
        Some(bytes) => Ok(bytes / block.elements as u64),
    }
}
