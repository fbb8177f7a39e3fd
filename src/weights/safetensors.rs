//! The safetensors format: parses untrusted bytes into a checked tensor table, or returns the rule that they break.
//!
//! A file is the header's length (8 bytes, little-endian), the header (a JSON object: name -> dtype, shape, offsets), and the data, which
//! the tensors must cover exactly. Sizes are checked `u64` numbers, because `usize` has 32 bits in the browser, and compared with limits.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;

use safetensors::Dtype;
use serde::Deserialize;
use serde::de::value::StrDeserializer;
use serde::de::{Deserializer, Error as _, MapAccess, Visitor};
use serde_json::Error;
use serde_json::value::RawValue;

use super::{MAX_DIMS, MAX_NAME, MAX_TENSORS, check_name, quote};
use crate::error::WeightsRule;

/// Bytes before the header, which hold its length.
pub(super) const PREFIX: u64 = 8;
/// Maximum size of a header or index, in bytes. The largest models need 1 MiB.
pub(super) const MAX_HEADER: u64 = 16 << 20;

/// Checked tensor of the header.
#[derive(Debug)]
pub(super) struct Entry {
    pub dtype: Dtype,
    pub shape: Vec<u64>,
    /// Byte range in the file.
    pub range: Range<u64>,
}

/// Returns the length of the header, given the first 8 bytes of a file of `bytes` bytes.
pub(super) fn header_length(prefix: [u8; 8], bytes: u64) -> Result<u64, WeightsRule> {
    // A Git LFS pointer starts with "version https://git-lfs...". Read as a length, this would only be reported as too large.
    if &prefix == b"version " {
        return Err(WeightsRule::LfsPointer);
    }
    let length = u64::from_le_bytes(prefix);
    let left = bytes.saturating_sub(PREFIX);
    match length {
        0 => Err(WeightsRule::EmptyHeader),
        _ if length > MAX_HEADER => Err(WeightsRule::HeaderTooLarge { bytes: length, limit: MAX_HEADER }),
        _ if length > left => Err(WeightsRule::HeaderBeyondFile { bytes: length, left }),
        _ => Ok(length),
    }
}

/// Parses the header of a file of `bytes` bytes into its tensors. Only this function decides whether a file is valid.
pub(super) fn parse_header(header: &[u8], bytes: u64) -> Result<Vec<(String, Entry)>, WeightsRule> {
    let data = PREFIX + header.len() as u64..bytes;
    let mut entries = Vec::new();
    for (name, info) in read_entries(header)? {
        let entry = check(&name, info, &data)?;
        entries.push((name, entry));
    }
    check_cover(&entries, &data)?;
    Ok(entries)
}

/// Parses an index into a map from tensor to shard.
pub(crate) fn parse_index(index: &[u8]) -> Result<BTreeMap<String, String>, WeightsRule> {
    let weight_map = || {
        let Members(index) = serde_json::from_str(std::str::from_utf8(index).map_err(Error::custom)?)?;
        let mut maps = index.iter().filter(|(key, _)| key == "weight_map");
        match [maps.next(), maps.next()] {
            [Some((_, map)), None] => strings(map),
            _ => Err(Error::custom("it must have one weight_map")),
        }
    };
    let map = weight_map().map_err(|error| WeightsRule::BadIndex { reason: quote(&error.to_string()) })?;
    match map.values().find(|shard| !is_shard_name(shard)) {
        Some(shard) => Err(WeightsRule::ShardName { shard: quote(shard) }),
        None => Ok(map),
    }
}

/// Returns true for an allowed shard name. This is an allow list, because the name becomes part of a path or URL.
fn is_shard_name(name: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    name.len() <= MAX_NAME && name.ends_with(".safetensors") && !name.contains("..") && name.bytes().all(allowed)
}

/// Checks the type, shape and position of one tensor. `data` is the range of the data in the file.
fn check(name: &str, info: TensorInfo, data: &Range<u64>) -> Result<Entry, WeightsRule> {
    let tensor = name.to_owned();
    let Some((dtype, size)) = parse_dtype(&info.dtype) else {
        return Err(WeightsRule::UnknownDtype { tensor, dtype: quote(&info.dtype) });
    };
    let shape = info.shape;
    if shape.len() > MAX_DIMS {
        return Err(WeightsRule::TooManyDims { tensor, limit: MAX_DIMS });
    }
    // A zero dimension counts as 1 here: it must not hide an overflow of the other dimensions, whose product is the row size.
    let Some(mut expected) = shape.iter().try_fold(size, |product, &dim| product.checked_mul(dim.max(1))) else {
        return Err(WeightsRule::SizeOverflow { tensor });
    };
    if shape.contains(&0) {
        expected = 0;
    }
    let &[start, end] = info.data_offsets.as_slice() else {
        let reason = "data_offsets has to hold two numbers".to_owned();
        return Err(WeightsRule::BadTensorInfo { tensor, reason });
    };
    let Some(found) = end.checked_sub(start) else {
        return Err(WeightsRule::OffsetsReversed { tensor });
    };
    let absolute_end = data.start.saturating_add(end);
    if absolute_end > data.end {
        return Err(WeightsRule::OffsetBeyondFile { tensor, end: absolute_end, bytes: data.end });
    }
    if found != expected {
        return Err(WeightsRule::SizeMismatch { tensor, expected, found });
    }
    Ok(Entry { dtype, shape, range: data.start + start..absolute_end })
}

