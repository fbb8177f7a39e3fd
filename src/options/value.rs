//! Values of options: reading them from JSON, and their allowed ranges.

use super::describe::Kind;
use crate::constraint::ResponseFormat;
use crate::error::{Error, Result};
use serde::Deserialize;
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::{RangeFrom, RangeInclusive};

pub(super) fn bad<T>(option: impl Into<Cow<'static, str>>, value: impl ToString, allowed: &str) -> Result<T> {
    Err(Error::BadOption { option: option.into(), value: value.to_string(), allowed: allowed.into() })
}

/// Type of an option.
pub(super) trait OptionValue: Sized {
    /// Reads a value. The error states the allowed values.
    fn from_json(value: &Value) -> Result<Self, String>;

    /// Returns the value, or the part of it, that is not allowed.
    fn outside(&self, _: &Allowed) -> Option<String> {
        None
    }

    /// Returns the kind of values, for the program and the web.
    fn kind() -> Kind;
}

/// Allowed values of an option, if its type has more.
pub(super) enum Allowed {
    /// Numbers from the first to the second.
    Numbers(f64, f64),
    /// Names of a choice.
    Names(Vec<&'static str>),
}

impl From<RangeInclusive<u64>> for Allowed {
    fn from(range: RangeInclusive<u64>) -> Self {
        Self::Numbers(*range.start() as f64, *range.end() as f64)
    }
}

impl From<RangeFrom<u64>> for Allowed {
    fn from(range: RangeFrom<u64>) -> Self {
        Self::Numbers(range.start as f64, f64::INFINITY)
    }
}

impl From<RangeInclusive<f32>> for Allowed {
    fn from(range: RangeInclusive<f32>) -> Self {
        Self::Numbers((*range.start()).into(), (*range.end()).into())
    }
}

impl<const N: usize> From<[&'static str; N]> for Allowed {
    fn from(names: [&'static str; N]) -> Self {
        Self::Names(names.into())
    }
}

impl Allowed {
    fn excludes(&self, number: f64) -> bool {
        matches!(self, Self::Numbers(min, max) if !(min..=max).contains(&&number))
    }
}

impl fmt::Display for Allowed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The bounds of fractions are f32; as f64 they would have more digits.
        let short = |bound: f64| if bound.fract() == 0.0 { bound.to_string() } else { (bound as f32).to_string() };
        match self {
            Self::Names(names) => f.write_str(&names.join(", ")),
            Self::Numbers(min, max) if *min == f64::from(f32::MIN_POSITIVE) => {
                write!(f, "more than 0, up to {}", short(*max))
            }
            Self::Numbers(min, f64::INFINITY) => write!(f, "{} or more", short(*min)),
            Self::Numbers(min, max) => write!(f, "{} to {}", short(*min), short(*max)),
        }
    }
}

/// Implements [`OptionValue`] for types that serde reads.
macro_rules! values {
    ($($type:ty: $kind:ident, $expected:literal $(, |$value:ident, $allowed:ident| $outside:expr)?;)*) => {
        $(impl OptionValue for $type {
            fn from_json(value: &Value) -> Result<Self, String> {
                Self::deserialize(value).map_err(|_| $expected.into())
            }

            $(fn outside(&self, $allowed: &Allowed) -> Option<String> {
                let $value = self;
                $outside
            })?

            fn kind() -> Kind {
                Kind::$kind
            }
        })*
    };
}

values! {
    bool: Flag, "true or false";
    usize: Count, "a whole number, 0 or more", |value, allowed| allowed.excludes(*value as f64).then(|| value.to_string());
    u64: Count, "a whole number, 0 or more", |value, allowed| allowed.excludes(*value as f64).then(|| value.to_string());
    f32: Number, "a number", |value, allowed| allowed.excludes((*value).into()).then(|| value.to_string());
    String: Text, "a text";
    Vec<String>: Texts, "a list of texts";
    BTreeMap<u32, f32>: Biases, "an object with numbers by token id", |biases, allowed| {
        let outside = biases.iter().find(|(_, bias)| allowed.excludes(f64::from(**bias)))?;
        Some(format!("{} for token {}", outside.1, outside.0))
    };
    Vec<Vec<u32>>: Sequences, "a list of lists of token ids";
    Vec<Map<String, Value>>: Objects, "a list of objects";
    Map<String, Value>: Object, "an object";
    ResponseFormat: Format, "an object with a type";
}

impl<T: OptionValue> OptionValue for Option<T> {
    fn from_json(value: &Value) -> Result<Self, String> {
        T::from_json(value).map(Some)
    }

    fn outside(&self, allowed: &Allowed) -> Option<String> {
        self.as_ref()?.outside(allowed)
    }

    fn kind() -> Kind {
        T::kind()
    }
}
