//! Checked reading of a JSON object: each number has a range, each error names the key.

use crate::error::{Error, Result};
use serde_json::{Map, Value};
use std::ops::RangeInclusive;

/// A JSON object whose values are read with a range and an error that names the key. As in transformers, null differs from missing, and few
/// keys may be null.
pub(super) struct Keys {
    file: String,
    prefix: String,
    values: Map<String, Value>,
    /// Keys with a different name in this object: (name for the caller, name in the object).
    called: &'static [(&'static str, &'static str)],
}

impl Keys {
    pub fn parse(file: &str, bytes: &[u8]) -> Result<Self> {
        let bad = |reason: String| Error::BadConfig { file: file.into(), key: "-".into(), reason };
        match serde_json::from_slice(bytes) {
            Ok(Value::Object(values)) => Ok(Self::new(file, values)),
            Ok(_) => Err(bad("it is not a JSON object".into())),
            Err(error) => Err(bad(format!("it is not JSON: {error}"))),
        }
    }

    pub fn new(file: &str, values: Map<String, Value>) -> Self {
        Self { file: file.into(), prefix: String::new(), values, called: &[] }
    }

    /// Removes keys.
    pub fn without(mut self, keys: &[&str]) -> Self {
        self.values.retain(|key, _| !keys.contains(&key.as_str()));
        self
    }

    /// Moves the values of older keys to newer ones: (older key, newer key).
    pub fn preferring(mut self, older: &[(&str, &str)]) -> Self {
        for (older, newer) in older {
            if let Some(value) = self.values.remove(*older) {
                self.values.insert((*newer).into(), value);
            }
        }
        self
    }

    /// Sets keys with different names.
    ///
    /// # Errors
    /// [`Error::BadConfig`] if a key has different values under its two names.
    pub fn renamed(self, called: &'static [(&'static str, &'static str)]) -> Result<Self> {
        for (key, here) in called {
            // The usual name may be that of another key here.
            let is_other = called.iter().any(|(_, here)| here == key);
            if !is_other && self.values.contains_key(*key) && self.values.get(*key) != self.values.get(*here) {
                return self.bad(key, format!("models of this kind call it {here}, which has another value"));
            }
        }
        Ok(Self { called, ..self })
    }

    pub fn with(mut self, key: &str, value: Value) -> Self {
        self.values.insert(key.into(), value);
        self
    }

    /// Sets a value for a missing key.
    pub fn or(mut self, key: &str, value: Value) -> Self {
        self.values.entry(key).or_insert(value);
        self
    }

    /// Adds the entries of an inner object; they replace existing ones.
    ///
    /// # Errors
    /// [`Error::BadConfig`] if the value is not an object.
    pub fn with_all_of(mut self, key: &str) -> Result<Self> {
        let inner = self.object(key)?;
        self.values.extend(inner.values);
        Ok(self)
    }

