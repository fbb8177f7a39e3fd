//! Reads checked tensors from untrusted files. Opening reads and checks headers only; data is read on request.

mod affine;
mod block;
mod dtype;
mod finite;
mod format;
mod gguf;
mod metadata;
mod mxfp4;
mod narrow;
mod parts;
mod safetensors;
mod source;
mod widen;

use std::collections::btree_map::Entry as Slot;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use self::finite::first_non_finite;
use self::source::{broken, read_exact};
use crate::error::{Error, Result, WeightsRule};

pub use self::affine::Quantization;
pub use self::dtype::{Affine, Block, Dtype, Float};
pub use self::format::{Codes, Format, Row, Scales, TOGETHER, UNIT, interleave, pack_row};
pub(crate) use self::gguf::SplitFile;
pub use self::metadata::Metadata;
pub use self::narrow::narrow;
pub(crate) use self::safetensors::parse_index;
#[cfg(not(target_arch = "wasm32"))]
pub use self::source::Folder;
pub use self::source::{InMemory, Reading, Source, read_small};
pub use self::widen::{CodedBlock, Scaling, coded, widen};

pub(crate) const SINGLE: &str = "model.safetensors";
pub(crate) const INDEX: &str = "model.safetensors.index.json";
/// Other files that a model folder may hold.
pub(crate) const SMALL_FILES: [&str; 5] =
    ["config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json", "chat_template.jinja"];
/// Chat template files that few folders hold.
pub(crate) const TEMPLATES: [&str; 3] =
    ["chat_template.json", "additional_chat_templates/tool_use.jinja", "additional_chat_templates/rag.jinja"];
/// Bytes of a GGUF file to read first. The amount is at least doubled each time that the header is longer.
const FIRST_READ: u64 = 1 << 20;

/// Maximum number of tensors of a model, over all files.
const MAX_TENSORS: usize = 65_536;
const MAX_NAME: usize = 256;
const MAX_DIMS: usize = 4;
/// Maximum number of characters that a message quotes from a file.
const MAX_QUOTE: usize = 120;

/// Checked position and type of a tensor. Shape, type and range agree, and the range is inside the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tensor {
    /// File name in the model's folder.
    pub file: String,
    /// Type of the elements.
    pub dtype: Dtype,
    /// Size of each dimension, row-major: at most 4 dimensions, none for a scalar.
    pub shape: Vec<u64>,
    /// Byte range in the file.
    pub range: Range<u64>,
    /// Beginnings of the blocks, if other tensors hold them: scales and biases of [`Dtype::Affine`], or exponents of [`Dtype::Mxfp4`].
    /// `file` and `range` then refer to the codes.
    pub scales: Vec<FilePlace>,
}

/// Byte range of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilePlace {
    /// File name in the model's folder.
    pub file: String,
    /// Byte range in the file.
    pub range: Range<u64>,
}

impl Tensor {
    /// Returns the number of rows: the product of all dimensions but the last, or the elements of a vector; 1 for a scalar.
    pub fn rows(&self) -> u64 {
        match &self.shape[..] {
            [] => 1,
            [elements] => *elements,
            // This cannot overflow: the header check computed the same product, with zeros as ones.
            [rows @ .., _] => rows.iter().product(),
        }
    }

    /// Returns the number of elements per row: the last dimension, or 1 for a vector or a scalar.
    pub fn row_elements(&self) -> u64 {
        if let [_, .., last] = self.shape[..] { last } else { 1 }
    }

    /// Returns the number of bytes in the files.
    pub fn bytes(&self) -> u64 {
        let bytes = |range: &Range<u64>| range.end - range.start;
        bytes(&self.range) + self.scales.iter().map(|place| bytes(&place.range)).sum::<u64>()
    }

    /// Returns the bytes per row. The header parsers check that rows are whole blocks.
    pub fn row_bytes(&self) -> u64 {
        self.dtype.bytes(self.row_elements()).unwrap_or(0)
    }
}

/// Tensor stored in a file.
#[derive(Debug)]
enum Stored {
    Usable(Tensor),
    /// Integers that are codes or exponents of a quantised matrix, if other tensors complete it.
    Integers {
        place: FilePlace,
        dtype: ::safetensors::Dtype,
        shape: Vec<u64>,
    },
    /// Masks, rotary caches and other unsupported types, which are ignored unless the model requests them.
    Other {
        file: String,
        dtype: String,
    },
}

