//! Keys and values of a GGUF file's header, and the reader that parses them.

use std::collections::BTreeMap;
use std::ops::Range;

use serde_json::Value;

use super::check_name;
use crate::error::WeightsRule;

/// Maximum size of a header, vocabulary included, in bytes. The header of Gemma 3 has 7 MiB without merges.
const MAX_HEADER: u64 = 64 << 20;
const MAX_DEPTH: usize = 4;

/// Reason why a header could not be read from the available bytes.
pub(super) enum Stop {
    /// The bytes end too early: at least the file's bytes up to this offset are needed.
    More(u64),
    /// The header breaks a rule.
    Broken(WeightsRule),
}

impl From<WeightsRule> for Stop {
    fn from(rule: WeightsRule) -> Self {
        Self::Broken(rule)
    }
}

/// Keys and values that precede the tensors. Values stay encoded until requested, because a vocabulary is large.
#[derive(Debug)]
pub struct Metadata {
    pub(super) bytes: Vec<u8>,
    pub(super) values: BTreeMap<String, MetadataField>,
}

/// Position of a value in the header.
#[derive(Debug)]
pub(super) struct MetadataField {
    kind: u32,
    range: Range<usize>,
}

impl Metadata {
    /// Returns the value of a key. Nested arrays and values that JSON lacks, such as infinity, become null.
    pub fn get(&self, key: &str) -> Option<Value> {
        let (kind, mut reader) = self.find(key)?;
        reader.value(kind).ok()
    }

    /// Returns the strings of an array; `None` if the value is anything else.
    pub fn texts(&self, key: &str) -> Option<impl ExactSizeIterator<Item = &str>> {
        let (count, mut reader) = self.array(key, |kind| kind == TEXT)?;
        Some((0..count).map(move |_| reader.text().unwrap_or_default()))
    }

    /// Returns the numbers of an array; `None` if the value is anything else.
    pub fn numbers(&self, key: &str) -> Option<impl ExactSizeIterator<Item = f64>> {
        let mut number = 0;
        let (count, mut reader) = self.array(key, |kind| {
            number = kind;
            kind != TEXT && kind != ARRAY && kind != BOOL
        })?;
        Some((0..count).map(move |_| reader.value(number).ok().and_then(|value| value.as_f64()).unwrap_or(f64::NAN)))
    }

    /// Returns each key, in order, with its type number and the bytes of its value.
    pub fn entries(&self) -> impl Iterator<Item = (&str, u32, &[u8])> {
        let value = |range: &Range<usize>| self.bytes.get(range.clone()).unwrap_or_default();
        self.values.iter().map(move |(key, field)| (key.as_str(), field.kind, value(&field.range)))
    }

    fn find(&self, key: &str) -> Option<(u32, MetadataReader<'_>)> {
        let MetadataField { kind, range } = self.values.get(key)?;
        let bytes = self.bytes.get(range.clone())?;
        Some((*kind, MetadataReader { bytes, at: 0, size: bytes.len() as u64 }))
    }

    fn array(&self, key: &str, mut is_wanted: impl FnMut(u32) -> bool) -> Option<(usize, MetadataReader<'_>)> {
        let (ARRAY, mut reader) = self.find(key)? else { return None };
        let kind = reader.u32().ok()?;
        let count = reader.u64().ok()?;
        is_wanted(kind).then_some((usize::try_from(count).ok()?, reader))
    }
}

const BOOL: u32 = 7;
const TEXT: u32 = 8;
const ARRAY: u32 = 9;

/// Returns the size of a value in bytes: `None` if it is not fixed, an error if the type is unknown.
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

/// Reader of a header.
pub(super) struct MetadataReader<'a> {
    /// First bytes of the file, or all bytes of a value.
    bytes: &'a [u8],
    pub at: usize,
    /// Size of the whole file, in bytes.
    size: u64,
}

impl<'a> MetadataReader<'a> {
    /// Starts at the beginning of a file of `size` bytes.
    pub fn new(bytes: &'a [u8], size: u64) -> Self {
        Self { bytes, at: 0, size }
    }

    pub fn take(&mut self, bytes: u64) -> Result<&'a [u8], Stop> {
        let end = (self.at as u64).saturating_add(bytes);
        if end > self.size {
            return Err(WeightsRule::HeaderCut { end, bytes: self.size }.into());
        }
        if end > MAX_HEADER {
            return Err(WeightsRule::HeaderTooLarge { bytes: end, limit: MAX_HEADER }.into());
        }
        // The cast cannot truncate, because the limit fits into `usize`.
        let end = end as usize;
        let part = self.bytes.get(self.at..end).ok_or(Stop::More(end as u64))?;
        self.at = end;
        Ok(part)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Stop> {
        Ok(self.take(N as u64)?.first_chunk().copied().unwrap_or([0; N]))
    }

    pub fn u32(&mut self) -> Result<u32, Stop> {
        self.array().map(u32::from_le_bytes)
    }

    pub fn u64(&mut self) -> Result<u64, Stop> {
        self.array().map(u64::from_le_bytes)
    }

    pub fn text(&mut self) -> Result<&'a str, Stop> {
        let bytes = self.u64()?;
        std::str::from_utf8(self.take(bytes)?).map_err(|_| WeightsRule::HeaderNotUtf8.into())
    }

    pub fn key(&mut self) -> Result<(String, MetadataField), Stop> {
        let key = self.text()?;
        check_name(key)?;
        let kind = self.u32()?;
        let start = self.at;
        self.skip(kind, 0).map_err(|stop| match stop {
            Ok(stop) => stop,
            Err(reason) => WeightsRule::BadValue { key: key.to_owned(), reason }.into(),
        })?;
        Ok((key.to_owned(), MetadataField { kind, range: start..self.at }))
    }

    /// Skips a value and checks it. `Err(Err(reason))`: the value itself is invalid.
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
            // Each string takes at least 8 bytes, so the loop ends at the end of the file at the latest.
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

    /// Reads a value that [`Self::skip`] has checked.
    fn value(&mut self, kind: u32) -> Result<Value, Stop> {
        Ok(match kind {
            0 => self.array().map(u8::from_le_bytes)?.into(),
            1 => self.array().map(i8::from_le_bytes)?.into(),
            2 => self.array().map(u16::from_le_bytes)?.into(),
            3 => self.array().map(i16::from_le_bytes)?.into(),
            4 => self.u32()?.into(),
            5 => self.array().map(i32::from_le_bytes)?.into(),
            // Parsing the decimal text turns a config's 1e-5 into the f64 1e-5, not into the nearest f32.
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
}
