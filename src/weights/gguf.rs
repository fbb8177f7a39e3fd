//! The GGUF format: bytes that nobody vouches for become checked metadata and a checked table of tensors, or the rule that they break.
//!
//! A file is a header (magic, version, counts, keys with their values, tensors with their shapes and offsets; all numbers little-endian)
//! and the data, in the order of the header, each tensor aligned. As in `safetensors.rs`, everything is counted in checked `u64` and
//! checked against a limit before memory is taken for it. The specification is docs/gguf.md of the ggml repository.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry as Slot;
use std::ops::Range;

use serde_json::Value;

use super::dtype::Dtype;
use super::{MAX_DIMS, MAX_TENSORS, Stored, Tensor, check_name, quote};
use crate::error::WeightsRule;

/// Bytes of a header, vocabulary included; that of Gemma 3 has 7 MiB without merges.
const MAX_HEADER: u64 = 64 << 20;
/// Keys of the metadata; models have some forty.
const MAX_KEYS: u64 = 4096;
/// Arrays in arrays.
const MAX_DEPTH: usize = 4;
/// Bytes that the data and each tensor begin at a multiple of, unless the metadata says otherwise.
const ALIGNMENT: u64 = 32;

/// Why a header could not be read from the bytes at hand.
pub(super) enum Stop {
    /// They end too early: it needs the file's bytes up to here at least.
    More(u64),
    /// It breaks a rule.
    Broken(WeightsRule),
}

impl From<WeightsRule> for Stop {
    fn from(rule: WeightsRule) -> Self {
        Self::Broken(rule)
    }
}

/// What a header says.
pub(super) struct Header {
    pub metadata: Metadata,
    pub tensors: BTreeMap<String, Stored>,
}

/// The keys and values in front of the tensors. A value stays as it is in the file until it is asked for, because a vocabulary is large.
#[derive(Debug)]
pub struct Metadata {
    bytes: Vec<u8>,
    values: BTreeMap<String, Field>,
}

/// Where a value lies in the header.
#[derive(Debug)]
struct Field {
    kind: u32,
    range: Range<usize>,
}

impl Metadata {
    /// The value of a key; arrays of arrays and what JSON cannot say, such as infinity, are null.
    pub fn get(&self, key: &str) -> Option<Value> {
        let (kind, mut reader) = self.find(key)?;
        reader.value(kind).ok()
    }

    /// The texts of an array; none where the key has something else.
    pub fn texts(&self, key: &str) -> Option<impl ExactSizeIterator<Item = &str>> {
        let (count, mut reader) = self.array(key, |kind| kind == TEXT)?;
        Some((0..count).map(move |_| reader.text().unwrap_or_default()))
    }

    /// The numbers of an array; none where the key has something else.
    pub fn numbers(&self, key: &str) -> Option<impl ExactSizeIterator<Item = f64>> {
        let mut number = 0;
        let (count, mut reader) = self.array(key, |kind| {
            number = kind;
            kind != TEXT && kind != ARRAY && kind != BOOL
        })?;
        Some((0..count).map(move |_| reader.value(number).ok().and_then(|value| value.as_f64()).unwrap_or(f64::NAN)))
    }

    /// Each key, in order, with the number of its type and the bytes of its value.
    pub fn entries(&self) -> impl Iterator<Item = (&str, u32, &[u8])> {
        let value = |range: &Range<usize>| self.bytes.get(range.clone()).unwrap_or_default();
        self.values.iter().map(move |(key, field)| (key.as_str(), field.kind, value(&field.range)))
    }

    fn find(&self, key: &str) -> Option<(u32, Reader<'_>)> {
        let Field { kind, range } = self.values.get(key)?;
        let bytes = self.bytes.get(range.clone())?;
        Some((*kind, Reader { bytes, at: 0, size: bytes.len() as u64 }))
    }

    fn array(&self, key: &str, mut is_wanted: impl FnMut(u32) -> bool) -> Option<(usize, Reader<'_>)> {
        let (ARRAY, mut reader) = self.find(key)? else { return None };
        let kind = reader.u32().ok()?;
        let count = reader.u64().ok()?;
        is_wanted(kind).then_some((usize::try_from(count).ok()?, reader))
    }
}

const BOOL: u32 = 7;
const TEXT: u32 = 8;
const ARRAY: u32 = 9;

/// Bytes of a value; none where it has no fixed size, an error where there is no such type.
fn value_size(kind: u32) -> Result<Option<u64>, String> {
    match kind {
        0 | 1 | BOOL => Ok(Some(1)),
        2 | 3 => Ok(Some(2)),
        4..=6 => Ok(Some(4)),
        10..=12 => Ok(Some(8)),
        TEXT | ARRAY => Ok(None),
        _ => Err(format!("a value of the unknown type {kind}")),
    }
}