impl Stored {
    fn file(&self) -> &str {
        match self {
            Self::Usable(Tensor { file, .. })
            | Self::Integers { place: FilePlace { file, .. }, .. }
            | Self::Other { file, .. } => file,
        }
    }
}

/// Tensors of a model, in one file or several shards.
pub struct Weights {
    source: Box<dyn Source>,
    /// The opened file: the only one, or the index.
    file: String,
    tensors: BTreeMap<String, Stored>,
}

impl Weights {
    /// Opens `model.safetensors`, or otherwise the shards that `model.safetensors.index.json` names. Reads and checks headers only.
    ///
    /// # Errors
    /// [`Error::NotFound`] if neither file exists, [`Error::BadWeights`] with the first rule that a file breaks, and errors of the source.
    pub async fn open(source: Box<dyn Source>) -> Result<Self> {
        let mut weights = Self { source, file: SINGLE.into(), tensors: BTreeMap::new() };
        if let Some(bytes) = weights.source.size(SINGLE).await? {
            weights.add_file(SINGLE, bytes).await?;
            return weights.joined();
        }
        weights.file = INDEX.into();
        let Some(index) = read_small(&*weights.source, INDEX, safetensors::MAX_HEADER).await? else {
            let reason = format!("neither {SINGLE} nor {INDEX} is there: download the model's safetensors files");
            return Err(Error::NotFound { path: weights.source.name(), reason });
        };
        weights.add_shards(&index).await?;
        weights.joined()
    }