/// Parses a type and returns it with the bytes per element. All types are accepted, because a model may hold unused tensors (masks, rotary
/// caches). Types whose elements are not whole bytes are rejected.
fn parse_dtype(name: &str) -> Option<(Dtype, u64)> {
    let dtype = Dtype::deserialize(StrDeserializer::<serde::de::value::Error>::new(name)).ok()?;
    let bits = dtype.bitsize() as u64;
    bits.is_multiple_of(8).then_some((dtype, bits / 8))
}

/// Checks that the tensors cover every byte of `data` exactly once, so that no data can be hidden in the file.
fn check_cover(entries: &[(String, Entry)], data: &Range<u64>) -> Result<(), WeightsRule> {
    let mut in_order: Vec<_> = entries.iter().map(|(name, entry)| (entry.range.start, entry.range.end, name)).collect();
    in_order.sort_unstable();
    let mut covered = data.start;
    let mut other = "";
    for (start, end, name) in in_order {
        let tensor = || name.clone();
        if start < covered {
            return Err(WeightsRule::Overlap { tensor: tensor(), other: other.to_owned() });
        }
        if start > covered {
            return Err(WeightsRule::Gap { tensor: tensor(), bytes: start - covered });
        }
        (covered, other) = (end, name);
    }
    if covered < data.end { Err(WeightsRule::DataTail { bytes: data.end - covered }) } else { Ok(()) }
}

/// Parses the header as JSON and checks types of values and that names are allowed and unique, but not the numbers.
fn read_entries(header: &[u8]) -> Result<BTreeMap<String, TensorInfo>, WeightsRule> {
    if header.first() != Some(&b'{') {
        return Err(WeightsRule::HeaderNotObject);
    }
    let text = std::str::from_utf8(header).map_err(|_| WeightsRule::HeaderNotUtf8)?;
    let reason = |error: Error| quote(&error.to_string());
    let mut json = serde_json::Deserializer::from_str(text);
    let members = Members::deserialize(&mut json);
    let Members(members) = members.map_err(|error| WeightsRule::HeaderNotJson { reason: reason(error) })?;
    json.end().map_err(|_| WeightsRule::HeaderTail)?;
    let (mut entries, mut metadata) = (BTreeMap::new(), None);
    for (tensor, value) in members {
        check_name(&tensor)?;
        if tensor == METADATA {
            if metadata.replace(value).is_some() {
                return Err(WeightsRule::DuplicateTensor { tensor });
            }
            strings(value).map_err(|error| WeightsRule::BadMetadata { reason: reason(error) })?;
        } else if entries.contains_key(&tensor) {
            return Err(WeightsRule::DuplicateTensor { tensor });
        } else if entries.len() >= MAX_TENSORS {
            return Err(WeightsRule::TooManyTensors { limit: MAX_TENSORS });
        } else {
            match TensorInfo::parse(value.get()) {
                Ok(info) => entries.insert(tensor, info),
                Err(error) => return Err(WeightsRule::BadTensorInfo { tensor, reason: reason(error) }),
            };
        }
    }
    Ok(entries)
}

/// The only key of a header that is not a tensor. It holds an object of strings.
const METADATA: &str = "__metadata__";

/// Unchecked tensor of the header. The crate's `TensorInfo` does not fit: its `usize` offsets would limit files to 4 GiB in the browser,
/// and it accepts unknown fields and arrays.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TensorInfo {
    dtype: String,
    shape: Vec<u64>,
    data_offsets: Vec<u64>,
}

impl TensorInfo {
    /// Parses an object. Serde's derive would also accept an array of the field values.
    fn parse(json: &str) -> Result<Self, Error> {
        if json.starts_with('{') { serde_json::from_str(json) } else { Err(Error::custom("it is not an object")) }
    }
}

/// Members of an object, in order; serde's maps would keep the last of two equal keys. Members beyond all limits are omitted.
struct Members<'a>(Vec<(String, &'a RawValue)>);

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(json: D) -> Result<Self, D::Error> {
        struct Object;
        impl<'de> Visitor<'de> for Object {
            type Value = Members<'de>;

            fn expecting(&self, text: &mut fmt::Formatter) -> fmt::Result {
                text.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members<'de>, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    // One more than the tensors and the metadata.
                    if members.len() < MAX_TENSORS + 2 {
                        members.push(member);
                    }
                }
                Ok(Members(members))
            }
        }
        json.deserialize_map(Object)
    }
}

/// Parses an object of strings. Refuses repeated keys and too many.
fn strings(json: &RawValue) -> Result<BTreeMap<String, String>, Error> {
    let Members(members) = serde_json::from_str(json.get())?;
    if members.len() > MAX_TENSORS {
        return Err(Error::custom(format_args!("more than {MAX_TENSORS} keys")));
    }
    let mut map = BTreeMap::new();
    for (key, value) in members {
        if map.insert(key.clone(), serde_json::from_str(value.get())?).is_some() {
            return Err(Error::custom(format_args!("the key {key:?} is there twice")));
        }
    }
    Ok(map)
}
