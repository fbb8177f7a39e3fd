//! The safetensors format: parses untrusted bytes into a checked tensor table, or returns the rule that they break.
//!
//! A file is the header's length (8 bytes, little-endian), the header (a JSON object: name -> dtype, shape, offsets), and the data, which
//! the tensors must cover exactly. Sizes are checked `u64` numbers, because `usize` has 32 bits in the browser. They are compared with a
//! limit before memory is allocated.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;

use safetensors::Dtype;
use serde::Deserialize;
use serde::de::value::{MapAccessDeserializer, StrDeserializer};
use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};

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
    let index: Object<Index> =
        serde_json::from_slice(index).map_err(|error| WeightsRule::BadIndex { reason: quote(&error.to_string()) })?;
    let map = index.0.weight_map.0;
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
    let shape = info.shape.0;
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
    let &[start, end] = info.data_offsets.0.as_slice() else {
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
    let mut json = serde_json::Deserializer::from_str(text);
    let mut reader = HeaderReader::default();
    if let Err(error) = reader.deserialize(&mut json) {
        let reason = quote(&error.to_string());
        return Err(match (reader.broken, reader.current) {
            (Some(rule), _) => rule,
            (None, Some(name)) if error.is_data() && name == METADATA => WeightsRule::BadMetadata { reason },
            (None, Some(tensor)) if error.is_data() => WeightsRule::BadTensorInfo { tensor, reason },
            _ => WeightsRule::HeaderNotJson { reason },
        });
    }
    json.end().map_err(|_| WeightsRule::HeaderTail)?;
    Ok(reader.entries)
}

/// The only key of a header that is not a tensor. It holds an object of strings.
const METADATA: &str = "__metadata__";

/// Reads the header's object key by key. Serde's maps would silently keep the last of two equal keys.
#[derive(Default)]
struct HeaderReader {
    entries: BTreeMap<String, TensorInfo>,
    /// Key whose value is being read, for error messages.
    current: Option<String>,
    /// Rule that was broken if we raised the error. Serde's errors carry only text.
    broken: Option<WeightsRule>,
    has_metadata: bool,
}

impl HeaderReader {
    fn check_name(&self, name: &str) -> Result<(), WeightsRule> {
        let tensor = || name.to_owned();
        check_name(name)?;
        match name {
            METADATA if self.has_metadata => Err(WeightsRule::DuplicateTensor { tensor: tensor() }),
            METADATA => Ok(()),
            _ if self.entries.contains_key(name) => Err(WeightsRule::DuplicateTensor { tensor: tensor() }),
            _ if self.entries.len() >= MAX_TENSORS => Err(WeightsRule::TooManyTensors { limit: MAX_TENSORS }),
            _ => Ok(()),
        }
    }
}

impl<'de> DeserializeSeed<'de> for &mut HeaderReader {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
        json.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for &mut HeaderReader {
    type Value = ();

    fn expecting(&self, text: &mut fmt::Formatter) -> fmt::Result {
        text.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(name) = map.next_key::<String>()? {
            if let Err(rule) = self.check_name(&name) {
                self.broken = Some(rule);
                return Err(A::Error::custom("a rule is broken"));
            }
            self.current = Some(name.clone());
            if name == METADATA {
                self.has_metadata = true;
                map.next_value::<Strings>()?;
            } else {
                let Object(info) = map.next_value()?;
                self.entries.insert(name, info);
            }
            self.current = None;
        }
        Ok(())
    }
}

/// Unchecked tensor of the header. The crate's `TensorInfo` does not fit: its `usize` offsets would limit files to 4 GiB in the browser,
/// and it accepts unknown fields and arrays.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TensorInfo {
    dtype: String,
    shape: Numbers,
    data_offsets: Numbers,
}

#[derive(Deserialize)]
struct Index {
    weight_map: Strings,
}

/// `T` written as a JSON object. Serde's derive would also accept an array of the field values.
struct Object<T>(T);

/// Numbers of an array, cut off at one more than a shape may have, which suffices to see that there are too many.
struct Numbers(Vec<u64>);

/// Object of strings without duplicate keys.
struct Strings(BTreeMap<String, String>);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(json: D) -> Result<Self, D::Error> {
        struct Fields<T>(std::marker::PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Fields<T> {
            type Value = Object<T>;

            fn expecting(&self, text: &mut fmt::Formatter) -> fmt::Result {
                text.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Object<T>, A::Error> {
                T::deserialize(MapAccessDeserializer::new(map)).map(Object)
            }
        }
        json.deserialize_map(Fields(std::marker::PhantomData))
    }
}

impl<'de> Deserialize<'de> for Numbers {
    fn deserialize<D: Deserializer<'de>>(json: D) -> Result<Self, D::Error> {
        struct Items;
        impl<'de> Visitor<'de> for Items {
            type Value = Numbers;

            fn expecting(&self, text: &mut fmt::Formatter) -> fmt::Result {
                text.write_str("an array of whole numbers from 0")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Numbers, A::Error> {
                let mut numbers = Vec::with_capacity(MAX_DIMS);
                while let Some(number) = items.next_element()? {
                    if numbers.len() <= MAX_DIMS {
                        numbers.push(number);
                    }
                }
                Ok(Numbers(numbers))
            }
        }
        json.deserialize_seq(Items)
    }
}

impl<'de> Deserialize<'de> for Strings {
    fn deserialize<D: Deserializer<'de>>(json: D) -> Result<Self, D::Error> {
        struct Pairs;
        impl<'de> Visitor<'de> for Pairs {
            type Value = Strings;

            fn expecting(&self, text: &mut fmt::Formatter) -> fmt::Result {
                text.write_str("an object of strings")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Strings, A::Error> {
                let mut pairs = BTreeMap::new();
                while let Some((key, value)) = map.next_entry::<String, String>()? {
                    if pairs.len() >= MAX_TENSORS {
                        return Err(A::Error::custom(format_args!("more than {MAX_TENSORS} keys")));
                    }
                    if pairs.contains_key(&key) {
                        return Err(A::Error::custom(format_args!("the key {key:?} is there twice")));
                    }
                    pairs.insert(key, value);
                }
                Ok(Strings(pairs))
            }
        }
        json.deserialize_map(Pairs)
    }
}