/// The types of tensors, by their numbers.
pub(super) const TYPES: [&str; 41] = [
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
];

/// The header of a file of `size` bytes in all, from its first bytes: the one place that decides whether a file is valid.
pub(super) fn parse(file: &str, bytes: &[u8], size: u64) -> Result<Header, Stop> {
    let mut reader = Reader { bytes, at: 0, size };
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
    let mut infos = BTreeMap::new();
    for _ in 0..tensors {
        let (name, info) = reader.info()?;
        match infos.entry(name) {
            Slot::Vacant(slot) => slot.insert(info),
            Slot::Occupied(slot) => return Err(WeightsRule::DuplicateTensor { tensor: slot.key().clone() }.into()),
        };
    }
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
    Ok(Header { metadata, tensors })
}

/// The name of a part of a split file: `NAME-00001-of-00003.gguf`.
#[derive(Clone, Copy)]
pub(crate) struct Split<'a> {
    name: &'a str,
    pub parts: u64,
}

impl<'a> Split<'a> {
    /// None where the file is not called so.
    pub fn of(file: &'a str) -> Option<Self> {
        let (rest, parts) = file.strip_suffix(".gguf")?.rsplit_once("-of-")?;
        let (name, part) = rest.rsplit_once('-')?;
        let five = |digits: &str| digits.len() == 5 && digits.bytes().all(|byte| byte.is_ascii_digit());
        (five(part) && five(parts)).then_some(())?;
        Some(Self { name, parts: parts.parse().ok()? })
    }

    /// The name of a part, counted from 0.
    pub fn part(self, number: u64) -> String {
        format!("{}-{:05}-of-{:05}.gguf", self.name, number + 1, self.parts)
    }
}

/// How many parts the file is one of that should be number `number`, counted from 0: 1 where it is whole.
pub(super) fn parts(metadata: &Metadata, number: u64) -> Result<u64, WeightsRule> {
    let count = |key| metadata.get(key).map(|value| value.as_u64().unwrap_or(u64::MAX));
    match (count("split.no").unwrap_or(0), count("split.count").unwrap_or(0)) {
        (found, _) if found != number => Err(WeightsRule::SplitNumber { expected: number, found }),
        (_, parts) => Ok(parts.max(1)),
    }
}

/// A tensor as the header describes it.
struct Info {
    shape: Vec<u64>,
    kind: u32,
    offset: u64,
}

