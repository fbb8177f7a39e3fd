//! Untrusted bytes become checked tensors: headers are read and checked on opening, data only when it is asked for.

mod safetensors;
mod source;

use std::collections::BTreeMap;
use std::collections::btree_map::Entry as Slot;
use std::ops::Range;

use half::{bf16, f16};

use self::source::{broken, read_exact};
use crate::error::{Error, Result, WeightsRule};
use serde::Serialize;

#[cfg(not(target_arch = "wasm32"))]
pub use self::source::Folder;
pub use self::source::{Memory, Source, read_small};

const SINGLE: &str = "model.safetensors";
const INDEX: &str = "model.safetensors.index.json";

/// The number types of weights that can be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Dtype {
    /// IEEE 754 single precision.
    F32,
    /// IEEE 754 half precision.
    F16,
    /// The upper half of an f32.
    Bf16,
}

impl Dtype {
    /// Bytes of one element.
    pub fn size(self) -> u64 {
        match self {
            Self::F32 => 4,
            Self::F16 | Self::Bf16 => 2,
        }
    }

    /// As safetensors writes it.
    pub fn name(self) -> &'static str {
        match self {
            Self::F32 => "F32",
            Self::F16 => "F16",
            Self::Bf16 => "BF16",
        }
    }

    fn of(stored: ::safetensors::Dtype) -> Option<Self> {
        match stored {
            ::safetensors::Dtype::F32 => Some(Self::F32),
            ::safetensors::Dtype::F16 => Some(Self::F16),
            ::safetensors::Dtype::BF16 => Some(Self::Bf16),
            _ => None,
        }
    }
}

/// Where a tensor lies, and as what. It was checked: shape, type and range agree, and the range is inside the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tensor {
    /// The file's name in the model's folder.
    pub file: String,
    /// The type of its elements.
    pub dtype: Dtype,
    /// Elements by dimension, row-major; at most 4 dimensions, none for a scalar.
    pub shape: Vec<u64>,
    /// Bytes, from the beginning of the file.
    pub range: Range<u64>,
}

impl Tensor {
    /// Rows, which is the first dimension; 1 for a scalar.
    pub fn rows(&self) -> u64 {
        self.shape.first().copied().unwrap_or(1)
    }

    /// Elements of a row, which is the product of the other dimensions.
    pub fn row_elements(&self) -> u64 {
        // It cannot overflow: the header's check took the same product, with zeros as ones.
        self.shape.iter().skip(1).product()
    }
}

/// A tensor that a file holds.
#[derive(Debug)]
enum Stored {
    Usable(Tensor),
    /// Masks, rotary caches and the like: no harm as long as the model does not ask for them.
    Other {
        file: String,
        dtype: ::safetensors::Dtype,
    },
}

impl Stored {
    fn file(&self) -> &str {
        match self {
            Self::Usable(Tensor { file, .. }) | Self::Other { file, .. } => file,
        }
    }
}

/// The tensors of a model, in one file or in several shards.
#[derive(Debug)]
pub struct Weights<S> {
    source: S,
    /// The file that was opened: the only one, or the index.
    file: &'static str,
    tensors: BTreeMap<String, Stored>,
}

impl<S: Source> Weights<S> {
    /// Opens `model.safetensors`, or else the shards that `model.safetensors.index.json` names; reads and checks headers only.
    ///
    /// # Errors
    /// [`Error::NotFound`] when neither is there, [`Error::BadWeights`] with the first rule that a file breaks, and those of the source.
    pub async fn open(source: S) -> Result<Self> {
        let mut weights = Self { source, file: SINGLE, tensors: BTreeMap::new() };
        if let Some(bytes) = weights.source.size(SINGLE).await? {
            weights.add_file(SINGLE, bytes).await?;
            return Ok(weights);
        }
        weights.file = INDEX;
        let Some(index) = read_small(&weights.source, INDEX, safetensors::MAX_HEADER).await? else {
            let reason = format!("neither {SINGLE} nor {INDEX} is there: download the model's safetensors files");
            return Err(Error::NotFound { path: weights.source.name(), reason });
        };
        weights.add_shards(&index).await?;
        Ok(weights)
    }