    async fn add_shards(&mut self, index: &[u8]) -> Result<()> {
        let map = parse_index(index).map_err(|rule| broken(INDEX, rule))?;
        let shards: BTreeSet<&str> = map.values().map(String::as_str).collect();
        for shard in shards {
            let Some(bytes) = self.source.size(shard).await? else {
                return Err(broken(INDEX, WeightsRule::MissingShard { shard: shard.to_owned() }));
            };
            self.add_file(shard, bytes).await?;
        }
        for (tensor, shard) in &map {
            if self.tensors.get(tensor).is_none_or(|stored| stored.file() != shard) {
                let (tensor, shard) = (quote(tensor), shard.clone());
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
        let prefix = read_exact(&*self.source, file, 0..safetensors::PREFIX).await?;
        let prefix = prefix.first_chunk().copied().unwrap_or_default();
        let length = safetensors::header_length(prefix, bytes).map_err(refuse)?;
        let header = read_exact(&*self.source, file, safetensors::PREFIX..safetensors::PREFIX + length).await?;
        for (name, entry) in safetensors::parse_header(&header, bytes).map_err(refuse)? {
            let file = file.to_owned();
            let safetensors::Entry { dtype, shape, range } = entry;
            let stored = match usable(dtype) {
                Some(dtype) => Stored::Usable(Tensor { file, dtype, shape, range, scales: Vec::new() }),
                None if matches!(dtype, ::safetensors::Dtype::U32 | ::safetensors::Dtype::U8) => {
                    Stored::Integers { place: FilePlace { file, range }, dtype, shape }
                }
                None => Stored::Other { file, dtype: dtype.to_string() },
            };
            self.add(name, stored).map_err(refuse)?;
        }
        Ok(())
    }

    fn add(&mut self, name: String, stored: Stored) -> Result<(), WeightsRule> {
        if self.tensors.len() >= MAX_TENSORS {
            return Err(WeightsRule::TooManyTensors { limit: MAX_TENSORS });
        }
        match self.tensors.entry(name) {
            Slot::Vacant(slot) => {
                slot.insert(stored);
                Ok(())
            }
            Slot::Occupied(slot) => {
                let (tensor, other) = (slot.key().clone(), slot.get().file().to_owned());
                Err(WeightsRule::DuplicateAcrossShards { tensor, other })
            }
        }
    }

    /// Opens the GGUF file `file`, or all parts if its name is like `NAME-00001-of-0000N.gguf`. Reads and checks headers only. Returns the
    /// metadata of the first part.
    pub async fn open_gguf(source: Box<dyn Source>, file: &str) -> Result<(Self, Metadata)> {
        let split = SplitFile::from_name(file);
        let first = split.map_or_else(|| file.to_owned(), |split| split.part(0));
        let mut weights = Self { source, file: first.clone(), tensors: BTreeMap::new() };
        let metadata = weights.add_gguf(&first).await?;
        let refuse = |rule| broken(&first, rule);
        let parts = gguf::parts(&metadata, 0).map_err(refuse)?;
        if split.map_or(1, |split| split.parts) != parts {
            return Err(refuse(WeightsRule::SplitName { parts }));
        }
        for number in 1..parts {
            let part = split.map_or_else(String::new, |split| split.part(number));
            let found = gguf::parts(&weights.add_gguf(&part).await?, number).map_err(|rule| broken(&part, rule))?;
            if found != parts {
                return Err(broken(&part, WeightsRule::SplitName { parts: found }));
            }
        }
        let found = weights.tensors.len();
        match metadata.get("split.tensors.count").and_then(|count| count.as_u64()) {
            Some(expected) if expected != found as u64 => {
                Err(broken(&first, WeightsRule::SplitTensors { expected, found }))
            }
            _ => Ok((weights, metadata)),
        }
    }

    async fn add_gguf(&mut self, file: &str) -> Result<Metadata> {
        let Some(size) = self.source.size(file).await? else {
            let rule = WeightsRule::MissingShard { shard: file.to_owned() };
            return Err(broken(&self.file, rule));
        };
        let mut bytes = Vec::new();
        let mut end = FIRST_READ.min(size);
        let header = loop {
            let start = bytes.len() as u64;
            bytes.extend(read_exact(&*self.source, file, start..end).await?);
            match gguf::parse(file, &bytes, size) {
                Ok(header) => break header,
                Err(metadata::Stop::More(needed)) => end = needed.max(2 * end).min(size),
                Err(metadata::Stop::Broken(rule)) => return Err(broken(file, rule)),
            }
        };
        for (name, stored) in header.tensors {
            self.add(name, stored).map_err(|rule| broken(file, rule))?;
        }
        Ok(header.metadata)
    }

    /// Returns the source, for reading the model's other files.
    pub fn source(&self) -> &dyn Source {
        &*self.source
    }

    /// Returns the total size in bytes of all files that loading the model reads.
    ///
    /// # Errors
    /// Errors of the source.
    pub async fn download_bytes(&self) -> Result<u64> {
        let mut files: BTreeSet<&str> = self.tensors.values().map(Stored::file).collect();
        files.insert(&self.file);
        if !self.file.ends_with(".gguf") {
            files.extend(SMALL_FILES.iter().chain(&TEMPLATES));
        }
        let mut bytes = 0;
        for file in files {
            bytes += self.source.size(file).await?.unwrap_or(0);
        }
        Ok(bytes)
    }

    /// Returns true if a file holds `name`, in any type. Use this for a tensor that a model may lack, and [`Self::expect`] after it to
    /// report an unsupported type. [`Self::get`] alone would treat such a tensor as missing.
    pub fn contains(&self, name: &str) -> bool {
        self.stored(name).is_some()
    }

    /// Returns the tensor `name`, or `None` if no file holds it in a [`Dtype`].
    pub fn get(&self, name: &str) -> Option<&Tensor> {
        self.find(name).ok()
    }

    /// Returns the tensor `name`, which must have the shape that `config.json` implies.
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

    /// Returns all tensors of usable types, ordered by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Tensor)> {
        self.tensors.iter().filter_map(|(name, stored)| match stored {
            Stored::Usable(tensor) => Some((name.as_str(), tensor)),
            Stored::Integers { .. } | Stored::Other { .. } => None,
        })
    }

    /// Finds a tensor by its name, or by an equivalent name that transformers accepts. A model saved without its head lacks the first part
    /// of the name (GPT-2). The text part of a vision model has another prefix.
    fn stored(&self, name: &str) -> Option<&Stored> {
        let bare = name.split_once('.').map_or(name, |(_, bare)| bare);
        let others = || [bare.into(), format!("language_model.{name}"), format!("model.language_model.{bare}")];
        self.tensors.get(name).or_else(|| others().iter().find_map(|other: &String| self.tensors.get(other)))
    }

    fn find(&self, name: &str) -> Result<&Tensor> {
        tensor_of(self.stored(name), name, &self.file)
    }

    /// Returns the stored bytes of `rows` of a tensor `[rows, ...rest]`: whole blocks, all finite. In a vector, each element is a row.
    ///
    /// All bytes are in memory at once, so request a few rows at a time from a large tensor.
    ///
    /// # Errors
    /// [`Error::BadWeights`] with [`WeightsRule::MissingTensor`], [`WeightsRule::UnsupportedDtype`], [`WeightsRule::RowsOutOfRange`], or
    /// [`WeightsRule::NonFinite`] with the element's index in the whole tensor; and errors of the source.
    pub async fn read_rows(&self, name: &str, rows: Range<u64>) -> Result<Vec<u8>> {
        let tensor = self.find(name)?;
        let Tensor { file, dtype, .. } = tensor;
        if rows.start > rows.end || rows.end > tensor.rows() {
            let Range { start, end } = rows;
            let rule = WeightsRule::RowsOutOfRange { tensor: name.to_owned(), start, end, rows: tensor.rows() };
            return Err(broken(file, rule));
        }
        let elements = tensor.row_elements();
        let bytes = match tensor.scales.is_empty() {
            true => self.part(file, &tensor.range, tensor.row_bytes(), &rows).await?,
            false => self.blocks(tensor, &rows).await?,
        };
        match first_non_finite(*dtype, &bytes) {
            Some(index) => {
                let index = rows.start * elements + index;
                Err(broken(file, WeightsRule::NonFinite { tensor: name.to_owned(), index }))
            }
            None => Ok(bytes),
        }
    }

    /// Reads `rows`, of `row_bytes` each, from the data at `range`. The arguments must be consistent.
    async fn part(&self, file: &str, range: &Range<u64>, row_bytes: u64, rows: &Range<u64>) -> Result<Vec<u8>> {
        // This does not overflow: for all rows together, `at` returns the end of the range.
        let at = |row| range.start + row * row_bytes;
        read_exact(&*self.source, file, at(rows.start)..at(rows.end)).await
    }

    /// Reads a whole small tensor as f32, row-major, all finite.
    pub async fn read_f32(&self, name: &str) -> Result<Vec<f32>> {
        let tensor = self.find(name)?;
        Ok(widen(tensor.dtype, &self.read_rows(name, 0..tensor.rows()).await?))
    }
}

/// Returns a required tensor. An error for a missing tensor names `file`.
fn tensor_of<'a>(stored: Option<&'a Stored>, name: &str, file: &str) -> Result<&'a Tensor> {
    let tensor = name.to_owned();
    match stored {
        Some(Stored::Usable(tensor)) => Ok(tensor),
        Some(Stored::Integers { place, dtype, .. }) => {
            Err(broken(&place.file, WeightsRule::UnsupportedDtype { tensor, dtype: dtype.to_string() }))
        }
        Some(Stored::Other { file, dtype }) => {
            Err(broken(file, WeightsRule::UnsupportedDtype { tensor, dtype: dtype.clone() }))
        }
        None => Err(broken(file, WeightsRule::MissingTensor { tensor })),
    }
}