/// All tensors: each inside the file, and all together without overlap and without holes, so that nothing can hide in the file. How
/// long one of an unknown type is, nobody can tell.
fn place(
    file: &str,
    infos: BTreeMap<String, Info>,
    alignment: u64,
    data: u64,
    size: u64,
) -> Result<BTreeMap<String, Stored>, WeightsRule> {
    let mut in_order: Vec<_> = infos.into_iter().collect();
    in_order.sort_by_key(|(_, info)| info.offset);
    let mut tensors = BTreeMap::new();
    let mut covered = Some(data);
    let mut end = data;
    let mut other = String::new();
    for (name, Info { shape, kind, offset }) in in_order {
        let tensor = || name.clone();
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
            Some(dtype) => Stored::Usable(Tensor { file, dtype, shape, range: start..tensor_end, scales: None }),
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

/// Bytes of a tensor: those of its rows, each of whole blocks.
fn tensor_bytes(name: &str, shape: &[u64], dtype: Dtype) -> Result<u64, WeightsRule> {
    let tensor = || name.to_owned();
    // A zero counts as one here, as in safetensors.rs: it must not hide an overflow of the other dimensions.
    let (elements, block) = (shape.last().copied().unwrap_or(1), dtype.block());
    if !elements.is_multiple_of(block.elements as u64) {
        let (dtype, block) = (dtype.name(), block.elements);
        return Err(WeightsRule::RowNotWholeBlocks { tensor: tensor(), elements, dtype, block });
    }
    let all = shape.iter().try_fold(1_u64, |product, &dim| product.checked_mul(dim.max(1)));
    match all.and_then(|all| all.checked_mul(block.bytes as u64)) {
        None => Err(WeightsRule::SizeOverflow { tensor: tensor() }),
        Some(_) if shape.contains(&0) => Ok(0),
        // The product of all dimensions, times a block's bytes, was no overflow.
        Some(bytes) => Ok(bytes / block.elements as u64),
    }
}

/// Walks over a header.
struct Reader<'a> {
    /// The first bytes of the file, or all of a value.
    bytes: &'a [u8],
    at: usize,
    /// Bytes of the whole file.
    size: u64,
}

impl<'a> Reader<'a> {
    fn take(&mut self, bytes: u64) -> Result<&'a [u8], Stop> {
        let end = (self.at as u64).saturating_add(bytes);
        if end > self.size {
            return Err(WeightsRule::HeaderCut { end, bytes: self.size }.into());
        }
        if end > MAX_HEADER {
            return Err(WeightsRule::HeaderTooLarge { bytes: end, limit: MAX_HEADER }.into());
        }
        // It fits, because the limit does.
        let end = end as usize;
        let part = self.bytes.get(self.at..end).ok_or(Stop::More(end as u64))?;
        self.at = end;
        Ok(part)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Stop> {
        Ok(self.take(N as u64)?.first_chunk().copied().unwrap_or([0; N]))
    }

    fn u32(&mut self) -> Result<u32, Stop> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Result<u64, Stop> {
        self.array().map(u64::from_le_bytes)
    }

    fn text(&mut self) -> Result<&'a str, Stop> {
        let bytes = self.u64()?;
        std::str::from_utf8(self.take(bytes)?).map_err(|_| WeightsRule::HeaderNotUtf8.into())
    }

    fn key(&mut self) -> Result<(String, Field), Stop> {
        let key = self.text()?;
        check_name(key)?;
        let kind = self.u32()?;
        let start = self.at;
        self.skip(kind, 0).map_err(|stop| match stop {
            Ok(stop) => stop,
            Err(reason) => WeightsRule::BadValue { key: key.to_owned(), reason }.into(),
        })?;
        Ok((key.to_owned(), Field { kind, range: start..self.at }))
    }

    /// Walks over a value, checking it; the error is a reason where it is the value that is wrong.
    fn skip(&mut self, kind: u32, depth: usize) -> Result<(), Result<Stop, String>> {
        let mut inner = kind;
        let mut count = 1;
        if kind == ARRAY {
            if depth == MAX_DEPTH {
                return Err(Err(format!("more than {MAX_DEPTH} arrays in one another")));
            }
            inner = self.u32().map_err(Ok)?;
            count = self.u64().map_err(Ok)?;
        }
        match value_size(inner).map_err(Err)? {
            Some(size) => {
                let bytes = self.take(count.saturating_mul(size)).map_err(Ok)?;
                if inner == BOOL && bytes.iter().any(|byte| *byte > 1) {
                    return Err(Err("a bool that is neither 0 nor 1".into()));
                }
            }
            // Each takes some bytes, so the file's end ends this.
            None if inner == TEXT => {
                for _ in 0..count {
                    self.text().map_err(Ok)?;
                }
            }
            None => {
                for _ in 0..count {
                    self.skip(ARRAY, depth + 1)?;
                }
            }
        }
        Ok(())
    }

    /// A value that [`Self::skip`] approved of.
    fn value(&mut self, kind: u32) -> Result<Value, Stop> {
        Ok(match kind {
            0 => self.array().map(u8::from_le_bytes)?.into(),
            1 => self.array().map(i8::from_le_bytes)?.into(),
            2 => self.array().map(u16::from_le_bytes)?.into(),
            3 => self.array().map(i16::from_le_bytes)?.into(),
            4 => self.u32()?.into(),
            5 => self.array().map(i32::from_le_bytes)?.into(),
            // What was written as 1e-5 in a config is 1e-5 again, and not the f32 next to it.
            6 => {
                let number = self.array().map(f32::from_le_bytes)?;
                number.to_string().parse::<f64>().map_or(Value::Null, Value::from)
            }
            BOOL => (self.array()? != [0]).into(),
            TEXT => self.text()?.into(),
            10 => self.u64()?.into(),
            11 => self.array().map(i64::from_le_bytes)?.into(),
            12 => self.array().map(f64::from_le_bytes)?.into(),
            ARRAY => {
                let inner = self.u32()?;
                let count = self.u64()?;
                if inner == ARRAY {
                    return Ok(Value::Null);
                }
                (0..count).map(|_| self.value(inner)).collect::<Result<Vec<_>, _>>()?.into()
            }
            _ => Value::Null,
        })
    }

    fn info(&mut self) -> Result<(String, Info), Stop> {
        let name = self.text()?;
        check_name(name)?;
        let dims = self.u32()?;
        if dims as usize > MAX_DIMS {
            return Err(WeightsRule::TooManyDims { tensor: name.to_owned(), limit: MAX_DIMS }.into());
        }
        let mut shape = (0..dims).map(|_| self.u64()).collect::<Result<Vec<_>, _>>()?;
        // The file names the innermost dimension first.
        shape.reverse();
        Ok((name.to_owned(), Info { shape, kind: self.u32()?, offset: self.u64()? }))
    }
}