    fn name<'a>(&self, key: &'a str) -> &'a str {
        self.called.iter().find(|(other, _)| *other == key).map_or(key, |(_, here)| here)
    }

    /// Returns the value, which may be null; `None` if it is missing.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.values.get(self.name(key))
    }

    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.values.iter().map(|(key, value)| (key.as_str(), value))
    }

    pub fn bad<T>(&self, key: &str, reason: String) -> Result<T> {
        Err(Error::BadConfig { file: self.file.clone(), key: format!("{}{}", self.prefix, self.name(key)), reason })
    }

    pub fn required(&self, key: &str) -> Result<&Value> {
        self.get(key).map_or_else(|| self.bad(key, "it is missing".into()), Ok)
    }

    /// Returns the value; `None` if it is missing or null.
    pub fn optional(&self, key: &str) -> Option<&Value> {
        self.get(key).filter(|value| !value.is_null())
    }

    /// Returns an object, empty if it is missing or null.
    pub fn object(&self, key: &str) -> Result<Self> {
        let values = match self.optional(key) {
            None => Map::new(),
            Some(Value::Object(values)) => values.clone(),
            Some(_) => return self.bad(key, "it is not an object".into()),
        };
        Ok(Self { prefix: format!("{}{key}.", self.prefix), ..Self::new(&self.file, values) })
    }

    pub fn text<'a>(&'a self, key: &str, default: Option<&'a str>) -> Result<&'a str> {
        match (self.get(key), default) {
            (None, Some(default)) => Ok(default),
            _ => self.required(key)?.as_str().map_or_else(|| self.bad(key, "it is not a string".into()), Ok),
        }
    }

    pub fn flag(&self, key: &str, default: bool) -> Result<bool> {
        match self.get(key) {
            None => Ok(default),
            Some(Value::Bool(flag)) => Ok(*flag),
            Some(_) => self.bad(key, "it is neither true nor false".into()),
        }
    }

    pub fn count(&self, key: &str, range: RangeInclusive<usize>) -> Result<usize> {
        let value = self.required(key)?;
        match value.as_u64().and_then(|n| usize::try_from(n).ok()).filter(|n| range.contains(n)) {
            Some(n) => Ok(n),
            None => self.bad(key, format!("{value} is not a whole number from {} to {}", range.start(), range.end())),
        }
    }

    pub fn count_or(&self, key: &str, range: RangeInclusive<usize>, default: usize) -> Result<usize> {
        if self.get(key).is_some() { self.count(key, range) } else { Ok(default) }
    }

    /// Returns a count; `None` if the value is null.
    pub fn nullable(&self, key: &str, range: RangeInclusive<usize>, default: Option<usize>) -> Result<Option<usize>> {
        match self.get(key) {
            None => Ok(default),
            Some(Value::Null) => Ok(None),
            Some(_) => self.count(key, range).map(Some),
        }
    }

    pub fn number(&self, key: &str, range: RangeInclusive<f64>) -> Result<f64> {
        let value = self.required(key)?;
        match value.as_f64().filter(|n| range.contains(n)) {
            Some(n) => Ok(n),
            None => self.bad(key, format!("{value} is not a number from {} to {}", range.start(), range.end())),
        }
    }

    pub fn number_or(&self, key: &str, range: RangeInclusive<f64>, default: f64) -> Result<f64> {
        if self.get(key).is_some() { self.number(key, range) } else { Ok(default) }
    }

    pub fn list(&self, key: &str, lengths: RangeInclusive<usize>) -> Result<Option<&[Value]>> {
        match self.optional(key) {
            None => Ok(None),
            Some(Value::Array(list)) if lengths.contains(&list.len()) => Ok(Some(list)),
            Some(_) => self.bad(key, format!("it is not a list of {} entries", lengths.start())),
        }
    }

    pub fn numbers(&self, key: &str, count: usize, range: RangeInclusive<f64>) -> Result<Vec<f64>> {
        let Some(list) = self.list(key, count..=count)? else { return self.bad(key, "it is missing".into()) };
        let numbers: Option<_> = list.iter().map(|value| value.as_f64().filter(|n| range.contains(n))).collect();
        let reason = || format!("not all of it are numbers from {} to {}", range.start(), range.end());
        numbers.map_or_else(|| self.bad(key, reason()), Ok)
    }

    /// Returns one token id or a list of them, empty if null.
    pub fn tokens(&self, key: &str, default: &[u32]) -> Result<Vec<u32>> {
        let ids = match self.get(key) {
            None => return Ok(default.to_vec()),
            Some(Value::Null) => return Ok(Vec::new()),
            Some(Value::Array(ids)) => ids.as_slice(),
            Some(id) => std::slice::from_ref(id),
        };
        let parsed: Option<Vec<u32>> = ids.iter().map(|id| id.as_u64().and_then(|id| u32::try_from(id).ok())).collect();
        parsed.map_or_else(|| self.bad(key, "it is neither a token id nor a list of them".into()), Ok)
    }
}