    async fn add_shards(&mut self, index: &[u8]) -> Result<()> {
        let map = safetensors::parse_index(index).map_err(|rule| broken(INDEX, rule))?;
        let mut shards: Vec<_> = map.values().collect();
        shards.sort_unstable();
        shards.dedup();
        for shard in shards {
            let Some(bytes) = self.source.size(shard).await? else {
                return Err(broken(INDEX, WeightsRule::MissingShard { shard: shard.clone() }));
            };
            self.add_file(shard, bytes).await?;
        }
        for (tensor, shard) in &map {
            if self.tensors.get(tensor).is_none_or(|stored| stored.file() != shard) {
                let (tensor, shard) = (safetensors::quote(tensor), shard.clone());
                return Err(broken(INDEX, WeightsRule::TensorNotInShard { tensor, shard }));
            }
        }
        Ok(())
    }

    async fn add_file(&mut self, file: &str, bytes: u64) -> Result<()> {
        let refuse = |rule| broken(file, rule);
        if bytes < safetensors::PREFIX {
            return Err(refuse(WeightsRule::FileTooShort { bytes }));
        }
        let prefix = read_exact(&self.source, file, 0..safetensors::PREFIX).await?;
        let prefix = prefix.first_chunk().copied().unwrap_or_default();
        let length = safetensors::header_length(prefix, bytes).map_err(refuse)?;
        let header = read_exact(&self.source, file, safetensors::PREFIX..safetensors::PREFIX + length).await?;
        for (name, entry) in safetensors::parse_header(&header, bytes).map_err(refuse)? {
            let file = file.to_owned();
            let stored = match Dtype::of(entry.dtype) {
                Some(dtype) => Stored::Usable(Tensor { file, dtype, shape: entry.shape, range: entry.range }),
                None => Stored::Other { file, dtype: entry.dtype },
            };
            if self.tensors.len() >= safetensors::MAX_TENSORS {
                return Err(refuse(WeightsRule::TooManyTensors { limit: safetensors::MAX_TENSORS }));
            }
            match self.tensors.entry(name) {
                Slot::Vacant(slot) => slot.insert(stored),
                Slot::Occupied(slot) => {
                    let (tensor, other) = (slot.key().clone(), slot.get().file().to_owned());
                    return Err(refuse(WeightsRule::DuplicateAcrossShards { tensor, other }));
                }
            };
        }
        Ok(())
    }

    /// Where the files come from, for the other files of the model.
    pub fn source(&self) -> &S {
        &self.source
    }

    /// Whether a file holds `name`, in any type. The question for a tensor that a model may lack: the answer yes, followed by
    /// [`Self::expect`], reports a type that cannot be used, where [`Self::get`] alone would take the tensor for missing.
    pub fn contains(&self, name: &str) -> bool {
        self.stored(name).is_some()
    }

    /// The tensor `name`, or `None` when no file holds it in a [`Dtype`].
    pub fn get(&self, name: &str) -> Option<&Tensor> {
        self.find(name).ok()
    }

    /// The tensor `name`, with the shape that `config.json` implies.
    ///
    /// # Errors
    /// [`Error::BadWeights`] with [`WeightsRule::MissingTensor`], [`WeightsRule::UnsupportedDtype`] or [`WeightsRule::WrongShape`].
    pub fn expect(&self, name: &str, shape: &[u64]) -> Result<&Tensor> {
        let tensor = self.find(name)?;
        if tensor.shape == shape {
            return Ok(tensor);
        }
        let (found, expected) = (tensor.shape.clone(), shape.to_vec());
        Err(broken(&tensor.file, WeightsRule::WrongShape { tensor: name.to_owned(), found, expected }))
    }