fn check_name(name: &str) -> Result<(), WeightsRule> {
    match name {
        "" => Err(WeightsRule::EmptyName),
        _ if name.len() > MAX_NAME => Err(WeightsRule::LongName { bytes: name.len(), limit: MAX_NAME }),
        _ if name.contains(char::is_control) => Err(WeightsRule::ControlInName { tensor: quote(name) }),
        _ => Ok(()),
    }
}

/// Shortens and escapes text from a file for a message: one line, without control characters.
fn quote(text: &str) -> String {
    let cut = text.chars().nth(MAX_QUOTE).map_or("", |_| "...");
    text.chars().take(MAX_QUOTE).flat_map(char::escape_debug).chain(cut.chars()).collect()
}

/// Returns true if the model has the files that [`Weights::open`] opens.
///
/// # Errors
/// Errors of the source.
pub async fn has_safetensors(source: &dyn Source) -> Result<bool> {
    Ok(source.size(SINGLE).await?.is_some() || source.size(INDEX).await?.is_some())
}

/// Returns the type, if safetensors files can be used in it without conversion.
fn usable(stored: ::safetensors::Dtype) -> Option<Dtype> {
    match stored {
        ::safetensors::Dtype::F32 => Some(Dtype::F32),
        ::safetensors::Dtype::F16 => Some(Dtype::F16),
        ::safetensors::Dtype::BF16 => Some(Dtype::Bf16),
        _ => None,
    }
}