    /// All tensors that can be used, ordered by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Tensor)> {
        self.tensors.iter().filter_map(|(name, stored)| match stored {
            Stored::Usable(tensor) => Some((name.as_str(), tensor)),
            Stored::Other { .. } => None,
        })
    }

    /// By its name, or else by one that transformers takes for the same: that of a model saved without its head, which lacks
    /// the first part (GPT-2), or of the text part of a model that sees too.
    fn stored(&self, name: &str) -> Option<&Stored> {
        let bare = name.split_once('.').map_or(name, |(_, bare)| bare);
        let others = || [bare.into(), format!("language_model.{name}"), format!("model.language_model.{bare}")];
        self.tensors.get(name).or_else(|| others().iter().find_map(|other: &String| self.tensors.get(other)))
    }

    fn find(&self, name: &str) -> Result<&Tensor> {
        let tensor = name.to_owned();
        match self.stored(name) {
            Some(Stored::Usable(tensor)) => Ok(tensor),
            Some(Stored::Other { file, dtype }) => {
                Err(broken(file, WeightsRule::UnsupportedDtype { tensor, dtype: dtype.to_string() }))
            }
            None => Err(broken(self.file, WeightsRule::MissingTensor { tensor })),
        }
    }

    /// The raw little-endian bytes of `rows` of a tensor `[rows, ...rest]`, all finite; each element of a vector is a row of its own.
    ///
    /// Takes as much memory as the rows have bytes: ask for few at a time when the tensor is large.
    ///
    /// # Errors
    /// [`Error::BadWeights`] with [`WeightsRule::MissingTensor`], [`WeightsRule::UnsupportedDtype`], [`WeightsRule::RowsOutOfRange`], or
    /// [`WeightsRule::NonFinite`] with the element's index in the whole tensor; and those of the source.
    pub async fn read_rows(&self, name: &str, rows: Range<u64>) -> Result<Vec<u8>> {
        let tensor = self.find(name)?;
        let Tensor { file, dtype, .. } = tensor;
        if rows.start > rows.end || rows.end > tensor.rows() {
            let Range { start, end } = rows;
            let rule = WeightsRule::RowsOutOfRange { tensor: name.to_owned(), start, end, rows: tensor.rows() };
            return Err(broken(file, rule));
        }
        // None of this overflows: with all rows it would be the end of the tensor.
        let elements = tensor.row_elements();
        let at = |row| tensor.range.start + row * elements * dtype.size();
        let bytes = read_exact(&self.source, file, at(rows.start)..at(rows.end)).await?;
        match first_non_finite(*dtype, &bytes) {
            Some(index) => {
                let index = rows.start * elements + index;
                Err(broken(file, WeightsRule::NonFinite { tensor: name.to_owned(), index }))
            }
            None => Ok(bytes),
        }
    }

    /// A whole small tensor, row-major, widened to f32, all finite.
    ///
    /// # Errors
    /// As [`Self::read_rows`].
    pub async fn read_f32(&self, name: &str) -> Result<Vec<f32>> {
        let tensor = self.find(name)?;
        Ok(widen(tensor.dtype, &self.read_rows(name, 0..tensor.rows()).await?))
    }
}

/// Little-endian elements as f32, exactly; bytes behind the last whole element are ignored.
pub fn widen(dtype: Dtype, bytes: &[u8]) -> Vec<f32> {
    let halves = || bytes.as_chunks::<2>().0.iter();
    match dtype {
        Dtype::F32 => bytes.as_chunks::<4>().0.iter().map(|&word| f32::from_le_bytes(word)).collect(),
        Dtype::F16 => halves().map(|&half| f16::from_le_bytes(half).to_f32()).collect(),
        Dtype::Bf16 => halves().map(|&half| bf16::from_le_bytes(half).to_f32()).collect(),
    }
}

/// The index of the first element that is NaN or infinite.
///
/// All weights pass through here, so it looks at 8 bytes at once, with or without SIMD: an element is not finite when all bits of its
/// exponent are set, and then, without its sign, adding one to the exponent carries into the place of the sign.
fn first_non_finite(dtype: Dtype, bytes: &[u8]) -> Option<u64> {
    const BLOCK: usize = 512;
    let (signs, one) = match dtype {
        Dtype::F32 => (0x8000_0000_8000_0000_u64, 0x0080_0000_0080_0000),
        Dtype::F16 => (0x8000_8000_8000_8000, 0x0400_0400_0400_0400),
        Dtype::Bf16 => (0x8000_8000_8000_8000, 0x0080_0080_0080_0080),
    };
    let carries = |word: &[u8; 8]| ((u64::from_le_bytes(*word) & !signs) + one) & signs;
    let (words, tail) = bytes.as_chunks::<8>();
    let mut last = [0; 8];
    last.iter_mut().zip(tail).for_each(|(to, from)| *to = *from);
    // A block is summed up without a branch, which compilers turn into vector instructions.
    let suspect = words.chunks(BLOCK).position(|block| block.iter().fold(0, |all, word| all | carries(word)) != 0);
    let start = suspect.map_or(words.len(), |block| BLOCK * block);
    words.iter().skip(start).chain([&last]).zip(start as u64..).find_map(|(word, at)| {
        let found = carries(word);
        (found != 0).then(|| (8 * at + u64::from(found.trailing_zeros() / 8)) / dtype.size())
    })
}
